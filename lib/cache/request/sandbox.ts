/**
 * Sandboxes an archive's response that is shown under our address, and keeps its redirects there. Pure.
 *
 * With a URL prefix a browser takes every archive, and our own pages, for one site: a page of one could read what the others
 * have. So the answer gets no scripts and an origin of its own, and loses the fields that concern a whole site.
 */
import type { Response } from '../../http/message/message.ts'
import { formatUri, parseUri, type Target } from '../../http/message/target.ts'

/** The answer as it may be shown there, to a request for this target. */
export function sandboxed(response: Response, target: Target): Response {
  const location = response.fields.get('Location')
  const fields = response.fields
    .without(...aboutASite, ...(location === undefined ? [] : ['Location']))
    // CSP 3 section 6.3.2: no scripts, no forms, an opaque origin.
    .plus('Content-Security-Policy', 'sandbox')
    .plus('X-Content-Type-Options', 'nosniff')
  if (location === undefined) return { ...response, fields }
  return { ...response, fields: fields.plus('Location', prefixed(location, target)) }
}

/** The place a redirect names, with the prefix by which the client asked. */
function prefixed(location: string, target: Target): string {
  const uri = parseUri(location)
  if ('problem' in uri) return location
  const byProxy = target.form === 'absolute' && target.uri.host === 'https'
  return formatUri(uri)
    .replace(/^http:\/\//, '/')
    .replace(/^https:\/\//, byProxy ? 'http://HTTPS///' : '/HTTPS///')
}

/** Fields that concern all of a server's site. */
const aboutASite = [
  'Set-Cookie',
  'Set-Cookie2',
  'Strict-Transport-Security',
  'Public-Key-Pins',
  'Clear-Site-Data',
  'Alt-Svc',
  'Service-Worker-Allowed',
  'Origin-Agent-Cluster',
  'Access-Control-Allow-Origin',
  'Access-Control-Allow-Credentials',
  'Report-To',
  'Reporting-Endpoints',
  'NEL',
  'Content-Security-Policy',
  'X-Content-Type-Options',
]
