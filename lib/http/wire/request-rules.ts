/**
 * Rules a request's head must keep before anything else looks at it, RFC 9110 and RFC 9112, on top of Node's parser. Node
 * already refuses folded lines, two lengths, bare CR or LF, space before the colon and unknown methods; what it lets through
 * and two recipients could read in two ways is refused here.
 */
import { type Fields, isToken, trimWhitespace } from '../message/field.ts'
import { parseHost } from '../message/target.ts'

export interface RequestHead {
  readonly method: string
  /** `1.1`, as Node's `httpVersion` gives it. */
  readonly version: string
  /** Request target as it stands in the request line. */
  readonly rawTarget: string
  readonly fields: Fields
}

export interface HeadLimits {
  /** Field lines. */
  readonly fields: number
  /** Characters of the request target. */
  readonly target: number
  /** Bytes of content a Content-Length may announce; Infinity for any. */
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

/** Undefined when the head keeps every rule. After a refusal the connection is closed: where a next request begins is uncertain. */
export function checkRequest(
  head: RequestHead,
  limits: HeadLimits = defaultHeadLimits,
): Refusal | undefined {
  const { version, rawTarget, fields } = head
  // RFC 9110 section 2.5, RFC 9112 section 2.3: a major version we do not speak. Node lets "HTTP/2.0" pass.
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
      // RFC 9112 section 3.2: more than one Host line, whatever they say.
      if (host !== undefined) return refusals.secondHost
      host = value
    } else if (name.length === 14 && name.toLowerCase() === 'content-length') {
      if (contentLength !== undefined) return refusals.framing
      contentLength = value
    } else if (name.length === 17 && name.toLowerCase() === 'transfer-encoding') {
      if (transferEncoding !== undefined) return refusals.framing
      transferEncoding = value
    } else if (OF_ONE_HOP.has(name.length) && isOfOneHop(name)) {
      hop += value.length
    } else if (name.length === 6 && name.toLowerCase() === 'expect') {
      // RFC 9110 section 10.1.1: the one expectation there is, and none in HTTP/1.0.
      if (version === '1.1' && !CONTINUE.test(value)) return refusals.expectation
    }
  }

  // Each member of these lists is looked up: half a million of them would keep the service busy for a tenth of a second.
  if (hop > MOST_OF_HOP) return refusals.hop

  // RFC 9112 section 3.2: HTTP/1.1 requires a Host; one that is there must be valid.
  if (host === undefined && version === '1.1') return refusals.noHost
  // RFC 9110 section 4.2.1: a target whose host is empty is invalid. An absolute target has its own host.
  if (host === '' && OWN_TARGET.test(rawTarget)) return refusals.emptyHost
  const authority = parseHost(host, 80)
  const malformed = authority !== undefined && 'problem' in authority
  if (malformed && !(head.method === 'CONNECT' && APT_HOST.test(host ?? '')))
    return refusals.badHost
  // Whether it agrees with an absolute target is no matter: the target counts (RFC 9112 section 3.2.2).

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
 * Where we are laxer than RFC 9112 section 3.2: apt releases exist that send CONNECT with the proxy's own address as Host, an
 * IPv6 one without brackets (`2001:db8::5:3142`), and a name within them when the target is IPv6 (`[proxy]:3142`). A CONNECT is
 * about its target alone and its Host is never looked at, so what consists of a host's characters may pass.
 */
const APT_HOST = /^[A-Za-z0-9\-._:[\]]*$/

/** Targets that take their host from the Host field. */
const OWN_TARGET = /^[/*]/

/** Characters of all lists that concern one hop: names of a few fields and protocols. */
const MOST_OF_HOP = 8192

function isOfOneHop(name: string): boolean {
  return HOP_FIELDS.includes(name.toLowerCase())
}

const HOP_FIELDS = ['connection', 'keep-alive', 'upgrade', 'trailer', 'proxy-connection', 'te']
const OF_ONE_HOP: ReadonlySet<number> = new Set(HOP_FIELDS.map(name => name.length))

const CONTINUE = /^100-continue$/i
const DANGEROUS = /[\0\r\n]/
const DIGITS = /^[0-9]+$/

/** RFC 9112 sections 6.1 and 7: chunked, alone; after codings that would have to be undone it is at least honest framing. */
function checkTransferEncoding(value: string): Refusal | undefined {
  if (CHUNKED.test(value)) return undefined
  if (value.length > LONGEST_CODING) return refusals.framing
  const codings = value.split(',').map(trimWhitespace)
  // If `chunked` is not last, or stands there more than once, the end of the request cannot be told.
  const understood = codings.findIndex(coding => CHUNKED.test(coding)) === codings.length - 1
  return understood && codings.every(isToken) ? refusals.coding : refusals.framing
}

const LONGEST_CODING = 256

const CHUNKED = /^chunked$/i

const refusals = {
  version: { status: 505, sentence: 'Only HTTP/1.1 and HTTP/1.0 are spoken here.' },
  target: { status: 414, sentence: 'The request target is too long.' },
  fields: { status: 431, sentence: 'The request has too many field lines.' },
  hop: { status: 431, sentence: 'Connection and its like are too long.' },
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
