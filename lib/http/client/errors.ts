/**
 * What can go wrong between us and an origin, a class for every phase of a request's way there and back. The message and
 * the facts are for the log; the public sentence is fixed and names neither host nor address. No credentials in any of it.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { type Facts, Failure, type Fault, systemCode } from '../../errors.ts'
import { certificateProblem } from '../../x509/certificate-problem.ts'

/** Where on its way a request failed, in the order of the way. */
export type OriginPhase =
  | 'queue'
  | 'dns'
  | 'address'
  | 'connect'
  | 'parent-proxy'
  | 'tls'
  | 'send'
  | 'fields'
  | 'content'

/** What is known about a failure. */
export interface OriginTrouble {
  /** The deadline that passed, when that is what failed. */
  readonly after?: Milliseconds | undefined
  /** IP address of the peer, once there is one. */
  readonly address?: string | undefined
  readonly cause?: unknown
}

const busy = 'All connections to the origin are busy.'
const unresolved = "The origin's name could not be looked up in DNS."
const unconnected = 'The origin could not be connected to.'
const noParent = 'The parent proxy could not be reached.'
const unsent = 'The origin did not take the request.'
const malformed = "The origin's answer is not proper HTTP."

/** For each code what the log is told, with facts in braces, and what the client is. */
const texts = {
  ORIGIN_QUEUE_FULL: ['too many requests wait for a connection to {origin}', busy],
  ORIGIN_QUEUE_TIMEOUT: ['no connection to {origin} became free within {after} ms', busy],
  ORIGIN_DNS_NOT_FOUND: [
    'there is no address for {origin}',
    "The origin's name does not exist in DNS.",
  ],
  ORIGIN_DNS_TIMEOUT: ['the address of {origin} was not found within {after} ms', unresolved],
  ORIGIN_DNS_FAILED: ['the address of {origin} could not be looked up', unresolved],
  ORIGIN_ADDRESS_REFUSED: [
    '{origin} is at {address}, which is not public; list the host by name to allow it',
    'The origin is not at a public address, and is not listed by name.',
  ],
  ORIGIN_CONNECT_TIMEOUT: [
    '{origin} took no connection within {after} ms',
    'The origin did not answer the connection attempt in time.',
  ],
  ORIGIN_CONNECT_REFUSED: ['no connection to {origin}', unconnected],
  ORIGIN_CONNECT_FAILED: ['no connection to {origin}', unconnected],
  ORIGIN_PARENT_PROXY_STATUS: [
    'parent proxy {parent} answered {status} for {origin}',
    'The parent proxy refused the connection to the origin.',
  ],
  ORIGIN_PARENT_PROXY_TIMEOUT: [
    'parent proxy {parent} did not answer for {origin} within {after} ms',
    noParent,
  ],
  ORIGIN_PARENT_PROXY_FAILED: ['parent proxy {parent} could not be used for {origin}', noParent],
  ORIGIN_TLS_TIMEOUT: [
    'the TLS handshake with {origin} took longer than {after} ms',
    'The origin did not finish the TLS handshake in time.',
  ],
  ORIGIN_TLS_CERTIFICATE: [
    'the certificate of {origin} was not accepted',
    'The certificate of the origin was not accepted.',
  ],
  ORIGIN_TLS_FAILED: [
    'the TLS handshake with {origin} failed',
    'The TLS handshake with the origin failed.',
  ],
  ORIGIN_SEND_TIMEOUT: ['{origin} took nothing of the request for {after} ms', unsent],
  ORIGIN_SEND_FAILED: ['the connection to {origin} broke while the request was sent', unsent],
  ORIGIN_FIELDS_TIMEOUT: [
    '{origin} did not begin its response within {after} ms',
    'The origin did not answer in time.',
  ],
  ORIGIN_CLOSED: [
    '{origin} closed the connection instead of answering',
    'The origin closed the connection without an answer.',
  ],
  ORIGIN_MALFORMED: ['{origin} sent a malformed response: {problem}', malformed],
  ORIGIN_HEAD_TOO_LARGE: ['{origin} sent a malformed response: {problem}', malformed],
  ORIGIN_CONTENT_TIMEOUT: [
    '{origin} fell silent for {after} ms after {received} bytes of content',
    'The origin stopped in the middle of its answer.',
  ],
  ORIGIN_TRUNCATED: [
    '{origin} broke off its response after {received} bytes of content',
    'The origin broke off in the middle of its answer.',
  ],
  ORIGIN_ABORTED: ['the request to {origin} was given up', 'The request was given up.'],
  ORIGIN_REQUEST_UNFIT: [
    'the request to {origin} cannot be written as HTTP/1.1',
    'The request contains what HTTP does not allow.',
  ],
} as const

