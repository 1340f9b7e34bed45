/**
 * The paths at the gateway to which browsers are redirected by checks. The answer to a check cannot set a cookie and, at nginx,
 * cannot contain a page.
 */
import { Fields } from '../../http/message/field.ts'
import { noContent, type Request, type Response } from '../../http/message/message.ts'
import { originForm } from '../../http/message/target.ts'
import { methodNotAllowed } from '../../http/server/router.ts'
import type { Config } from '../config/config.ts'
import { safeReturn } from '../login/addresses.ts'
import type { Sessions } from '../session/sessions.ts'
import type { ReadSession } from '../session/token.ts'

/** The path that renews a session on the way to a page. */
export const renewalPath = '/__authproxy/renew'

/** The path of the page on which a person makes and ends tokens. */
export const tokensPath = '/__authproxy/tokens'

/** The path of the page for requests that the rules refuse. */
export const refusedPath = '/__authproxy/refused'

/**
 * The longest target that is repeated in an address of a field. Edges accept 4 KiB of fields in an answer, and escaping makes
 * the target longer.
 */
export const longestTarget = 1500

/** The paths that an edge which asks for checks has to lead to the gateway listener without one, for people. */
export function unaskedPaths({ identityToken }: Pick<Config, 'identityToken'>): string {
  const { keysAt } = identityToken ?? {}
  const isBeside = keysAt !== undefined && !keysAt.startsWith('/__authproxy')
  return `${isBeside ? `${keysAt}, ` : ''}/saml/ and what begins with /__authproxy`
}

/** The address that renews a session and goes on to a target of ours; undefined for a target that it could not go on to. */
export function renewalAddress(baseUrl: string, target: string): string | undefined {
  if (target.length > longestTarget || safeReturn(target) !== target) return undefined
  return `${baseUrl}${renewalPath}?to=${encodeURIComponent(target)}`
}

/** Renews a session when it is time, and sends the browser on to a path of ours, never elsewhere. */
export async function renewOnTheWay(
  request: Request,
  session: ReadSession,
  { baseUrl, sessions }: { readonly baseUrl: string; readonly sessions: Sessions },
): Promise<Response> {
  if (request.method !== 'GET' && request.method !== 'HEAD')
    return methodNotAllowed(['GET', 'HEAD'])
  const query = new URLSearchParams(originForm(request.target).query)
  const lines = sessions.wantsRenewal(session) ? await sessions.renew(session, request) : undefined
  const fields = Fields.of(
    ...(lines ?? Fields.empty),
    ['Cache-Control', 'no-store'],
    ['Location', `${baseUrl}${safeReturn(query.get('to') ?? '/')}`],
  )
  return { status: 303, fields, content: noContent }
}
