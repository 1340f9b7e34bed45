/**
 * Checks the OpenPGP signature of a Release file against the keys of the system's or the archive's keyrings. Only this file imports
 * openpgp, and it loads it only when there is a signature to check.
 */
import { createHash } from 'node:crypto'
import type { Key, SignaturePacket, VerifyMessageResult, VerifyOptions } from 'openpgp'
import type { Milliseconds } from '../../../async/clock.ts'
import { unframe } from '../../archive/release.ts'
import type { Signature } from '../generation.ts'
import { clockTolerance } from '../policy.ts'
import { type SignatureFacts, signatureEnd } from './apt-policy.ts'
import { certificatesOf, keyringFiles } from './keyrings.ts'

/** Checks a Release file. It is signed in place unless a detached signature is given. Never rejects because of the bytes of the files. */
export async function checkSignature(
  release: Buffer,
  detached: Buffer | undefined,
  { keyrings, now }: { readonly keyrings: readonly string[]; readonly now: Milliseconds },
): Promise<Signature> {
  const inPlace = detached === undefined
  if (inPlace && !release.subarray(0, begin.length).equals(begin)) return { is: 'unsigned' }
  const files = await keyringFiles(keyrings)
  if (files.length === 0 && inPlace) return { is: 'unchecked' }
  const signed = inPlace ? signedInPlace(release) : { content: release, signature: detached }
  if (signed === undefined || signed.signature.length > mostSignatureBytes) {
    return { is: 'unsigned' }
  }
  const openpgp = await import('openpgp')
  try {
    const message = await openpgp.createMessage({ binary: new Uint8Array(signed.content) })
    const signature = signed.signature.includes('-----BEGIN PGP')
      ? await openpgp.readSignature({ armoredSignature: signed.signature.toString('latin1') })
      : await openpgp.readSignature({ binarySignature: new Uint8Array(signed.signature) })
    const packets = [...signature.packets].map(packet => Buffer.from(packet.write()))
    const verify: Verify = given => openpgp.verify({ message, signature, ...given })
    const keysOf: KeysOf = ids => readKeys(files, ids, openpgp)
    const ends = signatureEnd(await factsOf(packets, keysOf))
    const found = { ...(await judged(verify, keysOf, now)), ...(ends && { ends }) }
    if (inPlace || found.is !== 'unknown-key') return found
    // A signature packet shows without the key whether it was made for this content.
    const fits = packets.every(packet => wasMadeFor(release, packet))
    if (!fits) return { is: 'bad' }
    return files.length === 0 ? { is: 'unchecked' } : found
  } catch {
    // Bytes that are not a signature count as no signature.
    return { is: 'unsigned' }
  }
}

const begin = Buffer.from('-----BEGIN PGP SIGNED MESSAGE-----')

/** The longest signature: enough for some dozens of keys. Each signature of a known key costs a check. */
const mostSignatureBytes = 64 * 1024

/**
 * The text that is signed in place, and its signature; undefined when there is no signature. `unframe` reads it, as it reads the fields,
 * and each byte is one character, because a Release file may have any encoding. The lines of the signed text end with CRLF, except the
 * last one (RFC 9580 section 7.2).
 */
function signedInPlace(release: Buffer): { content: Buffer; signature: Buffer } | undefined {
  const found = unframe(release.toString('latin1'))
  if ('because' in found || found.signature === undefined) return undefined
  const { text, signature } = found
  const content = Buffer.from(text.slice(0, -1).replaceAll('\n', '\r\n'), 'latin1')
  return { content, signature: Buffer.from(signature, 'latin1') }
}

/** Checks all signatures against keys at a date. */
type Verify = (
  given: Pick<VerifyOptions, 'verificationKeys' | 'date'>,
) => Promise<Pick<VerifyMessageResult, 'signatures'>>

