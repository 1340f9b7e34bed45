/**
 * Remembers the field lines of heads that differ in only one line. The access checks of an edge proxy name another request each time, and
 * the same browser repeats all other lines, on any connection.
 *
 * A block is known by its bytes without that line. The blocks kept here were read by the grammar of request-head.ts, in which CR and LF
 * stand only at the end of a line. So after any CRLF of a block one more line may stand without changing the meaning of the others.
 */
import { recentEntries } from '../../recent.ts'
import { Fields, sameName } from '../message/field.ts'

/** The number of blocks that are kept, and the most bytes of one. */
const MOST = 500
const LONGEST = 4096

const CR = 0x0d
const LF = 0x0a

/** The meaning of a block of field lines, which may be empty. */
export interface FieldBlock {
  readonly fields: Fields
  /** False when the client wants the connection to end after the answer. */
  readonly keepAlive: boolean
  /** Bytes of content; the next request begins after them. */
  readonly length: number
}

/** The bytes before and after the value of the line. */
interface LastFound {
  readonly before: Buffer
  readonly after: Buffer
  readonly others: FieldBlock
}

export class VaryingLine {
  readonly #name: string
  /** The beginning of the line, with the end of the line before it. */
  readonly #start: Buffer
  /** The meaning of the other lines, by their bytes. */
  readonly #known = recentEntries<string, FieldBlock>(MOST)
  #last: LastFound | undefined

  /** `name` is spelled as the peers spell it. Other spellings are read, but not remembered. */
  constructor(name: string) {
    this.#name = name
    this.#start = Buffer.from(`\r\n${name}: `, 'latin1')
  }

  /**
   * The meaning and the end of the block of field lines at `from`, if its other lines are known. The varying line comes last in its fields.
   * A CRLF stands before `from`.
   */
  read(bytes: Buffer, from: number) {
    const again = this.#last && this.#lastAgain(bytes, from, this.#last)
    if (again !== undefined) return again
    const line = this.#lineIn(bytes, from)
    if (line === undefined) return undefined
    const others = this.#known.get(line.others)
    if (others === undefined) return undefined
    const { begin, stop, end } = line
    const before = Buffer.from(bytes.subarray(from, begin))
    this.#last = { before, after: Buffer.from(bytes.subarray(stop, end)), others }
    return this.#with(line.value, others, end)
  }

  /** The last found block, with another value in the line. To compare it costs less than to look it up. */
  #lastAgain(bytes: Buffer, from: number, { before, after, others }: LastFound) {
    const begin = from + before.length
    if (begin > bytes.length) return undefined
    if (bytes.compare(before, 0, before.length, from, begin) !== 0) return undefined
    const stop = endOfVisible(bytes, begin)
    const end = stop + after.length
    if (stop === begin || end > bytes.length || end - from > LONGEST) return undefined
    if (bytes.compare(after, 0, after.length, stop, end) !== 0) return undefined
    return this.#with(bytes.toString('latin1', begin, stop), others, end)
  }

  #with(value: string, { fields, keepAlive, length }: FieldBlock, end: number) {
    return { fields: fields.followedBy([this.#name, value]), keepAlive, length, end }
  }

  /** Keeps the meaning of a block that was read in another way. Returns the fields that `read` gives for it from now on. */
  keep(
    bytes: Buffer,
    { from, end }: { readonly from: number; readonly end: number },
    { flat, keepAlive, length }: Omit<FieldBlock, 'fields'> & { readonly flat: readonly string[] },
  ): Fields | undefined {
    const line = this.#lineIn(bytes, from)
    const at = flat.findIndex((name, i) => i % 2 === 0 && sameName(name, this.#name))
    if (line?.end !== end || at < 0) return undefined
    const others = [...flat.slice(0, at), ...flat.slice(at + 2)]
    // A block may have this name twice, and then each of its lines counts.
    if (others.some((name, i) => i % 2 === 0 && sameName(name, this.#name))) return undefined
    const fields = Fields.fromSound(others)
    this.#known.set(line.others, { fields, keepAlive, length })
    return fields.followedBy([this.#name, line.value])
  }

  #lineIn(bytes: Buffer, from: number) {
    // Bytes that arrive one by one would be searched again each time.
    if (bytes.length - from > 4 * LONGEST) return undefined
    const at = bytes.indexOf(this.#start, from - 2)
    if (at < 0 || at - from > LONGEST) return undefined
    const begin = at + this.#start.length
    const stop = endOfVisible(bytes, begin)
    if (stop === begin || bytes[stop] !== CR || bytes[stop + 1] !== LF) return undefined
    const last = bytes.indexOf('\r\n\r\n', stop, 'latin1')
    const end = last + 4
    if (last < 0 || end - from > LONGEST) return undefined
    const text = (start: number, before: number) => bytes.toString('latin1', start, before)
    const others = text(from, at + 2) + text(stop + 2, end)
    return { value: text(begin, stop), others, begin, stop, end }
  }
}

function endOfVisible(bytes: Buffer, from: number): number {
  let at = from
  while (at < bytes.length && visible[bytes[at] ?? 0] === 1) at += 1
  return at
}

/** Visible ASCII. */
const visible = new Uint8Array(256).fill(1, 0x21, 0x7f)
