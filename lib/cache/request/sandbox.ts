/**
 * An archive's answer under an address of ours. With a URL prefix a browser takes every archive, and our own pages, for one
 * site: a page of one could read what the others have. So what is shown there has no scripts, no site of its own, and no say
 * about ours. Pure.
 */
import type { Fields } from '../../http/message/field.ts'
import type { Response } from '../../http/message/message.ts'
import type { FetchMode } from './request-target.ts'

/** The answer as it may be shown in this mode. */
export function asGuest(response: Response, mode: FetchMode): Response {
  if (mode !== 'prefix' && mode !== 'https-prefix') return response
  return { ...response, fields: guestFields(response.fields) }
}

function guestFields(fields: Fields): Fields {
  return (
    fields
      .without(...aboutASite)
      // CSP 3 section 6.3.2: no scripts, no forms, an origin that is nobody's.
      .plus('Content-Security-Policy', 'sandbox')
      .plus('X-Content-Type-Options', 'nosniff')
  )
}

/** What a server says about all of its site. */
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
