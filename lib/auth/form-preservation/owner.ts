/**
 * Whose a form is that comes without a session: a sealed cookie remembers who was signed in last in this browser, longer than any
 * session. It tells nothing to whoever reads it and lets nobody in.
 *
 * # Facts
 * - Browsers drop a session's cookie with its session, so nothing else would be left to tell one person's form from another's.
 * - The subject of an IdP that sends transient names is another one at every login: such a form is nobody's afterwards.
 */
import { createHash } from 'node:crypto'
import { cookieValues } from '../../http/message/cookie.ts'
import type { Request } from '../../http/message/message.ts'
import { seal, unseal } from '../keys/seal.ts'
import type { Saml } from '../saml/parts.ts'
import type { Session } from '../session/token.ts'

const COOKIE = '__Host-authproxy_last'
/** Seconds: as long as the longest session may last. */
const MAX_AGE = 30 * 86_400

/** Who a session is of, in few characters that say nothing. */
export function ownerOf(session: Pick<Session, 'issuer' | 'subject'>): string {
  const who = JSON.stringify([session.issuer, session.subject])
  return createHash('sha256').update(who).digest('base64url')
}

/** The Set-Cookie value that remembers who has signed in. */
export function ownerCookie(saml: Saml, session: Session): string {
  const plain = Buffer.from(ownerOf(session))
  const value = seal(plain, purposeOf(saml), saml.keys.sealing(), saml.random)
  return `${COOKIE}=${value}; Max-Age=${MAX_AGE}; Path=/; Secure; HttpOnly; SameSite=Lax`
}

/** Who was signed in last in the browser of a request; undefined when nobody, or when it cannot be known. */
export function lastOwner(saml: Saml, request: Request): string | undefined {
  const [value, ...more] = cookieValues(request.fields, COOKIE)
  if (value === undefined || more.length > 0) return undefined
  return unseal(value, purposeOf(saml), saml.keys.sealing())?.toString()
}

function purposeOf(saml: Saml): string {
  return `authproxy last 1 ${saml.config().entityId}`
}
