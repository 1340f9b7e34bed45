/**
 * The table of entries as a file, so that a start need not read the whole log.
 *
 * # Format
 * 4,096 bytes with a line of JSON and its checksum (record.ts), then 64 bytes for each entry: the first sixteen words of
 * its row in the table (entry-table.ts), in this machine's byte order.
 *
 *     {"snapshot":3,"order":"LE","generation":"8d41…","covered":81920,"durable":…,"rows":1000,"crc":…}
 *
 * It holds what the log of that generation says up to `covered`; what stands behind is read from the log. Rows may be newer:
 * the log says the same of them again. A snapshot that is torn, of another log, or covers more than
 * its log has is not used; the owner of the directory removes it.
 */
import { endianness } from 'node:os'
import { crc32 } from 'node:zlib'
import { isCount } from '../../../json.ts'
import type { Surroundings } from '../disk/disk.ts'
import { dumpedWords, type EntryTable } from './entry-table.ts'
import { type Durable, isDigests, isName, seal, unseal } from './record.ts'

/** What is known beside the rows. */
interface Covered extends Durable {
  readonly generation: string
  readonly covered: number
}

const version = 3
const headBytes = 4096
const mostUnproven = 50
const rowBytes = dumpedWords * 4
const inPiece = 16_384

/** Writes the table down, in steps. Throws what the file system throws. */
export async function writeSnapshot(
  { disk, layout }: Pick<Surroundings, 'disk' | 'layout'>,
  table: EntryTable,
  covered: Covered,
): Promise<void> {
  // So many digests to prove are too many for the head: a start reads the log instead.
  if (covered.unproven.length > mostUnproven) return
  const temporary = `${layout.snapshot}.new`
  await disk.remove(temporary)
  const file = await disk.open(temporary, 'creating')
  try {
    const words = new Uint32Array(inPiece * dumpedWords)
    let [rows, inThis, crc] = [0, 0, 0]
    const write = async (): Promise<void> => {
      const piece = Buffer.from(words.buffer, 0, inThis * rowBytes)
      crc = crc32(piece, crc)
      await file.put(piece, headBytes + (rows - inThis) * rowBytes)
      inThis = 0
    }
    for (const row of table.rows()) {
      if (table.offset(row) < 0) continue
      table.dump(row, words, inThis * dumpedWords)
      inThis += 1
      rows += 1
      if (inThis === inPiece) await write()
    }
    await write()
    const { unproven, ...known } = covered
    const head = { snapshot: version, order: endianness(), ...known, rows, crc }
    await file.put(seal({ ...head, unproven }), 0)
    await disk.rename(temporary, layout.snapshot)
  } finally {
    file.close()
  }
}

/** Fills an empty table; undefined when there is no usable snapshot of this generation, and the table is then not to be used. */
export async function readSnapshot(
  { disk, layout }: Pick<Surroundings, 'disk' | 'layout'>,
  table: EntryTable,
  generation: string,
): Promise<Covered | undefined> {
  const file = await disk.open(layout.snapshot, 'reading')
  try {
    const head = headOf(await file.bytes(0, headBytes))
    if (head === undefined || head.generation !== generation) return undefined
    table.reserve(head.rows)
    let crc = 0
    for (let row = 0; row < head.rows; row += inPiece) {
      const wanted = Math.min(inPiece, head.rows - row) * rowBytes
      const piece = await file.bytes(headBytes + row * rowBytes, wanted)
      if (piece.length < wanted) return undefined
      crc = crc32(piece, crc)
      const words = new Uint32Array(piece.buffer, piece.byteOffset, wanted / 4)
      for (let at = 0; at < words.length; at += dumpedWords) table.load(words, at)
    }
    return crc === head.crc ? head : undefined
  } finally {
    file.close()
  }
}

function headOf(bytes: Buffer) {
  const value = unseal(bytes.subarray(0, bytes.indexOf(10) + 1))
  if (value?.['snapshot'] !== version || value['order'] !== endianness()) return undefined
  const { generation, covered, durable, unproven, clean, rows, crc } = value
  if (!isName(generation) || !isCount(covered) || !isCount(durable)) return undefined
  if (!isDigests(unproven) || !isCount(rows) || !isCount(crc)) return undefined
  return { generation, covered, durable, unproven, clean: clean === true, rows, crc }
}
