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

interface Wording {
  readonly code: string
  readonly message: string
  readonly publicText: string
  readonly fault?: Fault
  readonly facts?: Facts
}

/** Any failure on the way to an origin and back. `origin` is its `host:port`. */
export abstract class OriginFailure extends Failure {
  readonly phase: OriginPhase
  readonly origin: string

  constructor(phase: OriginPhase, origin: string, trouble: OriginTrouble, wording: Wording) {
    const { after, address, cause } = trouble
    super(wording.message, {
      code: wording.code,
      fault: wording.fault ?? 'upstream',
      publicText: wording.publicText,
      facts: { origin, phase, after, address, ...wording.facts },
      cause,
    })
    this.phase = phase
    this.origin = origin
  }

  /** Whether a deadline passed, rather than the peer or the network saying no. */
  get timedOut(): boolean {
    const { after } = this.facts
    return after !== undefined
  }
}

/** All connections to the origin were busy for too long, or too many requests wait already. */
export class OriginBusy extends OriginFailure {
  constructor(origin: string, trouble: OriginTrouble) {
    const late = trouble.after !== undefined
    super('queue', origin, trouble, {
      code: late ? 'ORIGIN_QUEUE_TIMEOUT' : 'ORIGIN_QUEUE_FULL',
      message: late
        ? `no connection to ${origin} became free within ${trouble.after} ms`
        : `too many requests wait for a connection to ${origin}`,
      publicText: 'All connections to the origin are busy.',
    })
  }
}

/** The origin's name has no address, or nobody could say which. */
export class OriginNameFailure extends OriginFailure {
  constructor(origin: string, trouble: OriginTrouble) {
    const unknown = ['ENOTFOUND', 'ENODATA'].includes(systemCode(trouble.cause) ?? '')
    const late = trouble.after !== undefined
    super('dns', origin, trouble, {
      code: late ? 'ORIGIN_DNS_TIMEOUT' : unknown ? 'ORIGIN_DNS_NOT_FOUND' : 'ORIGIN_DNS_FAILED',
      message: late
        ? `the address of ${origin} was not found within ${trouble.after} ms`
        : unknown
          ? `there is no address for ${origin}`
          : `the address of ${origin} could not be looked up`,
      publicText: unknown
        ? "The origin's name does not exist in DNS."
        : "The origin's name could not be looked up in DNS.",
    })
  }
}

/** Every address of the origin is one the predicate does not let an unlisted host have. */
export class OriginAddressRefused extends OriginFailure {
  constructor(origin: string, addresses: readonly string[]) {
    const address = addresses.join(', ')
    super(
      'address',
      origin,
      { address },
      {
        code: 'ORIGIN_ADDRESS_REFUSED',
        message: `${origin} is at ${address}, which is not public; list the host by name to allow it`,
        publicText: 'The origin is not at a public address, and is not listed by name.',
      },
    )
  }
}

/** No address of the origin took a connection. */
export class OriginConnectFailure extends OriginFailure {
  constructor(origin: string, trouble: OriginTrouble) {
    const late = trouble.after !== undefined
    const refused = systemCode(trouble.cause) === 'ECONNREFUSED'
    super('connect', origin, trouble, {
      code: late
        ? 'ORIGIN_CONNECT_TIMEOUT'
        : refused
          ? 'ORIGIN_CONNECT_REFUSED'
          : 'ORIGIN_CONNECT_FAILED',
      message: late
        ? `${origin} took no connection within ${trouble.after} ms`
        : `no connection to ${origin}`,
      publicText: late
        ? 'The origin did not answer the connection attempt in time.'
        : 'The origin could not be connected to.',
    })
  }
}

/** The parent proxy failed: it was out of reach, or refused to connect us. `status` is its answer, if there was one. */
export class ParentProxyFailure extends OriginFailure {
  readonly status: number | undefined

  constructor(
    origin: string,
    trouble: OriginTrouble & { readonly parent: string; readonly status?: number },
  ) {
    const { parent, status, after } = trouble
    const late = after !== undefined
    super('parent-proxy', origin, trouble, {
      code:
        status !== undefined
          ? 'ORIGIN_PARENT_PROXY_STATUS'
          : late
            ? 'ORIGIN_PARENT_PROXY_TIMEOUT'
            : 'ORIGIN_PARENT_PROXY_FAILED',
      message:
        status !== undefined
          ? `parent proxy ${parent} answered ${status} for ${origin}`
          : late
            ? `parent proxy ${parent} did not answer for ${origin} within ${after} ms`
            : `parent proxy ${parent} could not be used for ${origin}`,
      publicText:
        status === 407
          ? 'The parent proxy did not accept our credentials.'
          : status !== undefined
            ? 'The parent proxy refused the connection to the origin.'
            : 'The parent proxy could not be reached.',
      facts: { parent, status },
    })
    this.status = status
  }
}

