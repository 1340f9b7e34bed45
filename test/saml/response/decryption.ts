import { constants, createHash, publicEncrypt, randomBytes, X509Certificate } from 'node:crypto'
import t from 'tap'
import { type EncryptionMethods, encryptElement } from '../../../demo/idp/encrypt.ts'
import {
  decrypt as decryptParts,
  namesOfKeys,
  readEncrypted,
} from '../../../lib/saml/response/decryption.ts'
import { messageLimits, refusedBy } from '../../../lib/saml/xml/message.ts'
import { parseXml } from '../../../lib/saml/xml/scan.ts'
import { rsaPair } from '../../fixtures/saml/keys.ts'

const own = rsaPair('sp')
const other = rsaPair('stranger')

function decrypt(xml: string, keys: readonly string[] = [own.privateKey]) {
  const parsed = parseXml(xml, messageLimits)
  if (!parsed.ok) throw new Error(parsed.problem)
  try {
    return { ok: true, ...decryptParts(readEncrypted(parsed.root), keys) }
  } catch (error) {
    return refusedBy(error)
  }
}

function encrypted(text: string, methods: EncryptionMethods): string {
  return encryptElement('EncryptedAssertion', text, { certificate: own.certificate, methods })
}

t.test('every pair of methods we publish decrypts, with the old key too', async t => {
  for (const content of ['aes128-cbc', 'aes256-cbc', 'aes128-gcm', 'aes256-gcm'] as const) {
    for (const key of ['rsa-oaep-mgf1p', 'rsa-oaep-sha256'] as const) {
      const xml = encrypted('<a>é</a>', { content, key })
      t.match(
        decrypt(xml, [other.privateKey, own.privateKey]),
        { ok: true, text: '<a>é</a>' },
        `${content} ${key}`,
      )
      t.match(decrypt(xml, [other.privateKey]), { ok: false, because: 'encryption_key' })
    }
  }
})

/** EME-OAEP encoding (RFC 8017 section 7.1.1) with a digest and another hash for the mask, which Node cannot do. */
function oaep(key: Buffer, digest: string, mask: string, size: number): Buffer {
  const hash = (name: string, ...parts: readonly Buffer[]) => {
    const made = createHash(name)
    for (const part of parts) made.update(part)
    return made.digest()
  }
  const mgf = (seed: Buffer, length: number) => {
    const blocks = Array.from({ length: Math.ceil(length / 20) + 1 }, (_, i) =>
      hash(mask, seed, Buffer.from([0, 0, 0, i])),
    )
    return Buffer.concat(blocks).subarray(0, length)
  }
  const xor = (a: Buffer, b: Buffer) => Buffer.from(a.map((byte, i) => byte ^ (b[i] ?? 0)))
  const label = hash(digest)
  const db = Buffer.concat([
    label,
    Buffer.alloc(size - key.length - 2 * label.length - 2),
    Buffer.from([1]),
    key,
  ])
  const seed = randomBytes(label.length)
  const maskedDb = xor(db, mgf(seed, db.length))
  return Buffer.concat([Buffer.from([0]), xor(seed, mgf(maskedDb, seed.length)), maskedDb])
}

t.test('OAEP whose digest is SHA-256 and whose mask is SHA-1', async t => {
  const secrets = encrypted('<a/>', {
    content: 'aes256-gcm',
    key: 'rsa-oaep-mgf1p',
  })
  // Unwrap by our own key what was wrapped in the usual way, and wrap it in the other.
  const { privateDecrypt } = await import('node:crypto')
  const wrapped = /<xenc:CipherValue>([^<]+)/.exec(secrets)?.[1] ?? ''
  const padding = constants.RSA_PKCS1_OAEP_PADDING
  const key = privateDecrypt(
    { key: own.privateKey, padding, oaepHash: 'sha1' },
    Buffer.from(wrapped, 'base64'),
  )
  const { publicKey } = new X509Certificate(own.certificate)
  const again = publicEncrypt(
    { key: publicKey, padding: constants.RSA_NO_PADDING },
    oaep(key, 'sha256', 'sha1', 256),
  )
  const digest = '<ds:DigestMethod Algorithm="http://www.w3.org/2001/04/xmlenc#sha256"/>'
  const xml = secrets
    .replace(wrapped, again.toString('base64'))
    .replace(
      /(<xenc:EncryptionMethod Algorithm="[^"]*rsa-oaep-mgf1p")\/>/,
      `$1>${digest}</xenc:EncryptionMethod>`,
    )
  t.match(decrypt(xml), { ok: true, text: '<a/>' })
  t.match(decrypt(xml.replace('xmlenc#sha256', 'xmlenc#sha512')), {
    ok: false,
    because: 'encryption_key',
  })
})

