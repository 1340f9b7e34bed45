/**
 * The failures between us and an origin, with a code for each on a request's way there and back. The message and the facts are for the log.
 * The public sentence is fixed and names neither host nor address. No part contains credentials.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { type Facts, Failure, systemCode } from '../../errors.ts'
import { certificateProblem } from '../../x509/certificate-problem.ts'

/** The facts of a failure. All except the cause go to the log. */
export interface OriginTrouble {
  /** The deadline that passed, if one did. */
  readonly after?: Milliseconds | undefined
  /** IP address of the peer, if it is known; or the addresses that were refused. */
  readonly address?: string | undefined
  readonly family?: string
  /** The phase that failed, for codes that do not say it. */
  readonly phase?: OriginPhase
  readonly parent?: string
  /** The parent proxy's answer. */
  readonly status?: number | undefined
  readonly problem?: string
  /** Bytes of content that came, and those that were announced. */
  readonly received?: number
  readonly length?: number | undefined
  readonly cause?: unknown
}

const busy = 'All connections to the origin are busy.'
const unresolved = "The origin's name could not be looked up in DNS."
const unconnected = 'The origin could not be connected to.'
const noParent = 'The parent proxy could not be reached.'
const noCredentials = 'The parent proxy did not accept our credentials.'
const unsent = 'The origin did not take the request.'
const malformed = "The origin's answer is not proper HTTP: {problem}."

/** For each code its phase, the sentence for the log, with facts in braces, and the sentence for the client. */
const failures = {
  ORIGIN_QUEUE_FULL: ['queue', 'too many requests wait for a connection to {origin}', busy],
  ORIGIN_QUEUE_TIMEOUT: ['queue', 'no connection to {origin} became free within {after} ms', busy],
  ORIGIN_DNS_NOT_FOUND: [
    'dns',
    'there is no address for {origin}',
    "The origin's name does not exist in DNS.",
  ],
  ORIGIN_DNS_TIMEOUT: [
    'dns',
    'the address of {origin} was not found within {after} ms',
    unresolved,
  ],
  ORIGIN_DNS_FAILED: ['dns', 'the address of {origin} could not be looked up', unresolved],
  ORIGIN_ADDRESS_FAMILY: [
    'dns',
    '{origin} has no address of the family that is asked for ({family})',
    'The origin has no address of the family (IPv4 or IPv6) that this proxy is to use.',
  ],
  ORIGIN_ADDRESS_REFUSED: [
    'address',
    '{origin} is at {address}, which is not public; list the host by name to allow it',
    'The origin is not at a public address, and is not listed by name.',
  ],
  ORIGIN_CONNECT_TIMEOUT: [
    'connect',
    '{origin} took no connection within {after} ms',
    'The origin did not answer the connection attempt in time.',
  ],
  ORIGIN_CONNECT_REFUSED: ['connect', 'no connection to {origin}', unconnected],
  ORIGIN_CONNECT_FAILED: ['connect', 'no connection to {origin}', unconnected],
  ORIGIN_PARENT_PROXY_STATUS: [
    'parent-proxy',
    'parent proxy {parent} answered {status} for {origin}',
    'The parent proxy refused the connection to the origin.',
  ],
  ORIGIN_PARENT_PROXY_TIMEOUT: [
    'parent-proxy',
    'parent proxy {parent} did not answer for {origin} within {after} ms',
    noParent,
  ],
  ORIGIN_PARENT_PROXY_FAILED: [
    'parent-proxy',
    'parent proxy {parent} could not be used for {origin}',
    noParent,
  ],
  ORIGIN_TLS_TIMEOUT: [
    'tls',
    'the TLS handshake with {origin} at {address} took longer than {after} ms',
    'The origin did not finish the TLS handshake in time.',
  ],
  ORIGIN_TLS_CERTIFICATE: [
    'tls',
    'the certificate of {origin} was not accepted',
    'The certificate of the origin was not accepted.',
  ],
  ORIGIN_TLS_FAILED: [
    'tls',
    'the TLS handshake with {origin} failed',
    'The TLS handshake with the origin failed.',
  ],
  ORIGIN_SEND_TIMEOUT: [
    'send',
    '{origin} at {address} took nothing of the request for {after} ms',
    unsent,
  ],
  ORIGIN_SEND_FAILED: [
    'send',
    'the connection to {origin} broke while the request was sent',
    unsent,
  ],
  ORIGIN_FIELDS_TIMEOUT: [
    'fields',
    '{origin} at {address} did not begin its response within {after} ms',
    'The origin did not answer in time.',
  ],
  ORIGIN_CLOSED: [
    'fields',
    '{origin} closed the connection instead of answering',
    'The origin closed the connection without an answer.',
  ],
  ORIGIN_MALFORMED: ['fields', '{origin} sent a malformed response: {problem}', malformed],
  ORIGIN_HEAD_TOO_LARGE: ['fields', '{origin} sent a malformed response: {problem}', malformed],
  ORIGIN_CONTENT_TIMEOUT: [
    'content',
    '{origin} at {address} fell silent for {after} ms after {received} bytes of content',
    'The origin stopped in the middle of its answer.',
  ],
  ORIGIN_TRUNCATED: [
    'content',
    '{origin} broke off its response after {received} bytes of content',
    'The origin broke off in the middle of its answer.',
  ],
  ORIGIN_ABORTED: ['fields', 'the request to {origin} was given up', 'The request was given up.'],
  ORIGIN_REQUEST_UNFIT: [
    'send',
    'the request to {origin} cannot be written as HTTP/1.1',
    'The request contains what HTTP does not allow.',
  ],
  ORIGIN_CREDENTIALS_READABLE: [
    'send',
    'the credentials of this proxy for {origin} are not sent over http through a parent proxy, which could read them',
    'This proxy does not send its credentials for this archive over http through a parent proxy. Use https for the archive, or reach it without the parent proxy.',
  ],
} as const