/** No TLS connection came about: the certificate, the handshake, or the deadline. */
export class OriginTlsFailure extends OriginFailure {
  constructor(origin: string, trouble: OriginTrouble) {
    const late = trouble.after !== undefined
    const certificate = certificateProblem(systemCode(trouble.cause))
    super('tls', origin, trouble, {
      code: late
        ? 'ORIGIN_TLS_TIMEOUT'
        : certificate === undefined
          ? 'ORIGIN_TLS_FAILED'
          : 'ORIGIN_TLS_CERTIFICATE',
      message: late
        ? `the TLS handshake with ${origin} took longer than ${trouble.after} ms`
        : certificate === undefined
          ? `the TLS handshake with ${origin} failed`
          : `the certificate of ${origin} was not accepted`,
      publicText:
        certificate ??
        (late
          ? 'The origin did not finish the TLS handshake in time.'
          : 'The TLS handshake with the origin failed.'),
      facts: { reason: systemCode(trouble.cause) },
    })
  }
}

/** The request could not be handed to the origin: it stopped reading, or broke the connection while we wrote. */
export class OriginSendFailure extends OriginFailure {
  constructor(origin: string, trouble: OriginTrouble) {
    const late = trouble.after !== undefined
    super('send', origin, trouble, {
      code: late ? 'ORIGIN_SEND_TIMEOUT' : 'ORIGIN_SEND_FAILED',
      message: late
        ? `${origin} took nothing of the request for ${trouble.after} ms`
        : `the connection to ${origin} broke while the request was sent`,
      publicText: 'The origin did not take the request.',
    })
  }
}

/** No response head came: the deadline passed, or the origin closed the connection instead. */
export class OriginFieldsFailure extends OriginFailure {
  constructor(origin: string, trouble: OriginTrouble) {
    const late = trouble.after !== undefined
    super('fields', origin, trouble, {
      code: late ? 'ORIGIN_FIELDS_TIMEOUT' : 'ORIGIN_CLOSED',
      message: late
        ? `${origin} did not begin its response within ${trouble.after} ms`
        : `${origin} closed the connection instead of answering`,
      publicText: late
        ? 'The origin did not answer in time.'
        : 'The origin closed the connection without an answer.',
    })
  }
}

/** What the origin sent is not HTTP/1.1, or more of a head than we take. */
export class OriginMalformed extends OriginFailure {
  constructor(
    origin: string,
    what: string,
    trouble: OriginTrouble & { readonly phase: OriginPhase },
  ) {
    const large = systemCode(trouble.cause) === 'HPE_HEADER_OVERFLOW'
    super(trouble.phase, origin, trouble, {
      code: large ? 'ORIGIN_HEAD_TOO_LARGE' : 'ORIGIN_MALFORMED',
      message: `${origin} sent a malformed response: ${what}`,
      publicText: "The origin's answer is not proper HTTP.",
      facts: { reason: systemCode(trouble.cause) },
    })
  }
}

/** Silence within the content for longer than allowed, while we were ready to read. */
export class OriginContentTimeout extends OriginFailure {
  constructor(origin: string, trouble: OriginTrouble & { readonly received: number }) {
    super('content', origin, trouble, {
      code: 'ORIGIN_CONTENT_TIMEOUT',
      message: `${origin} fell silent for ${trouble.after} ms after ${trouble.received} bytes of content`,
      publicText: 'The origin stopped in the middle of its answer.',
      facts: { received: trouble.received },
    })
  }
}

/** The content ended before its end: a short Content-Length, a missing last chunk, a broken connection. */
export class OriginTruncated extends OriginFailure {
  constructor(
    origin: string,
    trouble: OriginTrouble & { readonly received: number; readonly length: number | undefined },
  ) {
    const { received, length } = trouble
    const of = length === undefined ? '' : ` of ${length}`
    super('content', origin, trouble, {
      code: 'ORIGIN_TRUNCATED',
      message: `${origin} broke off its response after ${received}${of} bytes of content`,
      publicText: 'The origin broke off in the middle of its answer.',
      facts: { received, length },
    })
  }
}

/** Nobody wants the answer any more: the request's signal fired, or its content could not be read to the end. */
export class OriginAborted extends OriginFailure {
  constructor(origin: string, trouble: OriginTrouble & { readonly phase: OriginPhase }) {
    super(trouble.phase, origin, trouble, {
      code: 'ORIGIN_ABORTED',
      message: `the request to ${origin} was given up`,
      publicText: 'The request was given up.',
      fault: 'downstream',
    })
  }
}

/** The request itself cannot be written as HTTP/1.1: a method, target or field value with forbidden characters. */
export class OriginRequestUnfit extends OriginFailure {
  constructor(origin: string, cause: unknown) {
    super(
      'send',
      origin,
      { cause },
      {
        code: 'ORIGIN_REQUEST_UNFIT',
        message: `the request to ${origin} cannot be written as HTTP/1.1`,
        publicText: 'The request contains what HTTP does not allow.',
        fault: 'downstream',
      },
    )
  }
}
