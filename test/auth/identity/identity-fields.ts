/** The fields that name a user to the application. */
import t from 'tap'
import type { Config } from '../../../lib/auth/config/config.ts'
import { fieldNames, strippedNames } from '../../../lib/auth/config/field-names.ts'
import { encodeValue, identityFields } from '../../../lib/auth/identity/identity-fields.ts'
import { mayBeBasicUser } from '../../../lib/auth/session/identity.ts'
import type { Session } from '../../../lib/auth/session/token.ts'

function session(attributes: Readonly<Record<string, readonly string[]>>, who = 'ada'): Session {
  return {
    browser: '',
    id: 's',
    subject: who,
    attributes: new Map(Object.entries(attributes)),
    issuer: 'i',
    nameId: undefined,
    sessionIndex: undefined,
    authenticated: 0,
    identitySettings: '',
    created: 0,
    expires: 1,
  }
}

const fieldRules: Config['identityFields'] = {
  claims: [],
  encoding: 'percent',
  limit: 100,
  basicAuth: false,
  names: fieldNames(['authproxy']),
  stripped: strippedNames(fieldNames(['authproxy'])),
}

t.test(
  'fields carry what is there, lists with their commas encoded, and say what is too long',
  t => {
    const fields = identityFields(
      session({
        displayName: ['Doe, John'],
        groups: ['a', 'b,c'],
        uid: ['1', '2,3'],
        roles: ['x'.repeat(200)],
      }),
      fieldRules,
    )
    t.equal(fields.get('X-Authproxy-User'), 'ada')
    t.equal(fields.get('X-Authproxy-Displayname'), 'Doe, John', 'a single value keeps its comma')
    t.equal(fields.get('X-Authproxy-Groups'), 'a,b%2Cc')
    t.equal(fields.get('X-Authproxy-Uid'), '1,2%2C3')
    t.notOk(fields.has('X-Authproxy-Roles'), 'never a part of a list')
    t.equal(fields.get('X-Authproxy-Omitted'), 'X-Authproxy-Roles')
    t.notOk(fields.has('X-Authproxy-Email'), 'empty ones are left out')
    t.end()
  },
)

t.test('Basic credentials carry the subject with an empty password, where that is possible', t => {
  const basic = (who: string) =>
    identityFields(session({}, who), { ...fieldRules, basicAuth: true }).get('Authorization')
  t.equal(basic('ada'), `Basic ${Buffer.from('ada:').toString('base64')}`)
  t.equal(basic('ada:admin'), undefined)
  t.notOk(mayBeBasicUser('a\nb'))
  t.end()
})

t.test('values are encoded so that decoding is no guess', t => {
  for (const text of [
    'plain',
    'two words',
    'C:\\x\ty',
    'Zoë',
    '100%',
    'a,b',
    '\r\nX: y',
    '日本',
    '😀',
    '%41',
    '\u0080',
  ]) {
    for (const inList of [true, false]) {
      const encoded = encodeValue(text, 'percent', inList)
      t.match(encoded, /^(?! )[\x20-\x7e]*(?<! )$/)
      t.equal(decodeURIComponent(encoded), text)
      if (inList) t.notMatch(encoded, ',')
      const raw = Buffer.from(encodeValue(text, 'utf8', inList), 'latin1').toString('utf8')
      t.notMatch(raw, /\p{Cc}/u)
      if (!/%/.test(text)) t.equal(decodeURIComponent(raw), text)
      if (/^[^,\p{Cc}]*$/u.test(text)) t.equal(raw, text, 'as it is')
    }
  }
  t.equal(encodeValue('Zoë', 'utf8', false), Buffer.from('Zoë').toString('latin1'))
  t.equal(decodeURIComponent(encodeValue('\ud800', 'percent', false)), '\ufffd')
  t.equal(encodeValue('100%,', 'utf8', true), '100%%2C')
  t.end()
})
