/**
 * docs/forged-tokens.json: forty values of the field of a signed identity that an application has to refuse, and two that it has to accept.
 * `npm run manual` writes the file; a test fails while it is out of date, and runs the verifiers of docs/identity-token.md against it.
 *
 * The file is always the same: the keys are test keys that stand here, and ECDSA takes its nonce from the key and the message, as RFC 6979
 * does. Nothing but this file trusts these keys. Times are far from now, so that a verifier needs no clock of its own: what is valid has
 * been since 2020 and will be until 2100.
 */
import {
  createCipheriv,
  createECDH,
  createHash,
  createHmac,
  createPrivateKey,
  createPublicKey,
  diffieHellman,
  type KeyObject,
  sign,
} from 'node:crypto'
import { jsonText } from '../lib/json.ts'

const ISSUER = 'https://app.example.org'
const AUDIENCE = 'https://app.example.org'
const OTHER = 'https://other.example.net'

const YEAR_2010 = 1_262_304_000
const YEAR_2020 = 1_577_836_800
const YEAR_2099 = 4_070_908_800
const YEAR_2100 = 4_102_444_800

/** A value that has to be refused, and what a verifier that accepts it has forgotten. `lines`: the lines of the field, usually one. */
interface Forgery {
  readonly name: string
  readonly because: string
  readonly lines: readonly string[]
}

type Json = Readonly<Record<string, unknown>>

/** A test key of P-256: its private number is the digest of its name. */
function keyOf(name: string) {
  const scalar = createHash('sha256').update(`forged-tokens ${name}`).digest()
  const ecdh = createECDH('prime256v1')
  ecdh.setPrivateKey(scalar)
  const point = ecdh.getPublicKey()
  const x = point.subarray(1, 33).toString('base64url')
  const y = point.subarray(33).toString('base64url')
  const jwk = { kty: 'EC', crv: 'P-256', x, y } as const
  const key = createPrivateKey({ key: { ...jwk, d: scalar.toString('base64url') }, format: 'jwk' })
  return { jwk, scalar, key, pem: createPublicKey(key).export({ type: 'spki', format: 'pem' }) }
}

const ours = keyOf('ours')
const second = keyOf('ours, the second')
const theirs = keyOf('theirs')
const KID = 'f0f1f2f3f4f5f6f7'
const SECOND_KID = 'e0e1e2e3e4e5e6e7'

const HEADER = { alg: 'ES256', typ: 'JWT', kid: KID } as const
const CLAIMS = {
  ...{ iss: ISSUER, aud: AUDIENCE, sub: 'ada@example.org', iat: YEAR_2020, nbf: YEAR_2020 },
  ...{ exp: YEAR_2100, auth_time: YEAR_2020, groups: ['staff'], email: 'ada@example.org' },
  ...{ name: 'Ada Lovelace', instance: 'app' },
} as const
const ADMIN = { ...CLAIMS, sub: 'admin@example.org', email: 'admin@example.org' } as const

const encoded = (value: Json | string | Buffer) =>
  (typeof value === 'string' || Buffer.isBuffer(value)
    ? Buffer.from(value)
    : Buffer.from(JSON.stringify(value))
  ).toString('base64url')

const ORDER = BigInt('0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551')
const number = (bytes: Buffer) => BigInt(`0x${bytes.toString('hex')}`)
const bytes32 = (value: bigint) => Buffer.from(value.toString(16).padStart(64, '0'), 'hex')

function inverse(value: bigint): bigint {
  let [power, result, base] = [ORDER - 2n, 1n, value % ORDER]
  for (; power > 0n; power >>= 1n) {
    if (power & 1n) result = (result * base) % ORDER
    base = (base * base) % ORDER
  }
  return result
}

/** ES256 (RFC 7518 section 3.4) that gives the same signature each time. Not for secrets: it takes a time that depends on the key. */
function es256(input: string, { scalar }: { readonly scalar: Buffer }): Buffer {
  const nonce = createHmac('sha256', scalar).update(input).digest()
  const ecdh = createECDH('prime256v1')
  ecdh.setPrivateKey(nonce)
  const r = number(ecdh.getPublicKey().subarray(1, 33)) % ORDER
  const digest = number(createHash('sha256').update(input).digest())
  const s = (inverse(number(nonce)) * (digest + r * number(scalar))) % ORDER
  return Buffer.concat([bytes32(r), bytes32(s)])
}

/** A token: `header` and `claims` as objects, or as the text of their JSON. */
function token(
  header: Json | string,
  claims: Json | string,
  signature: (input: string) => Buffer | string,
): string {
  const input = `${encoded(header)}.${encoded(claims)}`
  return `${input}.${encoded(signature(input))}`
}

const byUs = (input: string) => es256(input, ours)
const byThem = (input: string) => es256(input, theirs)
const unsigned = () => ''
const hmac = (algorithm: string, secret: string | Buffer) => (input: string) =>
  createHmac(algorithm, secret).update(input).digest()
