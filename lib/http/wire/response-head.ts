/**
 * Reads the head of a response from bytes as they arrive, RFC 9112 sections 2, 4 and 5: strict and bounded.
 *
 *     status-line = "HTTP/1." ( "0" / "1" ) SP 3DIGIT SP [ reason-phrase ] CRLF
 *
 * # Where the reader accepts more than the RFC
 * - A status line may end after the status: servers leave out the space before an empty reason phrase.
 * - Space between the name of a field and its colon is removed, as section 5.1 demands of a proxy.
 *
 * # Where it accepts less
 * - It refuses an empty line before the status line, and a status below 100.
 *
 * # Memory
 * - Consecutive heads with the same bytes are one object, so a result made of its fields need not be made again.
 */
import { GatheredBytes } from '../../bytes/gathered.ts'
import { Fields, isToken } from '../message/field.ts'
import { byteTable, FieldLines, LastBlock, valueBytes } from './field-lines.ts'

export interface ResponseHead {
  readonly version: '1.0' | '1.1'
  readonly status: number
  readonly reason: string
  readonly fields: Fields
}

/** Why the bytes are not the head of a response. With `tooLarge` they may be one that exceeds the limits. */
interface HeadProblem {
  readonly problem: string
  readonly tooLarge: boolean
}

/** A whole head, and how many of the last given bytes belong to it. */
interface WholeHead {
  readonly head: ResponseHead
  readonly used: number
}

interface ResponseHeadLimits {
  readonly bytes: number
  readonly lines: number
}

const start = 'HTTP/1.'
const digits = '0123456789'
/** The bytes that are allowed at each place of a status line, up to the space before its reason phrase. */
const places = [...start, '01', ' ', '123456789', digits, digits, ' '].map(byteTable)
/** Bytes of the status line before the reason phrase and its space. */
const fixed = places.length - 1

/** Reads one head after the other. */
export class ResponseHeadReader {
  readonly #limits: ResponseHeadLimits
  readonly #lines: FieldLines
  /** The received bytes of a head that arrives in parts. */
  readonly #parts = new GatheredBytes()
  readonly #last: LastBlock<ResponseHead>
  /** Bytes of the status line that were read. */
  #at = 0
  /** The position of the field lines; 0 while it is unknown. */
  #fieldsAt = 0

  /** Several readers with the same limits may share `last`. */
  constructor(limits: ResponseHeadLimits, last = new LastBlock<ResponseHead>()) {
    this.#limits = limits
    this.#last = last
    this.#lines = new FieldLines(valueBytes, limits.lines, 'response')
  }

  read(bytes: Buffer): WholeHead | HeadProblem | 'incomplete' {
    const before = this.#parts.length
    const known = before === 0 ? this.#last.meaningAt(bytes, 0) : undefined
    if (known !== undefined) return { head: known, used: this.#last.length }
    const all = before === 0 ? bytes : this.#parts.add(bytes)
    const reading = this.#read(all)
    if (reading === 'incomplete') {
      if (all.length > this.#limits.bytes) return tooLarge
      if (before === 0) this.#parts.add(bytes)
      return reading
    }
    if ('problem' in reading) {
      return reading === notHttp ? { ...notHttp, problem: brokenRule(all) } : reading
    }
    if (reading.used > this.#limits.bytes) return tooLarge
    this.#last.keep(all, 0, reading.used, reading.head)
    this.#parts.clear()
    this.#lines.reset()
    this.#at = 0
    this.#fieldsAt = 0
    return { head: reading.head, used: reading.used - before }
  }

  #read(bytes: Buffer): WholeHead | HeadProblem | 'incomplete' {
    const from = this.#fieldsAt === 0 ? this.#readStatusLine(bytes) : this.#fieldsAt
    if (typeof from !== 'number') return from
    const lines = this.#lines.read(bytes, from)
    if (lines === 'incomplete') return lines
    if (lines === 'too-many') return tooLarge
    if (lines === 'malformed') return notHttp
    const line = bytes.toString('latin1', start.length, from - 2)
    return {
      head: {
        version: line.startsWith('1') ? '1.1' : '1.0',
        status: Number(line.slice(2, 5)),
        reason: line.slice(6),
        fields: Fields.fromSound(this.#lines.flat(bytes, from)),
      },
      used: lines.end,
    }
  }

  /** The position of the field lines. */
  #readStatusLine(bytes: Buffer): number | HeadProblem | 'incomplete' {
    let at = this.#at
    while (at < bytes.length && (places[at] ?? valueBytes)[bytes[at] ?? 0] === 1) at += 1
    this.#at = at
    if (at === bytes.length) return 'incomplete'
    if (at >= 'HTTP/'.length && at < fixed) return notThisVersion
    if (at < fixed || bytes[at] !== 0x0d) return notHttp
    if (at + 1 === bytes.length) return 'incomplete'
    if (bytes[at + 1] !== 0x0a) return notHttp
    this.#fieldsAt = at + 2
    return this.#fieldsAt
  }
}

/** The bytes of a head that are looked at for the rule it breaks. */
const mostLookedAt = 65_536

/** Says which rule of RFC 9112 a head breaks. It is called for broken heads only. */
function brokenRule(bytes: Buffer): string {
  const [head = ''] = bytes.toString('latin1', 0, mostLookedAt).split('\r\n\r\n', 1)
  const [status = '', ...lines] = head.split('\r\n')
  if (/^\r?\n/.test(head)) return 'an empty line comes before its status line'
  if (!status.startsWith('HTTP/')) return 'it does not begin with a status line'
  if (head.replaceAll('\r\n', '').includes('\n')) return 'a line of its head ends with only LF'
  for (const line of lines) {
    const [name = ''] = line.split(':', 1)
    if (/^[ \t]/.test(line)) return 'a field of its head is folded'
    if (line.startsWith(':')) return 'a field of its head has no name'
    if (!line.includes(':')) return 'a line of its head has no colon'
    // biome-ignore lint/suspicious/noControlCharactersInRegex: it looks for them
    if (/[\0-\x08\x0a-\x1f\x7f]/.test(line)) return 'a field of its head has a control character'
    if (!isToken(name.trimEnd())) return 'the name of a field of its head is not a token'
  }
  return notHttp.problem
}

const notHttp: HeadProblem = { problem: 'its head breaks the grammar', tooLarge: false }
const notThisVersion: HeadProblem = {
  problem: 'its status line is not that of HTTP/1.1 or 1.0',
  tooLarge: false,
}
const tooLarge: HeadProblem = { problem: 'its head is larger than is taken', tooLarge: true }
