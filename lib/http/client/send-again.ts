/**
 * Which requests may be sent again, and after which answers and failures: a kept connection that had closed, a parent proxy that fails, an
 * origin that refuses some of several.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { systemCode } from '../../errors.ts'
import { noContent } from '../message/message.ts'
import type { OriginFailure } from './errors.ts'
import type { OriginRequest } from './request.ts'

/**
 * Statuses with which a proxy says that it could not reach the origin (RFC 9110 sections 15.6.3 to 15.6.5), or with which the origin says
 * that it fails.
 */
export const unreachable: ReadonlySet<number> = new Set([502, 503, 504])

/** Failures in which the connection broke, in contrast to silence. */
export const BROKEN_OFF: readonly string[] = ['ORIGIN_SEND_FAILED', 'ORIGIN_CLOSED']

/** Whether the origin itself refused a connection. A network that does not lead there is something else. */
export function isNotTaken({ code, cause }: OriginFailure): boolean {
  if (code === 'ORIGIN_CONNECT_REFUSED') return true
  const reset = systemCode(cause) === 'ECONNRESET'
  return reset && (code === 'ORIGIN_CONNECT_FAILED' || code === 'ORIGIN_TLS_FAILED')
}

/** Statuses with which an origin refuses one of several requests. */
export const refusalStatuses: ReadonlySet<number> = new Set([429, 503])

/** The longest Retry-After for which a request waits that is sent again. Clients that wait longer for a head give up. */
export const longestRetryAfter: Milliseconds = 5000

/** The most times that a request is sent again because the origin refused it as one of several: from 16 connections to 1, and once more. */
export const mostRefusals = 5

/** Idempotent methods (RFC 9110 section 9.2.2). */
const IDEMPOTENT = ['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE']

/** Safe methods (RFC 9110 section 9.2.1) that archives have. */
export function isSafe({ method, content = noContent }: OriginRequest): boolean {
  return content.kind === 'none' && (method === 'GET' || method === 'HEAD')
}

export function isRepeatable({ method, content = noContent }: OriginRequest): boolean {
  return content.kind === 'none' && IDEMPOTENT.includes(method)
}