/** The facts for apt's policy: those of the signatures of known keys, or of all signatures when no key is known. */
async function factsOf(packets: readonly Buffer[], keysOf: KeysOf): Promise<SignatureFacts[]> {
  const all = packets.flatMap(packet => packetFacts(packet) ?? [])
  const keys = await keysOf(all.map(({ issuer }) => issuer))
  const known: SignatureFacts[] = []
  for (const { issuer, ...facts } of all) {
    for (const key of keys.filter(one => one.getKeyIDs().some(id => id.toHex() === issuer))) {
      // Each copy of a key counts, because apt may have the copy that was extended.
      known.push({ ...facts, ...(await keyFacts(key, issuer)) })
    }
  }
  return known.length > 0 ? known : all
}

type PacketFacts = SignatureFacts & { readonly issuer: string }

/** The facts in a signature packet (RFC 9580 section 5.2, RFC 4880 section 5.2.2 for version 3); undefined for other packets. */
function packetFacts(packet: Buffer): PacketFacts | undefined {
  const [version = 0] = packet
  if (version === 3 && packet.length > 17) {
    const [algorithm = 0, hash = 0] = packet.subarray(15, 17)
    return { version, algorithm, hash, issuer: packet.toString('hex', 7, 15) }
  }
  if (version !== 4 || packet.length < 10) return undefined
  const [, , algorithm = 0, hash = 0] = packet
  const unhashed = 6 + packet.readUInt16BE(4)
  if (unhashed + 2 > packet.length) return undefined
  const left = unhashed + 2 + packet.readUInt16BE(unhashed)
  // The length of an RSA key is computed from the signature, which is as long as the modulus except for leading zeros.
  const isRsa = algorithm >= 1 && algorithm <= 3 && left + 4 <= packet.length
  const bits = isRsa ? Math.ceil(packet.readUInt16BE(left + 2) / 64) * 64 : undefined
  const areas = [packet.subarray(6, unhashed), packet.subarray(unhashed + 2, left)]
  return { version, algorithm, hash, bits, issuer: areas.map(issuerIn).find(id => id !== '') ?? '' }
}

/** The key ID in an area of subpackets, hex, from the issuer's ID (16) or fingerprint (33); empty when the area has neither. */
function issuerIn(area: Buffer): string {
  for (let at = 0; at + 1 < area.length; ) {
    const first = area.readUInt8(at)
    const wide = first >= 192 && first < 255 && at + 2 <= area.length
    const length = wide ? (first - 192) * 256 + area.readUInt8(at + 1) + 192 : first
    const begins = at + (wide ? 2 : 1)
    if (first === 255 || length === 0) return ''
    const content = area.subarray(begins + 1, begins + length)
    const type = area[begins]
    if (type === 16 && content.length === 8) return content.toString('hex')
    if (type === 33 && content.length === 21) return content.toString('hex', 13)
    at = begins + length
  }
  return ''
}

/** The facts of a key in a keyring. A fact that cannot be read does not count. */
async function keyFacts(
  key: Key,
  issuer: string,
): Promise<Pick<SignatureFacts, 'curve' | 'expires' | 'bindings'>> {
  const subkey = key.getSubkeys().find(one => one.getKeyID().toHex() === issuer)
  const ends = await Promise.all(
    [key, subkey].map(one => one?.getExpirationTime().catch(() => undefined)),
  )
  const moments = ends.flatMap(at => (at instanceof Date ? at.getTime() : []))
  const { curve } = (subkey ?? key).getAlgorithmInfo()
  const hashesOf = (packets: readonly SignaturePacket[]) =>
    packets.flatMap(({ hashAlgorithm }) => hashAlgorithm ?? [])
  const bindings = [key.users.flatMap(({ selfCertifications }) => selfCertifications)]
  if (subkey !== undefined) bindings.push(subkey.bindingSignatures)
  return {
    curve,
    expires: moments.length === 0 ? undefined : Math.min(...moments),
    bindings: bindings.map(hashesOf),
  }
}

