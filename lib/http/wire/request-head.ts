/**
 * Heads of requests, RFC 9110 and RFC 9112. `PlainHeadReader` reads those of plain requests, which the fast path answers without Node's
 * parser. `checkRequest` has the rules that all heads must keep. The reader's grammar is narrower than RFC 9112 on purpose: it does not
 * refuse any other head, but leaves it to Node's parser and the rules.
 *
 * # What the reader takes
 * - A method of `methods`, one space, a target in origin- or absolute-form of characters RFC 3986 knows, one space, `HTTP/1.1`, CRLF.
 * - Field lines: a token, a colon, spaces, visible ASCII and spaces, CRLF. It takes no tab, no folding, no bare CR or LF.
 * - One Host. Connection and Proxy-Connection are absent, `keep-alive` or `close`. At most one Content-Length, of digits alone. No other
 *   field frames content, and none changes the protocol.
 * - Every head that it takes keeps the rules of `checkRequest`.
 *
 * # Memory
 * - A client repeats most field lines with every request. So the meaning of the last block of field lines is kept, and only its bytes are
 *   compared.
 */
import { Fields, isToken, trimWhitespace } from '../message/field.ts'
import { parseHost, type Target, type TargetReader } from '../message/target.ts'
import { alphanumericCharacters, byteTable, FieldLines, LastBlock } from './field-lines.ts'
import type { FieldBlock, VaryingLine } from './varying-line.ts'

/** The methods of plain requests, the most frequent ones first. */
const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'] as const
type Method = (typeof methods)[number]

export interface PlainHead extends FieldBlock {
  readonly method: Method
  readonly version: '1.1'
  readonly target: Target
  /** The position where its content begins. */
  readonly end: number
}

/** `other`: not a plain request. `incomplete`: a beginning without a fault so far. */
type Undone = 'incomplete' | 'other'

interface PlainLimits {
  /** The most bytes of a head. */
  readonly head: number
  readonly heads: HeadLimits
}

/** Longer heads are rare, and Node's parser reads their bytes faster. */
const longestPlain = 65_536

/** Reads the heads of one connection. */
export class PlainHeadReader {
  readonly #targets: TargetReader
  readonly #limits: PlainLimits
  readonly #varying: VaryingLine | undefined
  readonly #lines = new FieldLines(plainValues, Number.POSITIVE_INFINITY, 'request')
  readonly #last = new LastBlock<FieldBlock>()
  /** The position in the head where the target ends, or up to which it was read; and the target once it was read. */
  #at = 0
  #target: Target | undefined