type OriginCode = keyof typeof failures

export const originCodes = Object.keys(failures) as readonly OriginCode[]

export type OriginPhase = (typeof failures)[OriginCode][0]

/** The codes of failures on the client's side: it gave up, or asked for a request that cannot be sent. */
const downstream: readonly OriginCode[] = ['ORIGIN_ABORTED', 'ORIGIN_REQUEST_UNFIT']

/** Any failure on the way to an origin and back. `origin` is its `host:port`. */
export class OriginFailure extends Failure {
  declare readonly code: OriginCode
  readonly phase: OriginPhase
  readonly origin: string

  constructor(code: OriginCode, origin: string, trouble: OriginTrouble) {
    const [usual, message, text] = failures[code]
    const { phase = usual, cause, ...known } = trouble
    const reason = phase === 'tls' ? systemCode(cause) : undefined
    const facts: Facts = { origin, phase, ...known, ...(phase === 'tls' ? { reason } : {}) }
    const filled = (sentence: string) =>
      sentence.replace(/\{(\w+)\}/g, (_, name) => String(facts[name]))
    super(filled(message), {
      code,
      fault: downstream.includes(code) ? 'downstream' : 'upstream',
      publicText:
        (trouble.status === 407 ? noCredentials : certificateProblem(reason)) ?? filled(text),
      facts,
      cause,
    })
    this.phase = phase
    this.origin = origin
  }

  /** Whether a deadline passed, in contrast to a refusal by the peer or the network. */
  get timedOut(): boolean {
    return this.facts['after'] !== undefined
  }
}

/** The codes of each phase: the first for a deadline that has passed, the second for other failures. */
const codes = {
  queue: ['ORIGIN_QUEUE_TIMEOUT', 'ORIGIN_QUEUE_FULL'],
  dns: ['ORIGIN_DNS_TIMEOUT', 'ORIGIN_DNS_FAILED'],
  connect: ['ORIGIN_CONNECT_TIMEOUT', 'ORIGIN_CONNECT_FAILED'],
  'parent-proxy': ['ORIGIN_PARENT_PROXY_TIMEOUT', 'ORIGIN_PARENT_PROXY_FAILED'],
  tls: ['ORIGIN_TLS_TIMEOUT', 'ORIGIN_TLS_FAILED'],
  send: ['ORIGIN_SEND_TIMEOUT', 'ORIGIN_SEND_FAILED'],
  fields: ['ORIGIN_FIELDS_TIMEOUT', 'ORIGIN_CLOSED'],
  content: ['ORIGIN_CONTENT_TIMEOUT', 'ORIGIN_TRUNCATED'],
} as const

/** The failure of a phase: that of its deadline when there is an `after`, else the one that the cause shows. */
export function failureOf(
  phase: keyof typeof codes,
  origin: string,
  trouble: OriginTrouble,
): OriginFailure {
  const [late, otherwise] = codes[phase]
  const code = trouble.after === undefined ? (closerCode(phase, trouble) ?? otherwise) : late
  return new OriginFailure(code, origin, trouble)
}

function closerCode(phase: OriginPhase, { cause, status }: OriginTrouble): OriginCode | undefined {
  const reason = systemCode(cause)
  if (status !== undefined) return 'ORIGIN_PARENT_PROXY_STATUS'
  if (phase === 'dns' && (reason === 'ENOTFOUND' || reason === 'ENODATA')) {
    return 'ORIGIN_DNS_NOT_FOUND'
  }
  if (phase === 'connect' && reason === 'ECONNREFUSED') return 'ORIGIN_CONNECT_REFUSED'
  if (phase === 'tls' && certificateProblem(reason) !== undefined) return 'ORIGIN_TLS_CERTIFICATE'
  return undefined
}
