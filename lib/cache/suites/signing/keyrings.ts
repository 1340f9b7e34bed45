/**
 * Finds the certificates of signers in keyrings: files of certificates, armoured or not, and directories of such files. Each version of
 * a file is divided into certificates once. Only the certificates that a signature names are then decoded, because the keyring of a
 * distribution has a thousand, and decoding all of them took most of a second for each Release file.
 *
 * # Facts
 * - A keyring is a sequence of packets (RFC 9580 section 4.2). A packet with a primary key (tags 5 and 6) begins a certificate; its
 *   subkeys have packets of their own (tags 7 and 14).
 * - The key ID is a part of the fingerprint, which is a digest of the packet's content (section 5.5.4): its last eight bytes in version
 *   4, the first eight in version 6.
 */
import { createHash } from 'node:crypto'
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { LRUCache } from 'lru-cache'
import { readBounded } from '../../../files/bounded-file.ts'

/** Decodes an armoured text. Rejects when the text is not armoured. */
type Unarmour = (text: string) => Promise<Uint8Array>

/** The bytes of a certificate in a keyring. */
interface Certificate {
  readonly bytes: Buffer
  /** The IDs of its keys, hex; undefined when they are only known after decoding. */
  readonly ids: ReadonlySet<string> | undefined
}

interface Keyring {
  /** The size, date and inode of the file. */
  readonly version: string
  readonly certificates: readonly Certificate[]
}

/** The largest keyring that is read, bytes, and the bytes of all keyrings that are kept in memory. */
const mostKeyringBytes = 16 * 1024 * 1024
const mostKeptBytes = 32 * 1024 * 1024

/** Divided keyrings by their paths. */
const kept = new LRUCache<string, Keyring>({
  maxSize: mostKeptBytes,
  sizeCalculation: ({ certificates }) =>
    certificates.reduce((sum, { bytes }) => sum + bytes.length, 1),
})

/** The existing files of keyrings. The files of a directory come in the order of their names. */
export async function keyringFiles(keyrings: readonly string[]): Promise<readonly string[]> {
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

/** The certificates in files that have a key with one of these IDs, in hex. Every copy of a certificate is among them. */
export async function certificatesOf(
  files: readonly string[],
  ids: readonly string[],
  unarmour: Unarmour,
): Promise<readonly Buffer[]> {
  const found: Buffer[] = []
  for (const file of files) {
    for (const one of await certificatesIn(file, unarmour)) {
      if (one.ids === undefined || ids.some(id => one.ids?.has(id))) found.push(one.bytes)
    }
  }
  return found
}

/** The certificates in a file, which is read again only when it has changed. */
async function certificatesIn(path: string, unarmour: Unarmour): Promise<readonly Certificate[]> {
  const found = await stat(path).catch(() => undefined)
  if (found === undefined) return []
  const version = `${found.size} ${found.mtimeMs} ${found.ino}`
  const known = kept.get(path)
  if (known?.version === version) return known.certificates
  const certificates = await readBounded(path, mostKeyringBytes)
    .then(({ bytes }) => binaryOf(bytes, unarmour))
    .then(divided)
    // A file that is too long or has no keys, such as a keybox of GnuPG, is passed over. apt does the same.
    .catch(() => [])
  kept.set(path, { version, certificates })
  return certificates
}

async function binaryOf(content: Buffer, unarmour: Unarmour): Promise<Buffer> {
  if (!content.includes('-----BEGIN PGP')) return content
  return Buffer.from(await unarmour(content.toString('latin1')))
}

/** The certificates of a keyring. Throws when it is not a sequence of packets. */
function divided(keyring: Buffer): readonly Certificate[] {
  const certificates: Certificate[] = []
  let begin = 0
  let ids: Set<string> | undefined = new Set()
  const end = (at: number): void => {
    if (at > begin) certificates.push({ bytes: keyring.subarray(begin, at), ids })
    begin = at
    ids = new Set()
  }
  for (let at = 0; at < keyring.length; ) {
    const packet = packetAt(keyring, at)
    if (primaryKeys.has(packet.tag)) end(at)
    if (keys.has(packet.tag)) {
      const id = publicKeys.has(packet.tag) ? keyId(packet.content) : undefined
      if (id === undefined) ids = undefined
      else ids?.add(id)
    }
    at = packet.end
  }
  end(keyring.length)
  return certificates
}

const primaryKeys: ReadonlySet<number> = new Set([5, 6])
const publicKeys: ReadonlySet<number> = new Set([6, 14])
const keys: ReadonlySet<number> = new Set([5, 6, 7, 14])

/** The packet that begins at an offset (RFC 9580 section 4.2). Throws when there is none, or when it has a partial length. */
function packetAt(
  bytes: Buffer,
  at: number,
): { readonly tag: number; readonly content: Buffer; readonly end: number } {
  const first = bytes.readUInt8(at)
  if (first < 0x80) throw new Error('there is no packet')
  const { tag, begin, length } = first >= 0xc0 ? newFormat(bytes, at) : oldFormat(bytes, at)
  const end = begin + length
  if (end > bytes.length) throw new RangeError('the packet is cut off')
  return { tag, content: bytes.subarray(begin, end), end }
}

interface PacketHead {
  readonly tag: number
  /** The offset of the content. */
  readonly begin: number
  readonly length: number
}

function newFormat(bytes: Buffer, at: number): PacketHead {
  const tag = bytes.readUInt8(at) & 0x3f
  const first = bytes.readUInt8(at + 1)
  if (first < 192) return { tag, begin: at + 2, length: first }
  if (first < 224) {
    return { tag, begin: at + 3, length: ((first - 192) << 8) + bytes.readUInt8(at + 2) + 192 }
  }
  if (first < 255) throw new Error('keys have no partial lengths')
  return { tag, begin: at + 6, length: bytes.readUInt32BE(at + 2) }
}

function oldFormat(bytes: Buffer, at: number): PacketHead {
  const first = bytes.readUInt8(at)
  const octets = [1, 2, 4][first & 3]
  if (octets === undefined) throw new Error('keys have no length of their own')
  return {
    tag: (first >> 2) & 0x0f,
    begin: at + 1 + octets,
    length: bytes.readUIntBE(at + 1, octets),
  }
}

/** The ID of a key, hex; undefined for versions other than 4 and 6. */
function keyId(content: Buffer): string | undefined {
  const [version] = content
  const { length } = content
  if (version === 4) {
    const head = Buffer.of(0x99, length >> 8, length & 0xff)
    return createHash('sha1').update(head).update(content).digest('hex').slice(-16)
  }
  if (version !== 6) return undefined
  const head = Buffer.alloc(5, 0x9b)
  head.writeUInt32BE(length, 1)
  return createHash('sha256').update(head).update(content).digest('hex').slice(0, 16)
}
