import t from 'tap'
import { foreignName, isIdentityField } from '../../../lib/auth/access/foreign-names.ts'
import { fieldNames, strippedNames } from '../../../lib/auth/config/field-names.ts'
import { backendFields } from '../../../lib/auth/identity/backend-fields.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import { seeded } from '../../fixtures/chance/seeded-random.ts'

/** Characters of names, with the words that have a meaning to one of the rules. */
const pieces = [
  ...["'", '-', '_', '.', '--', '-_', '~', 'X', 'x', 'a', '0', 'Z'],
  ...['Authproxy', 'AUTHPROXY', 'X-Authproxy', 'x_authproxy', 'User', 'Auth', 'proxy', 'max'],
  ...['Forwarded', 'Real', 'IP', 'For', 'Proto', 'Host', 'Content', 'Length', 'Transfer'],
  ...['Encoding', 'Connection', 'Upgrade', 'Proxy', 'Original', 'URL', 'Client'],
]

const stripped = strippedNames(fieldNames(['authproxy']))

/** Names that say where a message ends, spelt oddly. */
const samples = ['Transfer_Encoding', 'content_length', 'Content-Length', 'TRANSFER_encoding']

/** The rules as they were before names of a megabyte were thought of. */
const plain = {
  identity: (name: string) =>
    `-${name.toLowerCase().replace(/[^a-z0-9]+/g, '-')}-`.includes('-x-authproxy-'),
  oddlySpelt: (name: string) =>
    !/^[a-z-]*$/i.test(name.replace(/^-|--|-$/, '_')) &&
    ['content-length', 'transfer-encoding', 'host', 'connection', 'upgrade'].includes(
      name
        .toLowerCase()
        .replace(/[^a-z0-9]+/g, '-')
        .replace(/^-|-$/g, ''),
    ),
}

t.test('a name is one of ours by the plain rule, whatever separates its words', t => {
  const chance = seeded(39)
  let ours = 0
  for (let i = 0; i < 50_000; i += 1) {
    const name = chance.text(pieces, 7)
    const expected = plain.identity(name)
    if (expected) ours += 1
    if (isIdentityField(name) !== expected) t.fail(name)
  }
  t.ok(ours > 1000, `${ours} names are ours`)
  t.ok(isIdentityField(`${'a-'.repeat(500_000)}X${'-'.repeat(500_000)}Authproxy`))
  t.end()
})

t.test('what reaches the backend is what the plain rules let pass', t => {
  const chance = seeded(40)
  const added = {
    identity: Fields.empty,
    isKnown: false,
    own: Fields.empty,
    basicAuth: false,
    stripped,
  }
  let odd = 0
  for (let i = 0; i < 50_000; i += 1) {
    const name =
      i % 2 === 0
        ? chance.text(pieces, 5)
        : chance.mutate(chance.pick(samples), ['_', '-', 'o', 'T'])
    if (name === '' || name.toLowerCase() === 'host') continue
    // The other families and the rules about one hop have tests of their own.
    const family = foreignName(name)?.family ?? 'framing'
    if (family !== 'framing' && family !== 'identity') continue
    if (/^(?:connection|upgrade|transfer-encoding)$/i.test(name)) continue
    const expected = !(plain.identity(name) || plain.oddlySpelt(name))
    if (plain.oddlySpelt(name)) odd += 1
    if ((backendFields(Fields.of([name, 'x']), added).count === 1) !== expected) t.fail(name)
  }
  t.ok(odd > 1000, `${odd} names are oddly spelt`)
  t.notOk(backendFields(Fields.of(['Transfer_Encoding', 'x']), added).has('Transfer_Encoding'))
  t.notOk(backendFields(Fields.of(['content_LENGTH', 'x']), added).has('content_length'))
  t.end()
})

t.test('with Basic credentials as identity, those of a client do not pass', t => {
  const added = {
    identity: Fields.empty,
    isKnown: false,
    own: Fields.empty,
    basicAuth: true,
    stripped,
  }
  const passes = (value: string, isKnown = false) =>
    backendFields(Fields.of(['authorization', value]), { ...added, isKnown }).has('Authorization')
  t.notOk(passes('Basic YTpi'))
  t.notOk(passes(' basic'))
  t.ok(passes('Bearer x'))
  t.ok(passes('Basically x'))
  t.notOk(passes('Bearer x', true))
  t.end()
})
