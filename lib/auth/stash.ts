/**
 * A form that was sent after its session had ended: read, so that it can be sent again after the login. Only what our own
 * pages post is kept; a form of another site would be sent in the name of somebody who just logged in.
 */
import type { Clock } from '../clock.ts'
import { gather, type Room } from '../http/gather.ts'
import type { Request } from '../http/message.ts'
import { hasContent } from '../http/upgrade.ts'
import type { Config } from './config.ts'
import type { Stash } from './saml/contract.ts'

const FORMS = /^(?:application\/x-www-form-urlencoded|multipart\/form-data|text\/plain)\s*(?:;|$)/i
/** A boundary has 70 characters at most (RFC 2046 section 5.1.1). */
const LONGEST_TYPE = 256
/** For a small form to arrive. */
const DEADLINE = 10_000

/** The form; undefined when there is none, when it is too large, or when it comes from elsewhere. */
export async function stashOf(
  request: Request,
  config: Config,
  by: { readonly clock: Clock; readonly room: Room },
): Promise<Stash | undefined> {
  const { stashLimit } = config.saml
  const contentType = request.fields.get('Content-Type')
  if (request.method !== 'POST' || stashLimit === 0 || contentType === undefined) return undefined
  if (contentType.length > LONGEST_TYPE || !FORMS.test(contentType)) return undefined
  if (!hasContent(request) || !isOurs(request, config)) return undefined
  const length = request.fields.get('Content-Length')
  if (length !== undefined && Number(length) > stashLimit) return undefined
  const limits = { ...by, size: stashLimit, time: DEADLINE }
  // A client that goes away takes its form along.
  const content = await gather(request, limits).catch(() => 'gone' as const)
  return typeof content === 'string' ? undefined : { contentType, content }
}

function isOurs({ fields }: Request, { baseUrl }: Config): boolean {
  const site = fields.get('Sec-Fetch-Site')
  const origin = fields.get('Origin')
  if (site !== undefined && site !== 'same-origin') return false
  return origin === undefined ? site === 'same-origin' : origin === baseUrl
}
