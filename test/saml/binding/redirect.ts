import t from 'tap'
import {
  checkRedirectSignature,
  readRedirect,
  redirectAddress,
  redirectAddressBehind,
} from '../../../lib/saml/binding/redirect.ts'
import { signElement, signElementBehind } from '../../../lib/saml/signature/sign.ts'
import { rsaPair } from '../../fixtures/saml/keys.ts'
import { cpuTimeOf } from '../../fixtures/time/cpu-time.ts'

const key = rsaPair('idp')
const rules = { certificates: [rsaPair('other').certificate, key.certificate], allowSha1: false }
const message = { name: 'SAMLRequest', xml: '<a>é</a>', relayState: 'x y&z' } as const

function queryOf(address: string): string {
  return address.slice(address.indexOf('?') + 1)
}

function read(query: string) {
  const found = readRedirect(query)
  if (found === undefined || typeof found === 'string') throw new Error(found ?? 'nothing')
  return found
}

t.test('a signed message comes back as it went, and its signature holds', async t => {
  const query = queryOf(redirectAddress('https://idp.example.org/sso', message, key))
  const found = read(query)
  t.match(found, { name: 'SAMLRequest', relayState: 'x y&z' })
  t.equal(found.bytes.toString(), message.xml)
  t.equal(checkRedirectSignature(found, rules), undefined)
})

t.test('the query of a location stays', async t => {
  t.match(
    redirectAddress('https://idp.example.org/sso?idp=1', message, undefined),
    /^https:\/\/idp\.example\.org\/sso\?idp=1&SAMLRequest=/,
  )
})

t.test(
  'parameters in another order, and lower case escapes, verify over the bytes that came',
  async t => {
    const query = queryOf(redirectAddress('https://i/', message, key))
    t.equal(checkRedirectSignature(read(query.split('&').reverse().join('&')), rules), undefined)
  },
)

t.test('34: any change breaks the signature', async t => {
  const query = queryOf(redirectAddress('https://i/', message, key))
  const changes = [
    query.replace('x%20y', 'x%20Y'),
    query.replace('x%20y', 'x+y'),
    query.replace(/SAMLRequest/, 'SAMLResponse'),
    query.replace(/&RelayState=[^&]*/, ''),
    query.replace(
      /SAMLRequest=[^&]*/,
      queryOf(redirectAddress('https://i/', { ...message, xml: '<evil/>' }, undefined)).split(
        '&',
      )[0] ?? '',
    ),
  ]
  for (const changed of changes)
    t.equal(checkRedirectSignature(read(changed), rules), 'signature_invalid', changed.slice(0, 40))
  t.equal(checkRedirectSignature(read(query), { ...rules, certificates: [] }), 'signature_invalid')
  t.equal(checkRedirectSignature(read(query.replace(/&SigAlg.*/, '')), rules), 'signature_missing')
})

t.test('18: algorithms: SHA-1 when allowed, MD5 and others never', async t => {
  const query = queryOf(redirectAddress('https://i/', message, key))
  const as = (uri: string) =>
    read(query.replace(/SigAlg=[^&]*/, `SigAlg=${encodeURIComponent(uri)}`))
  const sha1 = as('http://www.w3.org/2000/09/xmldsig#rsa-sha1')
  t.equal(checkRedirectSignature(sha1, rules), 'signature_sha1')
  t.equal(checkRedirectSignature(sha1, { ...rules, allowSha1: true }), 'signature_invalid')
  for (const uri of [
    'http://www.w3.org/2001/04/xmldsig-more#rsa-md5',
    'http://www.w3.org/2000/09/xmldsig#hmac-sha1',
    'constructor',
    '',
  ]) {
    t.equal(
      checkRedirectSignature(as(uri), { ...rules, allowSha1: true }),
      'signature_algorithm',
      uri,
    )
  }
})

t.test('34: two readings of one query are refused', async t => {
  const good = queryOf(redirectAddress('https://i/', message, key))
  const bad: ReadonlyArray<readonly [string, RegExp]> = [
    [`SAML%52equest=EVIL&${good}`, /percent-encoded/],
    [`${good}&SAMLRequest=EVIL`, /twice/],
    [`${good}&SAMLResponse=EVIL`, /at once/],
    [`${good}&Signature=`, /twice/],
    [`${good}&SAMLEncoding=other`, /SAMLEncoding/],
    ['SAMLRequest=%', /base64/],
    ['SAMLRequest=abc', /base64/],
    ['SAMLRequest=AAAA', /inflate/],
    [good.replace(/&Signature=.*/, ''), /without/],
    [good.replace(/Signature=.*/, 'Signature=!'), /base64/],
  ]
  for (const [query, problem] of bad) t.match(readRedirect(query), problem, query.slice(0, 30))
  t.equal(readRedirect('a=b&c'), undefined)
  t.equal(readRedirect(undefined), undefined)
})

t.test('36: a bomb is not inflated beyond what a message may have', async t => {
  const bomb = queryOf(
    redirectAddress('https://i/', { ...message, xml: 'a'.repeat(60_000_000) }, undefined),
  )
  let problem: ReturnType<typeof readRedirect>
  const time = await cpuTimeOf(() => {
    problem = readRedirect(bomb)
  })
  // Not compared by tap, which would print the message for minutes.
  t.ok(typeof problem === 'string' && /inflate/.test(problem))
  t.ok(time < 2000, `${time} ms`)
})

t.test('signatures for requests are made two at a time, and are those made at once', async t => {
  const many = Array.from({ length: 9 }, (_, i) => ({ ...message, relayState: `state ${i}` }))
  const addresses = await Promise.all(
    many.map(each => redirectAddressBehind('https://idp.example.org/sso', each, key)),
  )
  t.strictSame(
    addresses,
    many.map(each => redirectAddress('https://idp.example.org/sso', each, key)),
  )
  const broken = { ...key, privateKey: 'no key' }
  await t.rejects(redirectAddressBehind('https://idp.example.org/sso', message, broken))
  const unsigned = await redirectAddressBehind('https://i/', message, undefined)
  t.equal(unsigned, redirectAddress('https://i/', message, undefined))
  const text = '<a ID="_1"/>'
  t.equal(await signElementBehind(text, { id: '_1', key }), signElement(text, { id: '_1', key }))
})