type OriginCode = keyof typeof texts

interface Wording {
  readonly code: OriginCode
  readonly facts?: Facts
  /** In place of the one in the table. */
  readonly publicText?: string | undefined
  readonly fault?: Fault
}

/** Any failure on the way to an origin and back. `origin` is its `host:port`. */
export abstract class OriginFailure extends Failure {
  readonly phase: OriginPhase
  readonly origin: string

  constructor(phase: OriginPhase, origin: string, trouble: OriginTrouble, wording: Wording) {
    const { after, address, cause } = trouble
    const { code, fault = 'upstream' } = wording
    const [message, publicText] = texts[code]
    const facts: Facts = { origin, phase, after, address, ...wording.facts }
    super(
      message.replace(/\{(\w+)\}/g, (_, name) => String(facts[name])),
      { code, fault, publicText: wording.publicText ?? publicText, facts, cause },
    )
    this.phase = phase
    this.origin = origin
  }

  /** Whether a deadline passed, rather than the peer or the network saying no. */
  get timedOut(): boolean {
    return this.facts['after'] !== undefined
  }
}

/** The first code when a deadline has passed, else the other one. */
function late({ after }: OriginTrouble, code: OriginCode, otherwise: OriginCode): Wording {
  return { code: after === undefined ? otherwise : code }
}

/** All connections to the origin were busy for too long, or too many requests wait already. */
export class OriginBusy extends OriginFailure {
  constructor(origin: string, trouble: OriginTrouble) {
    super('queue', origin, trouble, late(trouble, 'ORIGIN_QUEUE_TIMEOUT', 'ORIGIN_QUEUE_FULL'))
  }
}

/** The origin's name has no address, or the resolver could not say which. */
export class OriginNameFailure extends OriginFailure {
  constructor(origin: string, trouble: OriginTrouble) {
    const unknown = ['ENOTFOUND', 'ENODATA'].includes(systemCode(trouble.cause) ?? '')
    const otherwise = unknown ? 'ORIGIN_DNS_NOT_FOUND' : 'ORIGIN_DNS_FAILED'
    super('dns', origin, trouble, late(trouble, 'ORIGIN_DNS_TIMEOUT', otherwise))
  }
}

/** Every address of the origin is one the predicate does not let an unlisted host have. */
export class OriginAddressRefused extends OriginFailure {
  constructor(origin: string, addresses: readonly string[]) {
    const trouble = { address: addresses.join(', ') }
    super('address', origin, trouble, { code: 'ORIGIN_ADDRESS_REFUSED' })
  }
}

/** No address of the origin took a connection. */
export class OriginConnectFailure extends OriginFailure {
  constructor(origin: string, trouble: OriginTrouble) {
    const refused = systemCode(trouble.cause) === 'ECONNREFUSED'
    const otherwise = refused ? 'ORIGIN_CONNECT_REFUSED' : 'ORIGIN_CONNECT_FAILED'
    super('connect', origin, trouble, late(trouble, 'ORIGIN_CONNECT_TIMEOUT', otherwise))
  }
}

/** The parent proxy failed: it was out of reach, or refused to connect us. `status` is its answer, if there was one. */
export class ParentProxyFailure extends OriginFailure {
  readonly status: number | undefined

