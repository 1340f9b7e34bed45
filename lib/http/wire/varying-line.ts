/**
 * Remembers the field lines of heads that differ in one line alone: the checks of an edge name another request each time, and all else is
 * said again by the same browser, on whichever connection.
 *
 * A block is known by its bytes without that line. Those that are kept were read by the grammar of request-head.ts, which has a CR and a LF
 * at the end of a line and nowhere else. So where a block has a CRLF, one more line may stand behind it, and means itself alone.
 */
import { recent } from '../../recent.ts'
import { Fields, sameName } from '../message/field.ts'

/** Blocks that are kept, and the most bytes of one. */
const MOST = 500
const LONGEST = 4096

const CR = 0x0d
const LF = 0x0a

/** What the other lines of a block mean. */
interface Others<T> {
  readonly fields: Fields
  readonly meaning: T
}

/** A block that is known: all its fields, those that vary behind the others. */
interface KnownBlock<T> {
  readonly fields: Fields
  readonly meaning: T
  readonly end: number
}

export class VaryingLine<T extends object> {
  readonly #name: string
  /** How the line begins, behind the end of another. */
  readonly #start: Buffer
  readonly #known = recent<string, Others<T>>(MOST)

  /** The name is written as the peers write it: other spellings are read, and not remembered. */
  constructor(name: string) {
    this.#name = name
    this.#start = Buffer.from(`\r\n${name}: `, 'latin1')
  }

  /** What the block of field lines at `from` means, which stands behind a CRLF, if its other lines are known. */
  read(bytes: Buffer, from: number): KnownBlock<T> | undefined {
    const line = this.#lineIn(bytes, from)
    if (line === undefined) return undefined
    const known = this.#known.get(line.others)
    if (known === undefined) return undefined
    const { fields, meaning } = known
    return { fields: fields.followedBy([this.#name, line.value]), meaning, end: line.end }
  }

  /** Keeps what a block means that was read in another way. The fields of it that a `KnownBlock` would have. */
  keep(
    bytes: Buffer,
    { from, end }: { readonly from: number; readonly end: number },
    { flat, meaning }: { readonly flat: readonly string[]; readonly meaning: T },
  ): Fields | undefined {
    const line = this.#lineIn(bytes, from)
    const at = flat.findIndex((name, i) => i % 2 === 0 && sameName(name, this.#name))
    if (line?.end !== end || at < 0) return undefined
    const others = [...flat.slice(0, at), ...flat.slice(at + 2)]
    // A name may stand in a block twice: each of its lines counts.
    if (others.some((name, i) => i % 2 === 0 && sameName(name, this.#name))) return undefined
    const fields = Fields.fromSound(others)
    this.#known.set(line.others, { fields, meaning })
    return fields.followedBy([this.#name, line.value])
  }

  #lineIn(bytes: Buffer, from: number) {
    // What comes byte by byte is searched again each time.
    if (bytes.length - from > 4 * LONGEST) return undefined
    const at = bytes.indexOf(this.#start, from - 2)
    if (at < 0 || at - from > LONGEST) return undefined
    const begin = at + this.#start.length
    let stop = begin
    while (stop < bytes.length && visible[bytes[stop] ?? 0] === 1) stop += 1
    if (stop === begin || bytes[stop] !== CR || bytes[stop + 1] !== LF) return undefined
    const last = bytes.indexOf('\r\n\r\n', stop, 'latin1')
    const end = last + 4
    if (last < 0 || end - from > LONGEST) return undefined
    const text = (start: number, before: number) => bytes.toString('latin1', start, before)
    return { value: text(begin, stop), others: text(from, at + 2) + text(stop + 2, end), end }
  }
}

/** Visible ASCII. */
const visible = new Uint8Array(256).fill(1, 0x21, 0x7f)
