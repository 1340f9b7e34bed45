/**
 * Decides whether a request comes from a person who opens a page or from a program that cannot show one, and whether the page
 * opens in a frame. Every function is pure.
 */
import type { Fields } from '../../http/message/field.ts'
import { asksForWebSocket } from '../../http/message/hop-by-hop.ts'
import type { Request } from '../../http/message/message.ts'

/**
 * Whether a person is opening a page in a browser, so that a redirect to the identity provider makes sense. Browsers say so
 * in Fetch metadata; older ones are known by what they accept.
 */
export function isNavigation(request: Pick<Request, 'method' | 'fields' | 'version'>): boolean {
  const { method, fields } = request
  if (!['GET', 'HEAD', 'POST'].includes(method) || asksForWebSocket(request)) return false
  // Browsers throw away a page fetched ahead when it redirects, so a login that begins for one leads nowhere.
  if (isFetchedAhead(fields)) return false
  const mode = fields.get('Sec-Fetch-Mode')
  if (mode !== undefined) {
    if (isByWorker(request)) return acceptsHtml(fields)
    const place = fields.get('Sec-Fetch-Dest')
    return mode === 'navigate' && (place === undefined || PLACES.includes(place))
  }
  // Scripts send XMLHttpRequest or a name of their own. A browser inside an Android application sends the name of the
  // application, which has dots.
  const by = fields.get('X-Requested-With')
  if (by !== undefined && !by.includes('.')) return false
  return acceptsHtml(fields)
}

const PLACES = ['document', 'iframe', 'frame']

/** Whether a browser says that it fetches a page ahead or for a preview, so that no person has opened it yet. */
export function isFetchedAhead(fields: Fields): boolean {
  return AHEAD.some(name => /prefetch|prerender|preview/i.test(fields.get(name) ?? ''))
}

/** Only older browsers send the fields after the first. */
const AHEAD = ['Sec-Purpose', 'Purpose', 'X-Purpose', 'X-Moz']

/**
 * Whether a service worker may have handed on the request of a page that is opened: its destination is `empty` then, while mode
 * and Accept stay those of the navigation. A link with `download` says the same, but accepts anything.
 */
export function isByWorker({ fields }: Pick<Request, 'fields'>): boolean {
  return fields.get('Sec-Fetch-Mode') === 'navigate' && fields.get('Sec-Fetch-Dest') === 'empty'
}

/**
 * Whether a browser shows itself in fields that no page can leave out: Fetch metadata, or the Origin of a WebSocket, because not
 * every browser sends Fetch metadata with one. False for programs, and for browsers from before Fetch metadata (Safari: 2023).
 * Sec-Fetch-Mode alone does not count: `fetch` of Node.js sends it.
 */
export function isOfBrowser(fields: Fields): boolean {
  return (
    MARKS.some(name => fields.has(name)) ||
    (fields.has('Sec-WebSocket-Version') && fields.has('Origin'))
  )
}

const MARKS = ['Sec-Fetch-Site', 'Sec-Fetch-Dest']

/** Whether a page is opened within a frame of another page. */
export function isFramed({ fields }: Pick<Request, 'fields'>): boolean {
  return ['iframe', 'frame'].includes(fields.get('Sec-Fetch-Dest') ?? '')
}

/**
 * Whether the client accepts pages in HTML. Programs send `*` alone, which does not count, and a weight of zero refuses (RFC
 * 9110 section 12.4.2).
 */
export function acceptsHtml(fields: Fields): boolean {
  return HTML.test(fields.get('Accept') ?? '')
}

const HTML =
  /(?:^|[,\s])(?:text\/html|application\/xhtml\+xml)(?![\t ]*;[\t ]*q=0(?:\.0{0,3})?[\t ]*(?:,|$))/i
