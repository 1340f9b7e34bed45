/**
 * Checks the OpenPGP signature of a Release file against the keys of the system's or the archive's keyrings. The only importer of
 * openpgp, which is loaded when there is a keyring.
 */
import { createHash } from 'node:crypto'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Key } from 'openpgp'
import type { CheckSignature } from './adopt.ts'
import type { Signature } from './generation.ts'

/** Checks a Release file, signed in place unless a detached signature is given. Never rejects for what the file contains. */
export const checkSignature: CheckSignature = async (release, detached, { keyrings, now }) => {
  const inPlace = detached === undefined
  const text = release.toString('utf8')
  if (inPlace && !text.startsWith('-----BEGIN PGP SIGNED MESSAGE-----')) return { is: 'unsigned' }
  const files = await keyFiles(keyrings)
  if (files.length === 0 && inPlace) return { is: 'unchecked' }
  const openpgp = await import('openpgp')
  const keys = await readKeys(files)
  try {
    const date = new Date(now)
    if (inPlace) {
      const message = await openpgp.readCleartextMessage({ cleartextMessage: text })
      const { signatures } = await openpgp.verify({ message, verificationKeys: keys, date })
      return await judged(signatures, keys)
    }
    const message = await openpgp.createMessage({ binary: new Uint8Array(release) })
    const signature = detached.includes('-----BEGIN PGP')
      ? await openpgp.readSignature({ armoredSignature: detached.toString('latin1') })
      : await openpgp.readSignature({ binarySignature: new Uint8Array(detached) })
    const checking = { message, signature, verificationKeys: keys, date }
    const { signatures } = await openpgp.verify(checking)
    const found = await judged(signatures, keys)
    if (found.is !== 'unknown-key') return found
    // Without the key it can still be seen whether this signature was made for this content.
    const fits = signature.packets.every(packet => wasMadeFor(release, Buffer.from(packet.write())))
    if (!fits) return { is: 'bad' }
    return files.length === 0 ? { is: 'unchecked' } : found
  } catch {
    // What is no signature at all is none of a known key.
    return { is: 'unsigned' }
  }
}

/** One good signature is enough; a wrong one of a known key counts before those of unknown keys. */
async function judged(
  signatures: ReadonlyArray<{
    readonly keyID: ReturnType<Key['getKeyID']>
    readonly verified: Promise<true>
  }>,
  keys: readonly Key[],
): Promise<Signature> {
  if (signatures.length === 0) return { is: 'unsigned' }
  let bad: Signature | undefined
  for (const { keyID, verified } of signatures) {
    const key = keys.find(one => one.getKeys(keyID).length > 0)
    try {
      await verified
      if (key !== undefined) return { is: 'good', by: key.getFingerprint() }
    } catch {
      if (key !== undefined) bad = { is: 'bad', by: key.getFingerprint() }
    }
  }
  return bad ?? { is: 'unknown-key' }
}

/** Keyrings are files of keys, armoured or not, and directories of such files. */
async function keyFiles(keyrings: readonly string[]): Promise<readonly string[]> {
  const files: string[] = []
  for (const path of keyrings) {
    const found = await stat(path).catch(() => undefined)
    if (found?.isFile()) files.push(path)
    if (!found?.isDirectory()) continue
    const names = await readdir(path).catch(() => [])
    for (const name of names.sort()) {
      if (/\.(gpg|asc|pgp)$/.test(name)) files.push(join(path, name))
    }
  }
  return files
}

/** Largest keyring that is read, bytes. */
const mostKeyringBytes = 16 * 1024 * 1024

async function readKeys(files: readonly string[]): Promise<Key[]> {
  const openpgp = await import('openpgp')
  const keys: Key[] = []
  for (const file of files) {
    try {
      const content = await readFile(file)
      if (content.length > mostKeyringBytes) continue
      const read = content.includes('-----BEGIN PGP')
        ? await openpgp.readKeys({ armoredKeys: content.toString('latin1') })
        : await openpgp.readKeys({ binaryKeys: new Uint8Array(content) })
      keys.push(...read)
    } catch {
      // A file that holds no keys, such as a keybox of GnuPG, is passed over as apt does.
    }
  }
  return keys
}

/** Names of the hash algorithms of OpenPGP (RFC 9580 section 9.5). */
const hashNames: Readonly<Record<number, string>> = {
  2: 'sha1',
  8: 'sha256',
  9: 'sha384',
  10: 'sha512',
}

/**
 * Whether the two bytes of the digest that stand in a signature packet of version 4 are those of the content (RFC 9580 sections
 * 5.2.3 and 5.2.4). True when the packet is of another kind.
 */
function wasMadeFor(content: Buffer, packet: Buffer): boolean {
  const [version, type, , algorithm = 0] = packet
  const name = hashNames[algorithm]
  if (version !== 4 || type !== 0 || name === undefined || packet.length < 10) return true
  const hashed = 6 + packet.readUInt16BE(4)
  if (hashed + 2 > packet.length) return true
  const left = hashed + 2 + packet.readUInt16BE(hashed)
  const trailer = Buffer.from([4, 0xff, 0, 0, 0, 0])
  trailer.writeUInt32BE(hashed, 2)
  const hash = createHash(name).update(content).update(packet.subarray(0, hashed)).update(trailer)
  return hash
    .digest()
    .subarray(0, 2)
    .equals(packet.subarray(left, left + 2))
}