/** The certificates that have a key with one of these IDs. */
type KeysOf = (ids: readonly string[]) => Promise<readonly Key[]>

/** The messages of openpgp for a content that was not signed. Its other messages concern the key, the dates and the algorithms. */
const mismatches: ReadonlySet<string> = new Set([
  'Signed digest did not match',
  'Signature verification failed',
])

/**
 * Judges all signatures together. One good signature is enough. A signature that does not fit the content counts more than signatures of
 * unknown keys. An expired key may have been extended under the same fingerprint, so its signature counts as that of an unknown key, and
 * every copy of a key is tried.
 */
async function judged(verify: Verify, keysOf: KeysOf, now: Milliseconds): Promise<Signature> {
  const dates = [new Date(now), new Date(now + clockTolerance)]
  const all = await verify({ verificationKeys: [], date: new Date(now) })
  if (all.signatures.length === 0) return { is: 'unsigned' }
  const known = await keysOf(all.signatures.map(({ keyID }) => keyID.toHex()))
  let bad: Signature | undefined
  for (const key of known) {
    const signer = { by: key.getFingerprint(), ...ownerOf(key) }
    for (const date of dates) {
      const { signatures } = await verify({ verificationKeys: [key], date })
      for (const { verified } of signatures) {
        try {
          await verified
          return { is: 'good', ...signer }
        } catch (error) {
          if (error instanceof Error && mismatches.has(error.message))
            bad ??= { is: 'bad', ...signer }
        }
      }
    }
  }
  return bad ?? { is: 'unknown-key' }
}

const longestOwner = 120

/** The first user ID of a certificate, on one line: `Example Archive <archive@example.org>`. The keyring has it, not the signature. */
function ownerOf(key: Key): Pick<Signature, 'owner'> {
  const [id = ''] = key.getUserIDs()
  const owner = id.replace(/[\p{C}\s]+/gu, ' ').trim()
  return owner === '' ? {} : { owner: owner.slice(0, longestOwner) }
}

async function readKeys(
  files: readonly string[],
  ids: readonly string[],
  openpgp: typeof import('openpgp'),
): Promise<readonly Key[]> {
  const certificates = await certificatesOf(files, ids, async text => {
    const { data } = await openpgp.unarmor(text)
    if (!(data instanceof Uint8Array)) throw new Error('it is not a keyring')
    return data
  })
  const keys = await Promise.all(
    certificates.map(bytes =>
      openpgp.readKey({ binaryKey: new Uint8Array(bytes) }).catch(() => undefined),
    ),
  )
  return keys.flatMap(key => key ?? [])
}

/** Names of the hash algorithms of OpenPGP (RFC 9580 section 9.5). */
const hashNames: ReadonlyMap<number, string> = new Map([
  [1, 'md5'],
  [2, 'sha1'],
  [8, 'sha256'],
  [9, 'sha384'],
  [10, 'sha512'],
  [11, 'sha224'],
  [12, 'sha3-256'],
  [14, 'sha3-512'],
])

/**
 * Whether the content has the two bytes of the digest that a signature packet of version 4 contains (RFC 9580 sections 5.2.3 and 5.2.4).
 * True for packets of another kind.
 */
function wasMadeFor(content: Buffer, packet: Buffer): boolean {
  const [version, type, , algorithm = 0] = packet
  const name = hashNames.get(algorithm)
  if (version !== 4 || type !== 0 || name === undefined || packet.length < 10) return true
  const hashed = 6 + packet.readUInt16BE(4)
  if (hashed + 2 > packet.length) return true
  const left = hashed + 2 + packet.readUInt16BE(hashed)
  const trailer = Buffer.from([4, 0xff, 0, 0, 0, 0])
  trailer.writeUInt32BE(hashed, 2)
  const hash = createHash(name).update(content).update(packet.subarray(0, hashed)).update(trailer)
  return packet.subarray(left, left + 2).equals(hash.digest().subarray(0, 2))
}