  /** All connections share `varying`, the memory for heads that differ in one line. */
  constructor(targets: TargetReader, limits: PlainLimits, varying?: VaryingLine) {
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
    // Node's parser refuses a head that is too large itself.
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

  #block(bytes: Buffer, from: number): (FieldBlock & Pick<PlainHead, 'end'>) | Undone {
    const known = this.#last.meaningAt(bytes, from)
    if (known !== undefined) {
      const { fields, keepAlive, length } = known
      return { fields, keepAlive, length, end: from + this.#last.length }
    }
    const alike = this.#varying?.read(bytes, from)
    if (alike !== undefined) return alike
    const read = this.#lines.read(bytes, from)
    if (typeof read === 'string') return read === 'incomplete' ? read : 'other'
    const { end } = read
    const flat = this.#lines.flat(bytes, from)
    const keepAlive = keepsAlive(flat)
    if (keepAlive === undefined) return 'other'
    const fields = Fields.fromSound(flat)
    const head = { method: 'GET', version: '1.1', rawTarget: '/', fields }
    if (checkRequest(head, this.#limits.heads) !== undefined) return 'other'
    // The rules leave at most one value, which consists of digits.
    const length = Number(fields.get('Content-Length') ?? 0)
    if (!Number.isSafeInteger(length)) return 'other'
    const split = this.#varying?.keep(bytes, { from, end }, { flat, keepAlive, length })
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

/** Each method with the space after it. */
const beginnings = methods.map(method => ({ method, text: `${method} ` }))

/** Whether `text` stands at this position, as far as there are bytes. */
function expect(bytes: Buffer, at: number, text: string): 'there' | Undone {
  for (let i = 0; i < text.length; i += 1) {
    if (at + i >= bytes.length) return 'incomplete'
    if (bytes[at + i] !== text.charCodeAt(i)) return 'other'
  }
  return 'there'
}

/** Whether the connection stays open after the answer; undefined when the fields are not those of a plain request. */
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
const IN_TARGET = byteTable(`${alphanumericCharacters}-._~!$&'()*+,;=:@/?[]%`)
/** Visible ASCII and spaces. */
const plainValues = byteTable('').fill(1, 0x20, 0x7f)

/*
 * The rules of all heads, in addition to those of Node's parser. Node already refuses folded lines, two lengths, bare CR or LF, space
 * before the colon and unknown methods. These rules refuse heads that Node accepts although two recipients could read them differently.
 */

interface RequestHead {
  readonly method: string
  /** `1.1`, as Node's `httpVersion` gives it. */
  readonly version: string
  /** Request target as it stands in the request line. */
  readonly rawTarget: string
  readonly fields: Fields
}

export interface HeadLimits {
  readonly fields: number
  /** The most characters of the request target. */
  readonly target: number
  /** The most bytes that Content-Length may announce; Infinity is no limit. */
  readonly content: number
}

export interface Refusal {
  readonly status: 400 | 413 | 414 | 417 | 431 | 501 | 505
  /** One fixed sentence that quotes nothing of the request. */
  readonly sentence: string
}

export const defaultHeadLimits: HeadLimits = {
  fields: 200,
  // RFC 9110 section 4.1 recommends support for 8000 at least.
  target: 16_384,
  content: Number.POSITIVE_INFINITY,
}

/**
 * Undefined when the head keeps every rule. After a refusal the connection must be closed, because the start of the next request is
 * uncertain.
 */
export function checkRequest(
  head: RequestHead,
  limits: HeadLimits = defaultHeadLimits,
): Refusal | undefined {
  const { version, rawTarget, fields } = head
  // RFC 9110 section 2.5, RFC 9112 section 2.3: the server does not speak this major version. Node lets "HTTP/2.0" pass.
  if (version !== '1.1' && version !== '1.0') return refusals.version
  // RFC 9110 section 15.5.15
  if (rawTarget.length > limits.target) return refusals.target
  // RFC 6585 section 5
  if (fields.count > limits.fields) return refusals.fields

  const { flat } = fields
  let host: string | undefined
  let transferEncoding: string | undefined
  let contentLength: string | undefined
  let hop = 0
  for (let i = 0; i + 1 < flat.length; i += 2) {
    const name = flat[i] ?? ''
    const value = flat[i + 1] ?? ''
    // RFC 9110 section 5.5: CR, LF and NUL are invalid and dangerous. Bytes from 0x80 up (obs-text) may stay.
    if (DANGEROUS.test(value)) return refusals.value
    if (name.length === 4 && name.toLowerCase() === 'host') {
      // RFC 9112 section 3.2: a second Host line is refused, whatever its value.
      if (host !== undefined) return refusals.secondHost
      host = value
    } else if (name.length === 14 && name.toLowerCase() === 'content-length') {
      if (contentLength !== undefined) return refusals.framing
      contentLength = value
    } else if (name.length === 17 && name.toLowerCase() === 'transfer-encoding') {
      if (transferEncoding !== undefined) return refusals.framing
      transferEncoding = value
    } else if (OF_ONE_HOP.has(name.length) && HOP_FIELDS.includes(name.toLowerCase())) {
      hop += value.length
    } else if (name.length === 6 && name.toLowerCase() === 'expect') {
      // RFC 9110 section 10.1.1: there is only this expectation, and none in HTTP/1.0.
      if (version === '1.1' && !CONTINUE.test(value)) return refusals.expectation
    }
  }

  // Each member of these lists is looked up: half a million of them would keep the service busy for a tenth of a second.
  if (hop > MOST_OF_HOP) return refusals.hop

  // RFC 9112 section 3.2: HTTP/1.1 requires a Host, and any Host must be valid.
  if (host === undefined && version === '1.1') return refusals.noHost
  // RFC 9110 section 4.2.1: a target whose host is empty is invalid. An absolute target has its own host.
  if (host === '' && OWN_TARGET.test(rawTarget)) return refusals.emptyHost
  const authority = parseHost(host, 80)
  const malformed = authority !== undefined && 'problem' in authority
  if (malformed && !(head.method === 'CONNECT' && APT_HOST.test(host ?? '')))
    return refusals.badHost
  // The Host may differ from an absolute target, because the target counts (RFC 9112 section 3.2.2).

  if (transferEncoding !== undefined) {
    // RFC 9112 section 6.1: in HTTP/1.0, or together with Content-Length, the framing is faulty.
    if (version === '1.0' || contentLength !== undefined) return refusals.framing
    return checkTransferEncoding(transferEncoding)
  }
  if (contentLength === undefined) return undefined
  // RFC 9112 section 6.3: an invalid length is an unrecoverable error.
  if (!DIGITS.test(contentLength)) return refusals.framing
  return Number(contentLength) > limits.content ? refusals.content : undefined
}

/**
 * Here we are laxer than RFC 9112 section 3.2. Some apt releases send CONNECT with the proxy's own address as Host, an IPv6 one without
 * brackets (`2001:db8::5:3142`), and a name within them when the target is IPv6 (`[proxy]:3142`). Only the target of a CONNECT counts, and
 * its Host is never used, so any text of a host's characters may pass.
 */
const APT_HOST = /^[A-Za-z0-9\-._:[\]]*$/

/** Targets that take their host from the Host field. */
const OWN_TARGET = /^[/*]/

/** The most characters of all lists that concern one hop. They hold names of a few fields and protocols. */
const MOST_OF_HOP = 8192

const HOP_FIELDS = ['connection', 'keep-alive', 'upgrade', 'trailer', 'proxy-connection', 'te']
const OF_ONE_HOP: ReadonlySet<number> = new Set(HOP_FIELDS.map(name => name.length))

const CONTINUE = /^100-continue$/i
const DANGEROUS = /[\0\r\n]/
const DIGITS = /^[0-9]+$/

/**
 * RFC 9112 sections 6.1 and 7: only `chunked` alone is accepted. When it comes after other codings the framing is clear, but those codings
 * are not supported.
 */
function checkTransferEncoding(value: string): Refusal | undefined {
  if (CHUNKED.test(value)) return undefined
  if (value.length > LONGEST_CODING) return refusals.framing
  const codings = value.split(',').map(trimWhitespace)
  // If `chunked` is not last, or comes more than once, the end of the request is unknown.
  const understood = codings.findIndex(coding => CHUNKED.test(coding)) === codings.length - 1
  return understood && codings.every(isToken) ? refusals.coding : refusals.framing
}

const LONGEST_CODING = 256

const CHUNKED = /^chunked$/i

const refusals = {
  version: { status: 505, sentence: 'Only HTTP/1.1 and HTTP/1.0 are spoken here.' },
  target: { status: 414, sentence: 'The request target is too long.' },
  fields: { status: 431, sentence: 'The request has too many field lines.' },
  hop: { status: 431, sentence: 'Connection and similar fields are too long.' },
  value: { status: 400, sentence: 'A field value contains CR, LF or NUL.' },
  noHost: { status: 400, sentence: 'An HTTP/1.1 request needs a Host field.' },
  emptyHost: { status: 400, sentence: 'The Host field is empty.' },
  secondHost: { status: 400, sentence: 'There is more than one Host field.' },
  badHost: { status: 400, sentence: 'The Host field is not a host with an optional port.' },
  framing: {
    status: 400,
    sentence: 'Content-Length and Transfer-Encoding leave it uncertain where the request ends.',
  },
  coding: { status: 501, sentence: 'The only transfer coding understood here is chunked.' },
  expectation: { status: 417, sentence: 'The only expectation met here is 100-continue.' },
  content: { status: 413, sentence: 'The content of the request is too large.' },
} as const satisfies Record<string, Refusal>
