/**
 * Strips from a request what a client may not tell the backend, and adds the fields of the gateway.
 *
 * A field of a client that a backend could take for one of ours is removed, then ours are added, in one function for requests
 * and upgrades alike. Responses of the backend lose the cookies it may not set.
 *
 * # Facts
 * - The next hop drops the fields that Connection names: so hop-by-hop fields go first, and Connection is written again.
 * - Servers cut off field lines behind a number of them without an error: so ours come first.
 */
import { setCookieName } from '../../http/message/cookie.ts'
import { Fields, sameName } from '../../http/message/field.ts'
import { endToEndFields } from '../../http/message/hop-by-hop.ts'
import { withValidTrace } from '../../http/message/trace-context.ts'
import { type ForeignNames, treatments } from '../access/foreign-names.ts'
import { isOwnCookie, withoutOwnCookies } from '../access/own-cookies.ts'

/** What is added to the fields of a client. */
interface Added {
  /** Of the session; none without one. */
  readonly identity: Fields
  /** Whether there is a session. */
  readonly isKnown: boolean
  /** Of the request itself: its ID, our instance, who forwarded it. */
  readonly own: Fields
  /** Whether the identity has Basic credentials. */
  readonly basicAuth: boolean
  /** The names that a client may not say (config/field-names.ts). */
  readonly stripped: ForeignNames
}

/** Ours, and behind them the fields of the client that are end-to-end and claim nothing. */
export function backendFields(
  client: Fields,
  { identity, isKnown, own, basicAuth, stripped }: Added,
): Fields {
  const flat = [...identity.flat, ...own.flat]
  for (const [name, value] of withValidTrace(endToEndFields(withoutOwnCookies(client)))) {
    // Host is written with the request line (http/client/request.ts).
    if (isRemoved(name, stripped) || sameName(name, 'Host')) continue
    // With Basic credentials as identity, those of a client would claim to be another user.
    if (basicAuth && claimsBasic(name, value, isKnown)) continue
    flat.push(name, value)
  }
  return Fields.fromFlat(flat)
}

/** Trailer fields a client or a backend may send: none that claims anything, and none that belongs into a head (RFC 9110 6.5.1). */
export function harmlessTrailers(fields: Fields, stripped: ForeignNames): Fields {
  return endToEndFields(fields).where(name => {
    return !isRemoved(name, stripped) && !HEAD_ONLY.test(name)
  })
}

const HEAD_ONLY =
  /^(?:authorization|cookie|set-cookie|clear-site-data|host|content-.*|x[-_]forwarded[-_].*|cache-control|expect|if-.*|range|max-forwards|age|date|location|vary|traceparent|tracestate)$/i

function isRemoved(name: string, stripped: ForeignNames): boolean {
  const row = stripped.of(name)
  return row !== undefined && treatments[row.family].gateway === 'removed'
}

/** The fields of a response of the backend, which can neither end nor make sessions of ours. */
export function harmlessAnswer(fields: Fields): Fields {
  if (!fields.has('Set-Cookie') && !fields.has('Clear-Site-Data')) return fields
  const flat: string[] = []
  for (const [name, value] of fields) {
    if (sameName(name, 'Set-Cookie') && isOwnCookie(setCookieName(value))) continue
    const passed = sameName(name, 'Clear-Site-Data') ? withoutCookiesType(value) : value
    if (passed !== '') flat.push(name, passed)
  }
  return Fields.fromFlat(flat)
}

/**
 * What Clear-Site-Data may remove at our host (W3C Clear Site Data, section 3.1): anything but cookies, ours being among them. `*`
 * becomes the other types. An application that wants its user signed out leads the browser to /saml/slo.
 */
function withoutCookiesType(value: string): string {
  const types = value
    .split(',', 20)
    .map(type => type.trim())
    .filter(type => /^"[^"]*"$/.test(type) && type.toLowerCase() !== '"cookies"')
  const all = types.includes('"*"') ? ['"cache"', '"storage"', '"executionContexts"'] : types
  return all.join(', ')
}

function claimsBasic(name: string, value: string, known: boolean): boolean {
  return sameName(name, 'Authorization') && (known || /^\s*basic(?:\s|$)/i.test(value))
}
