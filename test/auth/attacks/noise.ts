/**
 * Seeded noise in what strangers send: queries, forms, RelayState and metadata never crash the gateway and make no session.
 */
import t from 'tap'
import { safeReturn } from '../../../lib/auth/login/addresses.ts'
import { readRedirect } from '../../../lib/saml/binding/redirect.ts'
import { readIdpMetadata } from '../../../lib/saml/metadata/idp-metadata.ts'
import { hostilePieces, seeded } from '../../fixtures/chance/seeded-random.ts'
import { formOf } from '../../fixtures/saml/browser.ts'
import { SamlLab, signIn } from '../../fixtures/saml/lab.ts'
import { byRedirect, request } from '../../fixtures/saml/logout.ts'

const pieces = [
  ...hostilePieces,
  '&',
  'SAMLRequest=',
  'SAMLResponse=',
  'RelayState=',
  'Signature=',
  '%5c',
  '//',
  '/\\',
  '<a/>',
  '&#1;',
  '<!--',
  'xmlns:x="u"',
]

t.test(
  '34: a query with noise is a message, a sentence or nothing, and a changed one has no good signature',
  async t => {
    const lab = await SamlLab.open(t, 'entra')
    await signIn(lab)
    const address = byRedirect('SAMLRequest', request(lab))
    const query = address.slice(address.indexOf('?') + 1)
    for (let seed = 0; seed < 3000; seed += 1) readRedirect(seeded(seed).mutate(query, pieces))
    for (let seed = 0; seed < 150; seed += 1) {
      const changed = seeded(seed).mutate(query, pieces).replace(/#.*/s, '')
      if (changed === query) continue
      await lab.browser.get(`/saml/slo?${changed}`, ['Sec-Fetch-Site', 'cross-site'])
      if (!lab.browser.cookies.has('session')) t.fail(`seed ${seed}: ${changed}`)
    }
    t.strictSame(lab.revoked, [])
  },
)

t.test('26, 40: noise in a form or its RelayState makes no session', async t => {
  const lab = await SamlLab.open(t, 'entra', { config: { idpInitiated: true } })
  const text = lab.idp.respond({ inResponseTo: '_unknown' })
  const form = formOf({ SAMLResponse: Buffer.from(text).toString('base64'), RelayState: '/x' })
  for (let seed = 0; seed < 150; seed += 1) {
    await lab.browser.deliverRaw(seeded(seed).mutate(form, pieces))
  }
  t.strictSame(lab.subjects, [])
})

t.test('40: whatever RelayState says, a browser stays with us', async t => {
  for (let seed = 0; seed < 20_000; seed += 1) {
    const to = safeReturn(seeded(seed).mutate('/a/b?c=d', pieces))
    if (new URL(to, 'https://app.example.org').origin !== 'https://app.example.org') {
      t.fail(`seed ${seed}: ${to}`)
    }
  }
})

t.test('42: metadata with noise is read or refused', async t => {
  const lab = await SamlLab.open(t, 'entra')
  const rules = { entityId: undefined, certificates: undefined, allowSha1: false }
  let read = 0
  for (let seed = 0; seed < 1500; seed += 1) {
    const { ok } = readIdpMetadata(
      Buffer.from(seeded(seed).mutate(lab.idp.metadata(), pieces)),
      rules,
    )
    read += Number(ok)
  }
  t.ok(read > 0 && read < 1500, `${read} were read`)
})
