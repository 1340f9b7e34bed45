/**
 * Checks the OpenPGP signature of a Release file against the keys of the system's or the archive's keyrings. The only importer of
 * openpgp, which is loaded when there is a keyring.
 */
import { createHash } from 'node:crypto'
import type { Key } from 'openpgp'
import type { Milliseconds } from '../../async/clock.ts'
import { unframe } from '../archive/release.ts'
import type { Signature } from './generation.ts'
import { certificatesOf, keyringFiles } from './keyrings.ts'
import { ahead } from './policy.ts'

/** Checks a Release file, signed in place unless a detached signature is given. Never rejects for what the file contains. */
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
    const verify: Verify = given => openpgp.verify({ message, signature, ...given })
    const keysOf: KeysOf = ids => readKeys(files, ids, openpgp)
    const found = await judged(verify, keysOf, now)
    if (inPlace || found.is !== 'unknown-key') return found
    // Without the key it can still be seen whether this signature was made for this content.
    const fits = signature.packets.every(packet => wasMadeFor(release, Buffer.from(packet.write())))
    if (!fits) return { is: 'bad' }
    return files.length === 0 ? { is: 'unchecked' } : found
  } catch {
    // What is no signature at all is none of a known key.
    return { is: 'unsigned' }
  }
}

const begin = Buffer.from('-----BEGIN PGP SIGNED MESSAGE-----')

/** The signatures of some dozens of keys. Each one of a known key costs a check. */
const mostSignatureBytes = 64 * 1024

/**
 * The text that is signed in place, and its signature; undefined when there is none. Read by the same rules as its fields, and
 * byte by byte: a Release file may be in any encoding. Lines of what was signed end with CRLF, but for the last (RFC 9580
 * section 7.2).
 */
function signedInPlace(release: Buffer): { content: Buffer; signature: Buffer } | undefined {
  const found = unframe(release.toString('latin1'))
  if ('because' in found || found.signature === undefined) return undefined
  const { text, signature } = found
  const content = Buffer.from(text.slice(0, -1).replaceAll('\n', '\r\n'), 'latin1')
  return { content, signature: Buffer.from(signature, 'latin1') }
}

/** Checks all signatures against keys, as of a date. */
type Verify = (given: { readonly verificationKeys: Key[]; readonly date: Date }) => Promise<{
  readonly signatures: ReadonlyArray<{
    readonly keyID: ReturnType<Key['getKeyID']>
    readonly verified: Promise<true>
  }>
}>

/** The certificates that have a key with one of these IDs. */
type KeysOf = (ids: readonly string[]) => Promise<readonly Key[]>

/** What openpgp says when the content is not what was signed. All else it says is about the key, the dates and the algorithms. */
const mismatches: ReadonlySet<string> = new Set([
  'Signed digest did not match',
  'Signature verification failed',
])

/**
 * One good signature is enough; one that does not fit the content counts before those of unknown keys. A key that is expired
 * here may have been extended under the same fingerprint: its signature counts as that of an unknown key, and every copy of
 * the key is tried.
 */
async function judged(verify: Verify, keysOf: KeysOf, now: Milliseconds): Promise<Signature> {
  const dates = [new Date(now), new Date(now + ahead)]
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

/** The first user ID of a certificate, on one line: `Example Archive <archive@example.org>`. A keyring says it, and no signature. */
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
    if (!(data instanceof Uint8Array)) throw new Error('it is no keyring')
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
 * Whether the two bytes of the digest that stand in a signature packet of version 4 are those of the content (RFC 9580 sections
 * 5.2.3 and 5.2.4). True when the packet is of another kind.
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
