/**
 * Tar archives of plain files, as much of POSIX ustar as a bundle needs.
 *
 * # Facts
 * - A member is a block of 512 bytes with its name and its size, then its content, filled up with zeroes to a whole block. Two
 *   blocks of zeroes end the archive.
 * - Sizes are octal digits. From 8 GiB on they are binary, as GNU tar and libarchive write them.
 * - An archive that tar has written again may have extended headers (pax, GNU long names). They are ignored, because the names in a
 *   bundle are short.
 */

const blockBytes = 512
const octalLimit = 8 ** 11

/** The header of a member, which comes before its content. `name` has at most 100 bytes. */
export function tarHeader(name: string, size: number, modified: number): Buffer {
  const header = Buffer.alloc(blockBytes)
  if (Buffer.byteLength(name) > 100) throw new RangeError(`too long a name: ${name}`)
  const octal = (value: number, width: number) => value.toString(8).padStart(width, '0')
  header.write(name, 0)
  header.write('0000644\0', 100)
  header.write('0000000\0', 108)
  header.write('0000000\0', 116)
  if (size < octalLimit) header.write(`${octal(size, 11)}\0`, 124)
  else {
    header[124] = 0x80
    header.writeBigUInt64BE(BigInt(size), 128)
  }
  header.write(`${octal(Math.floor(modified / 1000), 11)}\0`, 136)
  header.write('0', 156)
  header.write('ustar\x0000', 257)
  header.write(`${octal(checksum(header), 6)}\0 `, 148)
  return header
}

/** The zeroes after the content of a member. */
export function tarPadding(size: number): Buffer {
  return Buffer.alloc((blockBytes - (size % blockBytes)) % blockBytes)
}

/** The end of an archive. */
export const tarEnd: Buffer = Buffer.alloc(2 * blockBytes)

/** A plain file of an archive. */
export interface TarMember {
  readonly name: string
  readonly size: number
  /** The content. It can only be read before the next member is requested. */
  readonly content: AsyncIterable<Buffer>
}

/** The plain files of an archive in their order. Throws when it is no archive, or ends too early. */
export async function* tarMembers(source: AsyncIterable<Buffer>): AsyncGenerator<TarMember> {
  const chunks = source[Symbol.asyncIterator]()
  let rest: Buffer = Buffer.alloc(0)
  /** The next `left.bytes` bytes in pieces. It subtracts each piece from `left.bytes`. */
  const next = async function* (left: { bytes: number }): AsyncGenerator<Buffer> {
    while (left.bytes > 0) {
      while (rest.length === 0) {
        const { done, value } = await chunks.next()
        if (done === true) throw new Error('the tar archive ends too early')
        rest = value
      }
      const piece = rest.subarray(0, left.bytes)
      rest = rest.subarray(piece.length)
      left.bytes -= piece.length
      yield piece
    }
  }
  for (;;) {
    const pieces: Buffer[] = []
    for await (const piece of next({ bytes: blockBytes })) pieces.push(piece)
    const header = Buffer.concat(pieces)
    if (header.every(byte => byte === 0)) return
    const { name, size, isFile } = readHeader(header)
    const left = { bytes: size }
    if (isFile) yield { name, size, content: next(left) }
    left.bytes += tarPadding(size).length
    for await (const _ of next(left));
  }
}

function readHeader(header: Buffer) {
  const text = (at: number, length: number) =>
    header.toString('utf8', at, at + length).replace(/\0.*$/s, '')
  const written = Number.parseInt(text(148, 8), 8)
  if (written !== checksum(header)) throw new Error('it is not a tar archive, or it is damaged')
  const binary = ((header[124] ?? 0) & 0x80) !== 0
  const size = binary ? Number(header.readBigUInt64BE(128)) : Number.parseInt(text(124, 12), 8)
  if (!Number.isSafeInteger(size) || size < 0) throw new Error('a member has no right size')
  const type = text(156, 1)
  return { name: text(0, 100).replace(/^\.\//, ''), size, isFile: type === '0' || type === '' }
}

/** The sum of all bytes of a header. The bytes of the checksum itself count as blanks. */
function checksum(header: Buffer): number {
  return header.reduce((sum, byte, at) => sum + (at >= 148 && at < 156 ? 0x20 : byte), 0)
}