const good = token(HEADER, CLAIMS, byUs)
const [goodHeader = '', goodClaims = '', goodSignature = ''] = good.split('.')
const withSignature = (signature: Buffer | string) =>
  `${encoded(HEADER)}.${encoded(ADMIN)}.${encoded(signature)}`

/** Signed by us, with these claims instead: what our key signs for others, or signed at another time. */
const ofOurs = (claims: Json) => token(HEADER, { ...CLAIMS, ...claims }, byUs)
/** Signed by the attacker, with these members of the header. */
const ofTheirs = (header: Json) => token({ ...HEADER, ...header }, ADMIN, byThem)

const without = (name: keyof typeof CLAIMS) =>
  Object.fromEntries(Object.entries(CLAIMS).filter(([claim]) => claim !== name))

/** What is forged with the algorithm. */
function* algorithms(): Generator<readonly [name: string, because: string, token: string]> {
  const none = (alg: unknown) => token({ ...HEADER, alg }, ADMIN, unsigned)
  yield ['alg none', 'no signature at all', none('none')]
  yield ['alg nOnE', 'the word in other letters', none('nOnE')]
  yield [
    'alg none, signed',
    'the signature of another token under a header that asks for none',
    `${encoded({ ...HEADER, alg: 'none' })}.${encoded(ADMIN)}.${goodSignature}`,
  ]
  yield ['no alg', 'the algorithm is not for the token to choose', none(undefined)]
  const hs256 = { ...HEADER, alg: 'HS256' }
  const jwk = JSON.stringify({ ...ours.jwk, kid: KID, use: 'sig', alg: 'ES256' })
  yield [
    'HS256 with the public key in PEM',
    'a public key taken for a secret',
    token(hs256, ADMIN, hmac('sha256', ours.pem.toString())),
  ]
  yield [
    'HS256 with the JWK',
    'a public key taken for a secret',
    token(hs256, ADMIN, hmac('sha256', jwk)),
  ]
  yield ['HS256 without a secret', 'an empty secret', token(hs256, ADMIN, hmac('sha256', ''))]
  yield [
    'HS512 with the public key in PEM',
    'the same with another hash',
    token({ ...HEADER, alg: 'HS512' }, ADMIN, hmac('sha512', ours.pem.toString())),
  ]
  yield [
    'EdDSA',
    'an algorithm of which the set has no key',
    token({ ...HEADER, alg: 'EdDSA' }, ADMIN, input => sign(null, Buffer.from(input), edKey())),
  ]
}

/** Ed25519, which signs the same each time. */
function edKey(): KeyObject {
  const der = Buffer.from('302e020100300506032b657004220420', 'hex')
  const seed = createHash('sha256').update('forged-tokens ed25519').digest()
  return createPrivateKey({ key: Buffer.concat([der, seed]), format: 'der', type: 'pkcs8' })
}

/** What is forged with the key. */
function* keys(): Generator<readonly [name: string, because: string, token: string]> {
  const theirSet = `${OTHER}/jwks.json`
  yield ['another key under our kid', 'the signature is not ours', ofTheirs({})]
  yield ['another key under its own kid', 'a kid that the set has not', ofTheirs({ kid: 'a0' })]
  yield ['another key without a kid', 'any key would do', ofTheirs({ kid: undefined })]
  yield ['jwk', 'a key that the token brings', ofTheirs({ jwk: theirs.jwk })]
  yield ['jku', 'the address of keys that the token names', ofTheirs({ jku: theirSet })]
  yield ['x5u', 'the address of certificates that the token names', ofTheirs({ x5u: theirSet })]
  const spki = createPublicKey(theirs.key).export({ type: 'spki', format: 'der' })
  yield ['x5c', 'certificates that the token brings', ofTheirs({ x5c: [spki.toString('base64')] })]
  const device = { ...HEADER, alg: 'HS256', kid: '../../../../dev/null' }
  yield ['kid as a path', 'a kid opened as an empty file', token(device, ADMIN, hmac('sha256', ''))]
  const kid = "x' UNION SELECT 'secret' -- "
  yield [
    'kid as a query',
    'a kid put into a query',
    token({ ...HEADER, alg: 'HS256', kid }, ADMIN, hmac('sha256', 'secret')),
  ]
}

/** What is forged with the signature. */
function* signatures(): Generator<readonly [name: string, because: string, token: string]> {
  yield [
    'signature of zeros',
    'r and s of 0, for any message (CVE-2022-21449)',
    withSignature(Buffer.alloc(64)),
  ]
  yield [
    'signature of the order',
    'r and s of the order of the curve',
    withSignature(Buffer.concat([bytes32(ORDER), bytes32(ORDER)])),
  ]
  yield ['no signature', 'nothing behind the second dot', withSignature('')]
  yield [
    'signature of another token',
    'claims changed, signature kept',
    `${goodHeader}.${encoded(ADMIN)}.${goodSignature}`,
  ]
  yield [
    'another header',
    'header changed, signature kept',
    `${encoded({ ...HEADER, cty: 'JWT' })}.${goodClaims}.${goodSignature}`,
  ]
  const twice = JSON.stringify(CLAIMS).replace('"sub":', '"sub":"admin@example.org","sub":')
  yield [
    'sub twice',
    'a claim added before the signed one',
    `${goodHeader}.${encoded(twice)}.${goodSignature}`,
  ]
  const critical = { ...HEADER, b64: false, crit: ['b64'] }
  yield [
    'crit',
    'an extension that makes the payload another one (RFC 7797)',
    `${encoded(critical)}.${goodClaims}.${goodSignature}`,
  ]
}

