/**
 * Reads the heads of plain requests, which the fast path answers without Node's parser. The grammar is narrower than RFC 9112 on
 * purpose; whatever lies outside is not refused here but left to Node's parser and its rules, byte for byte.
 *
 * # What is taken
 * - A method of `methods`, one space, a target in origin- or absolute-form of characters RFC 3986 knows, one space, `HTTP/1.1`, CRLF.
 * - Field lines: a token, a colon, spaces, visible ASCII and spaces, CRLF. No tab, no folding, no bare CR or LF.
 * - One Host. Connection and Proxy-Connection absent, `keep-alive` or `close`. At most one Content-Length, of digits alone.
 *   Nothing else that frames content, and nothing that changes the protocol.
 * - And what is taken keeps the rules of `request-rules.ts`.
 *
 * # Memory
 * A client says the same about itself with every request: what the last block of field lines meant is kept, and only its
 * bytes are compared.
 */
import { Fields } from '../message/field.ts'
import type { Target, TargetReader } from '../message/target.ts'
import { alphanumeric, byteTable, FieldLines, LastBlock } from './field-lines.ts'
import { checkRequest, type HeadLimits } from './request-rules.ts'
import type { VaryingLine } from './varying-line.ts'

/** Methods of requests that are taken, the most frequent ones first. */
const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'] as const
type Method = (typeof methods)[number]

export interface PlainHead {
  readonly method: Method
  readonly version: '1.1'
  readonly target: Target
  readonly fields: Fields
  /** False when the client wants the connection to end with the answer. */
  readonly keepAlive: boolean
  /** Where its content begins. */
  readonly end: number
  /** Bytes of its content; the next request begins behind them. */
  readonly length: number
}

/** `other`: not a plain request. `incomplete`: a beginning to which nothing is wrong so far. */
type Undone = 'incomplete' | 'other'

export interface PlainLimits {
  /** Bytes of a head. */
  readonly head: number
  readonly heads: HeadLimits
}

/** What a block of field lines means, the empty one included. */
type FieldBlock = Framing & Pick<PlainHead, 'fields'>

/** What it says beside its fields. */
export type Framing = Pick<PlainHead, 'keepAlive' | 'length'>

/** Longer heads are rare, and Node's parser reads their bytes faster. */
const longestPlain = 65_536

/** Reads the heads of one connection. */
export class PlainHeadReader {
  readonly #targets: TargetReader
  readonly #limits: PlainLimits
  readonly #varying: VaryingLine<Framing> | undefined
  readonly #lines = new FieldLines(plainValues, Number.POSITIVE_INFINITY, 'request')
  readonly #last = new LastBlock<FieldBlock>()
  /** Where the target ends, or how far it was read, of the head that has begun; and the target itself once it was read. */
  #at = 0
  #target: Target | undefined

  /** `varying` is that of all connections, where heads differ in one line. */
  constructor(targets: TargetReader, limits: PlainLimits, varying?: VaryingLine<Framing>) {
    this.#targets = targets
    this.#limits = limits
    this.#varying = varying
  }

  /** The head that begins at `from`. After `incomplete`, call it again for the same head, with more bytes behind it. */
  read(bytes: Buffer, from: number): PlainHead | Undone {
    const reading = this.#read(bytes, from)
    if (reading !== 'incomplete') {
      this.#at = 0
      this.#target = undefined
      this.#lines.reset()
    }
    // What Node's parser would call too large, it shall say so itself.
    const length = (typeof reading === 'string' ? bytes.length : reading.end) - from
    return length > Math.min(longestPlain, this.#limits.head) ? 'other' : reading
  }

  #read(bytes: Buffer, from: number): PlainHead | Undone {
    const method = methodAt(bytes, from)
    if (method === 'incomplete' || method === 'other') return method
    const target = this.#target ?? this.#readTarget(bytes, from, method)
    if (typeof target === 'string') return target
    this.#target = target
    const block = this.#block(bytes, from + this.#at + version.length)
    if (typeof block === 'string') return block
    const { fields, keepAlive, end, length } = block
    return { method, version: '1.1', target, fields, keepAlive, end, length }
  }

