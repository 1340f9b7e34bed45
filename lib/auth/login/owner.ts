/**
 * Remembers in a sealed cookie which user was signed in last in a browser: the sender of a form without a session.
 *
 * The cookie outlasts every session, tells its reader nothing, and gives no access.
 *
 * # Facts
 * - Browsers drop the session's cookie when the session ends, so only this cookie can tell one user's form from another's.
 * - An IdP that sends transient names sends another subject at every login: such a form has no sender afterwards.
 */
import { createHash } from 'node:crypto'
import { setCookie } from '../../http/message/cookie.ts'
import type { Request } from '../../http/message/message.ts'
import { ownValues } from '../access/own-cookies.ts'
import { seal, unseal } from '../keys/seal.ts'
import { longestSession } from '../session/cookie.ts'
import type { Session } from '../session/token.ts'
import type { Saml } from './parts.ts'

const COOKIE = '__Host-authproxy_last'

/** The user of a session as a hash. */
export function ownerOf(session: Pick<Session, 'issuer' | 'subject'>): string {
  const user = JSON.stringify([session.issuer, session.subject])
  return createHash('sha256').update(user).digest('base64url')
}

/** The Set-Cookie value that remembers the user of a session. */
export function ownerCookie(
  saml: Pick<Saml, 'keys' | 'config' | 'random'>,
  session: Pick<Session, 'issuer' | 'subject'>,
): string {
  const plain = Buffer.from(ownerOf(session))
  const value = seal(plain, purposeOf(saml), saml.keys.sealingKeys(), saml.random)
  return setCookie(COOKIE, value, { maxAge: longestSession })
}

/** The user who was signed in last in the browser of a request; undefined when there is none, or it cannot be known. */
export function lastOwner(
  saml: Pick<Saml, 'keys' | 'config'>,
  request: Pick<Request, 'fields'>,
): string | undefined {
  const [value, ...more] = ownValues(request.fields, COOKIE)
  if (value === undefined || more.length > 0) return undefined
  return unseal(value, purposeOf(saml), saml.keys.sealingKeys())?.toString()
}

function purposeOf(saml: Pick<Saml, 'config'>): string {
  return `authproxy last 1 ${saml.config().entityId}`
}