t.test(
  '38: what cannot be decrypted has a code that tells a wrong key from a wrong document',
  async t => {
    const good = encrypted('<a/>', {
      content: 'aes256-cbc',
      key: 'rsa-oaep-mgf1p',
    })
    const oaepMethod = /(<xenc:EncryptionMethod Algorithm="[^"]*rsa-oaep-mgf1p")\/(>)/
    const sha = (name: string) =>
      `<ds:DigestMethod Algorithm="http://www.w3.org/2001/04/xmlenc#${name}"/>`
    const naming = (content: string) =>
      good.replace(oaepMethod, `$1>${content}</xenc:EncryptionMethod$2`)
    const wrapped = /(<xenc:CipherValue>)[^<]*/
    const xmlenc11 = 'http://www.w3.org/2009/xmlenc11#'
    const newer = naming(`<x:MGF xmlns:x="${xmlenc11}" Algorithm="${xmlenc11}mgf1sha1"/>`).replace(
      'http://www.w3.org/2001/04/xmlenc#rsa-oaep-mgf1p',
      `${xmlenc11}rsa-oaep`,
    )
    t.match(decrypt(newer), { ok: true })
    t.match(decrypt(newer.replace(/<x:MGF[^>]*>/, '')), { ok: true })
    const gcm = encrypted('<a/>', { content: 'aes256-gcm', key: 'rsa-oaep-mgf1p' })
    const cases: ReadonlyArray<readonly [string, string]> = [
      [good.replace('aes256-cbc', 'tripledes-cbc'), 'encryption_algorithm'],
      [good.replace('xmlenc#aes256-cbc', 'xmlenc#constructor'), 'encryption_algorithm'],
      [good.replace('rsa-oaep-mgf1p', 'rsa-1_5'), 'encryption_algorithm'],
      [good.replace('aes256-cbc', 'aes128-cbc'), 'encryption_document'],
      [good.replace(/(.*<xenc:CipherValue>)..../, '$1AAAA'), 'encryption_document'],
      [good.replace(/<xenc:CipherValue>[^<]*/, '<xenc:CipherValue>AAAA'), 'encryption_key'],
      [good.replace(/<xenc:CipherValue>[^<]*/g, '<xenc:CipherValue>!'), 'encryption_form'],
      [good.replaceAll('EncryptedKey', 'Other'), 'encryption_form'],
      [good.replaceAll('EncryptedData', 'Other'), 'encryption_form'],
      [good.replace(/ Algorithm="[^"]*aes256-cbc"/, ''), 'encryption_algorithm'],
      [good.replace(/ Algorithm="[^"]*rsa-oaep-mgf1p"/, ''), 'encryption_algorithm'],
      [naming(sha('none')), 'encryption_algorithm'],
      [naming('<ds:DigestMethod/>'), 'encryption_algorithm'],
      [good.replace(wrapped, '$1*'), 'encryption_form'],
      [good.replace(wrapped, '$1AAAA'), 'encryption_key'],
      [newer.replace('mgf1sha1', 'mgf1md5'), 'encryption_algorithm'],
      [newer.replace(` Algorithm="${xmlenc11}mgf1sha1"`, ''), 'encryption_algorithm'],
      [newer.replace(/<x:MGF[^>]*>/, sha('sha512')).replace(wrapped, '$1AAAA'), 'encryption_key'],
      [gcm.replace(/(.*<xenc:CipherValue>)[^<]*/s, '$1AAAA'), 'encryption_document'],
      [
        encrypted('no document', {
          content: 'aes256-gcm',
          key: 'rsa-oaep-mgf1p',
        }),
        'encryption_document',
      ],
    ]
    for (const [xml, because] of cases) t.match(decrypt(xml), { ok: false, because }, because)
  },
)

t.test('a byte order mark before what was encrypted is no part of it', t => {
  for (const content of ['aes256-cbc', 'aes256-gcm'] as const) {
    const methods = { content, key: 'rsa-oaep-mgf1p' } as const
    t.match(decrypt(encrypted('\ufeff<a>é</a>', methods)), { ok: true, text: '<a>é</a>' })
    const two = decrypt(encrypted('\ufeff\ufeff<a/>', methods))
    t.match(two, { ok: false, because: 'encryption_document', problem: /not well-formed/ })
  }
  t.end()
})

t.test('38: every EncryptedKey has one name, whatever is around it', t => {
  const methods = { content: 'aes256-cbc', key: 'rsa-oaep-mgf1p' } as const
  const text = encrypted('<a/>', methods)
  const names = (xml: string) => {
    const parsed = parseXml(xml, messageLimits)
    if (!parsed.ok) throw new Error(parsed.problem)
    return namesOfKeys(readEncrypted(parsed.root))
  }
  const [name = ''] = names(text)
  t.match(name, /^[\w-]{43}$/)
  t.not(names(encrypted('<a/>', methods))[0], name)
  const [, key = ''] = /<xenc:CipherValue>([^<]*)/.exec(text) ?? []
  const zeros = Buffer.concat([Buffer.alloc(2), Buffer.from(key, 'base64')]).toString('base64')
  for (const other of [
    text.replace(key, key.replace(/.{20}/g, '$& \n')),
    text.replace(key, zeros),
    text.replace(/(.*<xenc:CipherValue>)..../, '$1AAAA'),
    text.replaceAll('xenc', 'x'),
  ]) {
    t.strictSame(names(other), [name])
  }
  t.end()
})