  #readTarget(bytes: Buffer, from: number, method: string): Target | Undone {
    const start = from + method.length + 1
    let at = Math.max(start, from + this.#at)
    while (at < bytes.length && IN_TARGET[bytes[at] ?? 0] === 1) at += 1
    this.#at = at - from
    const ends = expect(bytes, at, version)
    if (ends !== 'there') return ends
    if (at - start > this.#limits.heads.target) return 'other'
    const target = this.#targets.read(method, bytes.toString('latin1', start, at))
    return 'problem' in target ? 'other' : target
  }

  #block(bytes: Buffer, from: number): Omit<PlainHead, 'method' | 'version' | 'target'> | Undone {
    const known = this.#last.meaningAt(bytes, from)
    if (known !== undefined) {
      const { fields, keepAlive, length } = known
      return { fields, keepAlive, length, end: from + this.#last.length }
    }
    const alike = this.#varying?.read(bytes, from)
    if (alike !== undefined) {
      const { fields, end, meaning } = alike
      return { fields, end, keepAlive: meaning.keepAlive, length: meaning.length }
    }
    const read = this.#lines.read(bytes, from)
    if (typeof read === 'string') return read === 'incomplete' ? read : 'other'
    const { end } = read
    const flat = this.#lines.flat(bytes, from)
    const keepAlive = keepsAlive(flat)
    if (keepAlive === undefined) return 'other'
    const fields = Fields.fromSound(flat)
    const head = { method: 'GET', version: '1.1', rawTarget: '/', fields }
    if (checkRequest(head, this.#limits.heads) !== undefined) return 'other'
    // The rules leave one value at most, and it consists of digits.
    const length = Number(fields.get('Content-Length') ?? 0)
    if (!Number.isSafeInteger(length)) return 'other'
    const meaning = { keepAlive, length }
    const split = this.#varying?.keep(bytes, { from, end }, { flat, meaning })
    const block = { fields: split ?? fields, keepAlive, length }
    this.#last.keep(bytes, from, end, block)
    return { ...block, end }
  }
}

const version = ' HTTP/1.1\r\n'

function methodAt(bytes: Buffer, at: number): Method | Undone {
  let begun: Undone = 'other'
  for (const { method, text } of beginnings) {
    const stands = expect(bytes, at, text)
    if (stands === 'there') return method
    if (stands === 'incomplete') begun = stands
  }
  return begun
}

/** Each method with the space behind it. */
const beginnings = methods.map(method => ({ method, text: `${method} ` }))

/** Whether `text` stands there, as far as there is anything. */
function expect(bytes: Buffer, at: number, text: string): 'there' | Undone {
  for (let i = 0; i < text.length; i += 1) {
    if (at + i >= bytes.length) return 'incomplete'
    if (bytes[at + i] !== text.charCodeAt(i)) return 'other'
  }
  return 'there'
}

/** Whether the connection goes on after the answer; undefined when the fields are not a plain request. */
function keepsAlive(flat: readonly string[]): boolean | undefined {
  let connection: string | undefined
  let hosts = 0
  for (let i = 0; i + 1 < flat.length; i += 2) {
    const name = flat[i]?.toLowerCase() ?? ''
    if (NOT_HERE.has(name)) return undefined
    if (name === 'host') hosts += 1
    if (name !== 'connection' && name !== 'proxy-connection') continue
    if (connection !== undefined) return undefined
    connection = flat[i + 1]?.toLowerCase()
    if (connection !== 'keep-alive' && connection !== 'close') return undefined
  }
  return hosts === 1 ? connection !== 'close' : undefined
}

/** Fields that frame content without a length, change the protocol or want an interim response. */
const NOT_HERE: ReadonlySet<string> = new Set([
  'transfer-encoding',
  'expect',
  'upgrade',
  'http2-settings',
  'trailer',
  'te',
])

/** unreserved, sub-delims, gen-delims but "#", and "%" (RFC 3986 section 2). */
const IN_TARGET = byteTable(`${alphanumeric}-._~!$&'()*+,;=:@/?[]%`)
/** Visible ASCII and spaces. */
const plainValues = byteTable('').fill(1, 0x20, 0x7f)
