/**
 * Sandboxes an archive's answer that is shown under an address of ours. With a URL prefix a browser takes every archive, and
 * our own pages, for one site: a page of one could read what the others have. So the answer gets no scripts and an origin of
 * its own, and loses the fields that concern a whole site. Pure.
 */
import type { Response } from '../../http/message/message.ts'
import type { FetchMode } from './request-target.ts'

/** Whether what is asked for in this way is shown under an address of ours. */
export function isOurAddress(mode: FetchMode): boolean {
  return mode === 'prefix' || mode === 'https-prefix'
}

/** The answer as it may be shown there. */
export function sandboxed(response: Response): Response {
  const fields = response.fields
    .without(...aboutASite)
    // CSP 3 section 6.3.2: no scripts, no forms, an opaque origin.
    .plus('Content-Security-Policy', 'sandbox')
    .plus('X-Content-Type-Options', 'nosniff')
  return { ...response, fields }
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
