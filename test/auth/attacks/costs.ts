/**
 * What strangers can make the gateway compute: each document that has been expensive is refused for a handful of milliseconds of CPU.
 */
import t from 'tap'
import { readLogout } from '../../../lib/auth/saml/binding/logout-message.ts'
import { verifyResponse } from '../../../lib/auth/saml/core/verify-response.ts'
import { edit } from '../../fixtures/attack-toolkit.ts'
import { ScriptedIdp } from '../../fixtures/idp.ts'
import { rsaPair } from '../../fixtures/saml-keys.ts'

const idp = new ScriptedIdp('entra', { now: () => 0 })
const good = idp.respond({ inResponseTo: '_a' })
const rules = {
  certificates: [idp.key.certificate],
  decryptionKeys: [rsaPair('sp').privateKey],
  allowSha1: false,
  signedOutside: false,
}

const inStatus = (text: string) => edit(good, ['<samlp:Status>', `<samlp:Status>${text}`])
const inAssertion = (text: string) =>
  edit(good, ['<saml:AttributeStatement>', `<saml:AttributeStatement>${text}`])
const inKeyInfo = (text: string) => edit(good, ['<ds:X509Data>', `${text}<ds:X509Data>`])
const attributes = (count: number, name: string) =>
  Array.from({ length: count }, (_, i) => ` ${name}${i}="urn:${i}"`).join('')
const nested = (levels: number, at: (level: number) => string, inside = '') =>
  `${Array.from({ length: levels }, (_, i) => `<a${at(i)}>`).join('')}${inside}${'</a>'.repeat(levels)}`
const declaring = (level: number) => attributes(31, `xmlns:n${level}_`)
const one =
  '<saml:Attribute Name="xxxxxxxxxxxxxxxxx"><saml:AttributeValue>v</saml:AttributeValue></saml:Attribute>'

const documents: Readonly<Record<string, string>> = {
  'nested namespaces': inStatus(nested(58, declaring)),
  'nested namespaces inside the assertion': inAssertion(nested(56, declaring)),
  'nested namespaces inside KeyInfo': inKeyInfo(nested(54, declaring)),
  'nested namespaces around many elements': inStatus(nested(30, declaring, '<b/>'.repeat(1800))),
  '31 attributes on 500 elements': inAssertion(`<a${attributes(31, 'a')}/>`.repeat(500)),
  '31 declarations on 300 elements': inAssertion(`<a${attributes(31, 'xmlns:n')}/>`.repeat(300)),
  '1,900 elements': inAssertion(one.repeat(940)),
  '1,900 elements inside KeyInfo': inKeyInfo('<ds:X><ds:Y>x</ds:Y></ds:X>'.repeat(940)),
  '48,000 references': inAssertion(`<a>${'&amp;'.repeat(48_000)}</a>`),
  '240 KB of text': inAssertion(`<a>${'x'.repeat(240_000)}</a>`),
  'a long list of prefixes': edit(good, [
    /(<ds:CanonicalizationMethod Algorithm="[^"]*">)/,
    `<ds:CanonicalizationMethod Algorithm="http://www.w3.org/2001/10/xml-exc-c14n#"><ec:InclusiveNamespaces xmlns:ec="http://www.w3.org/2001/10/xml-exc-c14n#" PrefixList="${'a '.repeat(100_000)}"/>`,
  ]),
}

/** The least of several runs, so that what else the machine does counts for little. */
async function cpuOf(work: () => unknown): Promise<number> {
  let least = Number.POSITIVE_INFINITY
  for (let run = 0; run < 12; run += 1) {
    const before = process.cpuUsage()
    await work()
    const { user, system } = process.cpuUsage(before)
    least = Math.min(least, (user + system) / 1000)
  }
  return least
}

for (const [what, text] of Object.entries(documents)) {
  t.test(`20: ${what} cost a login little, and a logout nothing`, async t => {
    const bytes = Buffer.from(text)
    t.match(await verifyResponse(bytes, rules), { ok: false })
    const login = await cpuOf(() => verifyResponse(bytes, rules))
    const logout = await cpuOf(() => readLogout(bytes, rules))
    t.comment(
      `${Math.round(bytes.length / 1024)} KB: ${login.toFixed(1)} ms, ${logout.toFixed(1)} ms`,
    )
    t.ok(login < 40, `${login} ms`)
    t.ok(logout < 10, `${logout} ms`)
  })
}