  constructor(
    origin: string,
    trouble: OriginTrouble & { readonly parent: string; readonly status?: number },
  ) {
    const { parent, status } = trouble
    const wording: Wording =
      status === undefined
        ? late(trouble, 'ORIGIN_PARENT_PROXY_TIMEOUT', 'ORIGIN_PARENT_PROXY_FAILED')
        : { code: 'ORIGIN_PARENT_PROXY_STATUS' }
    super('parent-proxy', origin, trouble, {
      ...wording,
      facts: { parent, status },
      publicText: status === 407 ? 'The parent proxy did not accept our credentials.' : undefined,
    })
    this.status = status
  }
}

/** No TLS connection came about: the certificate, the handshake, or the deadline. */
export class OriginTlsFailure extends OriginFailure {
  constructor(origin: string, trouble: OriginTrouble) {
    const reason = systemCode(trouble.cause)
    const publicText = certificateProblem(reason)
    const otherwise = publicText === undefined ? 'ORIGIN_TLS_FAILED' : 'ORIGIN_TLS_CERTIFICATE'
    const wording = late(trouble, 'ORIGIN_TLS_TIMEOUT', otherwise)
    super('tls', origin, trouble, { ...wording, publicText, facts: { reason } })
  }
}

/** The request could not be handed to the origin: it stopped reading, or broke the connection while we wrote. */
export class OriginSendFailure extends OriginFailure {
  constructor(origin: string, trouble: OriginTrouble) {
    super('send', origin, trouble, late(trouble, 'ORIGIN_SEND_TIMEOUT', 'ORIGIN_SEND_FAILED'))
  }
}

/** No response head came: the deadline passed, or the origin closed the connection instead. */
export class OriginFieldsFailure extends OriginFailure {
  constructor(origin: string, trouble: OriginTrouble) {
    super('fields', origin, trouble, late(trouble, 'ORIGIN_FIELDS_TIMEOUT', 'ORIGIN_CLOSED'))
  }
}

/** What the origin sent is not HTTP/1.1, or more of a head than is taken. */
export class OriginMalformed extends OriginFailure {
  constructor(
    origin: string,
    problem: string,
    trouble: OriginTrouble & { readonly phase: OriginPhase; readonly tooLarge?: boolean },
  ) {
    const code = trouble.tooLarge ? 'ORIGIN_HEAD_TOO_LARGE' : 'ORIGIN_MALFORMED'
    super(trouble.phase, origin, trouble, { code, facts: { problem } })
  }
}

/** Silence within the content for longer than allowed, while we were ready to read. */
export class OriginContentTimeout extends OriginFailure {
  constructor(origin: string, trouble: OriginTrouble & { readonly received: number }) {
    const facts = { received: trouble.received }
    super('content', origin, trouble, { code: 'ORIGIN_CONTENT_TIMEOUT', facts })
  }
}

/** The content ended before its end: a short Content-Length, a missing last chunk, a broken connection. */
export class OriginTruncated extends OriginFailure {
  constructor(
    origin: string,
    trouble: OriginTrouble & { readonly received: number; readonly length: number | undefined },
  ) {
    const { received, length } = trouble
    super('content', origin, trouble, { code: 'ORIGIN_TRUNCATED', facts: { received, length } })
  }
}

/** The answer is not wanted any more: the request was cancelled, or its content could not be read to the end. */
export class OriginAborted extends OriginFailure {
  constructor(origin: string, trouble: OriginTrouble & { readonly phase: OriginPhase }) {
    super(trouble.phase, origin, trouble, { code: 'ORIGIN_ABORTED', fault: 'downstream' })
  }
}

/** The request itself cannot be written as HTTP/1.1: a method, target or field value with forbidden characters. */
export class OriginRequestUnfit extends OriginFailure {
  constructor(origin: string, cause: unknown) {
    super('send', origin, { cause }, { code: 'ORIGIN_REQUEST_UNFIT', fault: 'downstream' })
  }
}
