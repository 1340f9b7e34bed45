/**
 * When apt stops taking a signature: the policy as a table, and keys of gpg.
 */
import t from 'tap'
import {
  type SignatureFacts,
  signatureEnd,
  signatureEndText,
} from '../../../../lib/cache/suites/signing/apt-policy.ts'
import { checkSignature } from '../../../../lib/cache/suites/signing/signature.ts'
import { noSigningKey, SigningKey } from '../../../fixtures/archive/signing-key.ts'

t.setTimeout(180_000)

/** Keys by their algorithm and their end. To make one of RSA or DSA takes seconds, so the tests share them. */
const keys = new Map<string, Promise<SigningKey>>()
t.teardown(async () => {
  for (const key of keys.values()) await (await key).close()
})

function keyOf(algorithm: string, expires = 'never'): Promise<SigningKey> {
  const name = `${algorithm} ${expires}`
  const key = keys.get(name) ?? SigningKey.create({ algorithm, expires })
  keys.set(name, key)
  return key
}

const sha256 = { version: 4, hash: 8, algorithm: 22 }
const rsa = { ...sha256, algorithm: 1 }

t.test('the ends of the policy', t => {
  const table: ReadonlyArray<readonly [readonly SignatureFacts[], string | undefined]> = [
    [[], undefined],
    [[sha256], undefined],
    [[{ ...sha256, hash: 10 }], undefined],
    [[{ ...sha256, hash: 1 }], '1997-02-01 MD5'],
    [[{ ...sha256, hash: 2 }], '2013-02-01 SHA-1'],
    [[{ ...sha256, hash: 11 }], '2026-02-01 SHA-224'],
    [[{ ...sha256, version: 3 }], '2026-02-01 a signature packet of version 3'],
    [[{ ...sha256, algorithm: 17 }], '2024-02-01 a DSA key'],
    [[{ ...rsa, bits: 1024 }], '2014-02-01 an RSA key below 2048 bits'],
    [[{ ...rsa, bits: 2048 }], '2030-02-01 an RSA key of 2048 bits'],
    [[{ ...rsa, bits: 3072 }], undefined],
    [[{ ...rsa, bits: 4096 }], undefined],
    [[rsa], undefined],
    [[{ ...sha256, curve: 'brainpoolP256r1' }], '2028-02-01 a Brainpool key'],
    [[{ ...sha256, expires: Date.parse('2027-05-06') }], '2027-05-06 the key expires'],
    [[{ ...rsa, bits: 2048, hash: 2 }], '2013-02-01 SHA-1'],
    [[{ ...rsa, bits: 2048, expires: Date.parse('2027-05-06') }], '2027-05-06 the key expires'],
    [[{ ...sha256, bindings: [[2]] }], '2026-02-01 SHA-1 within the certificate of the key'],
    [[{ ...sha256, bindings: [[2, 8]] }], undefined],
    [[{ ...sha256, bindings: [[8], [2]] }], '2026-02-01 SHA-1 within the certificate of the key'],
    [[{ ...sha256, bindings: [[], []] }], undefined],
    [[{ ...sha256, hash: 2 }, sha256], undefined],
    [
      [
        { ...sha256, hash: 2 },
        { ...rsa, bits: 2048 },
      ],
      '2030-02-01 an RSA key of 2048 bits',
    ],
    [
      [
        { ...rsa, bits: 2048 },
        { ...sha256, algorithm: 17 },
      ],
      '2030-02-01 an RSA key of 2048 bits',
    ],
  ]
  for (const [facts, is] of table) {
    const found = signatureEnd(facts)
    const text = found && `${new Date(found.at).toISOString().slice(0, 10)} ${found.because}`
    t.equal(text, is, JSON.stringify(facts))
  }
  const sha1 = signatureEnd([{ ...sha256, hash: 2 }]) ?? { at: 0, because: '' }
  t.equal(signatureEndText(sha1, sha1.at), 'apt refuses it since 2013-02-01: SHA-1')
  t.equal(signatureEndText(sha1, sha1.at - 1), 'apt takes it until 2013-02-01: SHA-1')
  t.end()
})

t.test('signatures of gpg', { skip: noSigningKey }, async t => {
  const now = Date.now() + 5000
  const text = 'Origin: Test\nSuite: stable\n'
  const cases = [
    ['ed25519', 'never', 'SHA512', undefined],
    ['rsa3072', 'never', 'SHA256', undefined],
    ['rsa2048', 'never', 'SHA256', 'an RSA key of 2048 bits'],
    ['rsa1024', 'never', 'SHA256', 'an RSA key below 2048 bits'],
    ['dsa2048', 'never', 'SHA256', 'a DSA key'],
    ['brainpoolP256r1', 'never', 'SHA256', 'a Brainpool key'],
    ['ed25519', '1y', 'SHA512', 'the key expires'],
    ['rsa3072', 'never', 'SHA1', 'SHA-1'],
    ['rsa3072', 'never', 'SHA224', 'SHA-224'],
  ] as const
  for (const [algorithm, expires, digest, because] of cases) {
    const key = await keyOf(algorithm, expires)
    const name = `${algorithm}, ${expires}, ${digest}`
    const detached = await key.detachSign(text, digest)
    const known = { keyrings: [key.keyring], now }
    const found = await checkSignature(Buffer.from(text), detached, known)
    t.equal(found.ends?.because, because, name)
    if (because === 'the key expires') {
      const days = ((found.ends?.at ?? 0) - now) / (24 * 3600 * 1000)
      t.ok(days > 360 && days < 367, `${days} days`)
    }
    const clear = await key.clearSign(text)
    const inPlace = await checkSignature(clear, undefined, known)
    if (!digest.startsWith('SHA1') && digest !== 'SHA224') {
      t.equal(inPlace.ends?.because, because, `${name}, in place`)
    }
  }
})

t.test('of keys that are not here, what the packet says', { skip: noSigningKey }, async t => {
  const other = await SigningKey.create()
  t.teardown(() => other.close())
  const text = 'Suite: stable\n'
  for (const [algorithm, digest, because] of [
    ['rsa2048', 'SHA256', 'an RSA key of 2048 bits'],
    ['rsa2048', 'SHA1', 'SHA-1'],
    ['dsa2048', 'SHA256', 'a DSA key'],
    ['brainpoolP256r1', 'SHA256', undefined],
  ] as const) {
    const key = await keyOf(algorithm)
    const found = await checkSignature(Buffer.from(text), await key.detachSign(text, digest), {
      keyrings: [other.keyring],
      now: Date.now() + 5000,
    })
    t.equal(found.is, 'unknown-key')
    t.equal(found.ends?.because, because, `${algorithm} ${digest}`)
  }
})

t.test('a signature packet of version 3, as old programs make', { skip: noSigningKey }, async t => {
  const other = await SigningKey.create()
  t.teardown(() => other.close())
  const content = Buffer.alloc(19)
  content.set([3, 5, 0, 0x60, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 1, 8, 0, 0])
  const packet = Buffer.concat([
    Buffer.from([0x88, content.length + 3]),
    content,
    Buffer.from([0, 1, 1]),
  ])
  const found = await checkSignature(Buffer.from('Suite: stable\n'), packet, {
    keyrings: [other.keyring],
    now: Date.now(),
  })
  t.equal(found.ends?.because, 'a signature packet of version 3')
})