/** What is signed by us, and not for this application or not for now. */
function* claims(): Generator<readonly [name: string, because: string, token: string]> {
  yield ['old', 'exp has passed', ofOurs({ iat: YEAR_2010, nbf: YEAR_2010, exp: YEAR_2020 })]
  yield ['not yet', 'nbf has not come', ofOurs({ iat: YEAR_2099, nbf: YEAR_2099 })]
  yield ['another audience', 'for another application of the same keys', ofOurs({ aud: OTHER })]
  yield [
    'audience that begins alike',
    'compared by its beginning',
    ofOurs({ aud: `${AUDIENCE}.example.net` }),
  ]
  yield [
    'audience with another letter',
    'a letter of another alphabet that looks the same',
    ofOurs({ aud: AUDIENCE.replace('app', '\u0430pp') }),
  ]
  yield ['no audience', 'for anybody', token(HEADER, without('aud'), byUs)]
  yield ['another issuer', 'of another instance of the same keys', ofOurs({ iss: OTHER })]
  yield ['no issuer', 'of anybody', token(HEADER, without('iss'), byUs)]
}

/** What is no JWS in compact form. */
function* shapes(): Generator<readonly [name: string, because: string, token: string]> {
  yield ['truncated', 'the end is missing', good.slice(0, -12)]
  yield [
    'padding',
    'base64url has none here, and it was not signed',
    `${goodHeader}==.${goodClaims}.${goodSignature}`,
  ]
  yield ['blank', 'white space that lenient decoders skip', good.replace('.', '. ')]
  yield ['fourth part', 'something behind the signature', `${good}.${goodSignature}`]
  const json = { payload: goodClaims, protected: goodHeader, signature: goodSignature }
  yield ['JSON', 'another serialization (RFC 7515 section 7.2)', JSON.stringify(json)]
  yield ['JWE', 'encrypted with our public key, as anyone can', encrypted()]
}

/** A token encrypted for our public key (RFC 7516; ECDH-ES with A128GCM). */
function encrypted(): string {
  const header = encoded({ alg: 'ECDH-ES', enc: 'A128GCM', kid: KID, epk: theirs.jwk })
  const secret = diffieHellman({ privateKey: theirs.key, publicKey: createPublicKey(ours.key) })
  const word = (text: string) =>
    Buffer.concat([Buffer.from([0, 0, 0, text.length]), Buffer.from(text)])
  // Concat KDF (RFC 7518 section 4.6.2) with the counter 1, no parties, and 128 bits.
  const info = [
    Buffer.from([0, 0, 0, 1]),
    secret,
    word('A128GCM'),
    word(''),
    word(''),
    Buffer.from([0, 0, 0, 128]),
  ]
  const key = createHash('sha256').update(Buffer.concat(info)).digest().subarray(0, 16)
  const cipher = createCipheriv('aes-128-gcm', key, Buffer.alloc(12)).setAAD(Buffer.from(header))
  const text = Buffer.concat([cipher.update(JSON.stringify(ADMIN)), cipher.final()])
  return [header, '', encoded(Buffer.alloc(12)), encoded(text), encoded(cipher.getAuthTag())].join(
    '.',
  )
}

/** What the corpus has. */
export function forgedTokens() {
  const one = [...algorithms(), ...keys(), ...signatures(), ...claims(), ...shapes()]
  const forged: readonly Forgery[] = [
    ...one.map(([name, because, line]) => ({ name, because, lines: [line] })),
    {
      name: 'two lines',
      because: 'one is read here and the other there',
      lines: [ofTheirs({}), good],
    },
  ]
  return {
    about:
      'Values of the field of a signed identity, by test keys that nothing else trusts. See docs/identity-token.md.',
    expected: { issuer: ISSUER, audience: AUDIENCE, algorithms: ['ES256'] },
    jwks: {
      keys: [
        { ...second.jwk, kid: SECOND_KID, use: 'sig', alg: 'ES256' },
        { ...ours.jwk, kid: KID, use: 'sig', alg: 'ES256' },
      ],
    },
    good: [
      { name: 'good', lines: [good] },
      {
        name: 'good, of the second key',
        lines: [token({ ...HEADER, kid: SECOND_KID }, CLAIMS, input => es256(input, second))],
      },
    ],
    forged,
  }
}

/** The file: its path in the repository and its text. */
export function forgedTokensFile(): readonly [path: string, content: string] {
  return ['docs/forged-tokens.json', jsonText(forgedTokens())]
}
