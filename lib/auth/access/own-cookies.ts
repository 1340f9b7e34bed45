/**
 * Tells the cookies of this service, of sessions and of logins, from those of the application. The file knows their names alone.
 */
import { type CookiePair, cookiePairs, withoutCookies } from '../../http/message/cookie.ts'
import type { Fields } from '../../http/message/field.ts'

/** Whether a cookie is one of ours, of a session or of a login. The backend never gets these. */
export function isOwnCookie(name: string): boolean {
  return /^(?:__(?:Host|Secure)-)?_{0,2}authproxy[_.-]/i.test(name)
}

/** The word that is part of every name of ours. */
const WORD = /authproxy/gi

/** The cookies of a request that may be ours, in the order they came. */
export function ownCookies(fields: Fields): readonly CookiePair[] {
  return cookiePairs(fields, WORD).filter(({ name }) => isOwnCookie(name))
}

/** The values of the cookies of a name of ours, in the order they came. */
export function ownValues(fields: Fields, name: string): readonly string[] {
  return ownCookies(fields)
    .filter(pair => pair.name === name)
    .map(pair => pair.value)
}

export function withoutOwnCookies(fields: Fields): Fields {
  return withoutCookies(fields, WORD, isOwnCookie)
}
