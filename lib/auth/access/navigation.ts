/**
 * Tells a person who opens a page from a program that can do nothing with one, and says where the page opens. Pure.
 */
import type { Fields } from '../../http/message/field.ts'
import type { Request } from '../../http/message/message.ts'
import { asksForWebSocket } from '../../http/message/upgrade.ts'

/**
 * Whether a person is opening a page in a browser, so that a redirect to the identity provider makes sense. Browsers say so
 * in Fetch metadata; older ones are known by what they accept.
 */
export function isNavigation(request: Pick<Request, 'method' | 'fields' | 'version'>): boolean {
  const { method, fields } = request
  if (!['GET', 'HEAD', 'POST'].includes(method) || asksForWebSocket(request)) return false
  // Pages fetched ahead are thrown away when they are not what was expected; a login begun for one leads nowhere.
  if (AHEAD.some(name => /prefetch|prerender|preview/i.test(fields.get(name) ?? ''))) return false
  const mode = fields.get('Sec-Fetch-Mode')
  if (mode !== undefined) {
    if (isByWorker(request)) return acceptsHtml(fields)
    const place = fields.get('Sec-Fetch-Dest')
    return mode === 'navigate' && (place === undefined || PLACES.includes(place))
  }
  // Scripts name XMLHttpRequest, or themselves; a browser within an application of Android names that, and names have dots there.
  const by = fields.get('X-Requested-With')
  if (by !== undefined && !by.includes('.')) return false
  return acceptsHtml(fields)
}

const PLACES = ['document', 'iframe', 'frame']

/** Where browsers say that a page is fetched ahead or for a preview; all but the first are those of older ones. */
const AHEAD = ['Sec-Purpose', 'Purpose', 'X-Purpose', 'X-Moz']

/**
 * Whether a service worker may have handed on the request of a page that is opened: its destination is `empty` then, while mode
 * and Accept stay those of the navigation. A link with `download` says the same, but accepts anything.
 */
export function isByWorker({ fields }: Pick<Request, 'fields'>): boolean {
  return fields.get('Sec-Fetch-Mode') === 'navigate' && fields.get('Sec-Fetch-Dest') === 'empty'
}

/** Whether a page is opened within a frame of another page. */
export function isFramed({ fields }: Pick<Request, 'fields'>): boolean {
  return ['iframe', 'frame'].includes(fields.get('Sec-Fetch-Dest') ?? '')
}

/** Whether pages in HTML are welcome; `*` alone is what programs send, and a weight of zero refuses (RFC 9110 section 12.4.2). */
export function acceptsHtml(fields: Fields): boolean {
  return HTML.test(fields.get('Accept') ?? '')
}

const HTML =
  /(?:^|[,\s])(?:text\/html|application\/xhtml\+xml)(?![\t ]*;[\t ]*q=0(?:\.0{0,3})?[\t ]*(?:,|$))/i
