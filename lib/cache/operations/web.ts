/**
 * Responses of the web interface: their media types and the security fields every one of them carries.
 * The content security policy allows no frame, nothing from elsewhere, and no script but those of the overview and the setup page.
 */
import { createHash } from 'node:crypto'
import { Fields } from '../../http/message/field.ts'
import type { Response } from '../../http/message/message.ts'

const contentPolicy =
  "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

/** The field for a page with this one script, which asks this service alone. */
export function policyWithScript(script: string): Fields {
  const hash = createHash('sha256').update(script).digest('base64')
  const policy = `${contentPolicy}; script-src 'sha256-${hash}'; connect-src 'self'`
  return Fields.of(['Content-Security-Policy', policy])
}

/** Carried by every response of the web interface, errors and redirects included. */
const webFields: ReadonlyArray<readonly [name: string, value: string]> = [
  ['Cache-Control', 'no-store'],
  ['X-Content-Type-Options', 'nosniff'],
  ['X-Frame-Options', 'DENY'],
  ['Content-Security-Policy', contentPolicy],
  ['Referrer-Policy', 'no-referrer'],
]

const mediaTypes = {
  html: 'text/html; charset=utf-8',
  text: 'text/plain; charset=utf-8',
  css: 'text/css; charset=utf-8',
  json: 'application/json; charset=utf-8',
  /** HTML Standard section 9.2.5; always UTF-8. */
  events: 'text/event-stream',
  icon: 'image/x-icon',
  /** Prometheus text exposition format. */
  metrics: 'text/plain; version=0.0.4; charset=utf-8',
  certificate: 'application/x-x509-ca-cert',
  /** RFC 5280 section 4.2.1.13, RFC 2585 */
  revocationList: 'application/pkix-crl',
} as const

/** A response with this content; 200 unless told. */
export function webResponse(
  type: keyof typeof mediaTypes,
  content: string | Buffer,
  more: Partial<Pick<Response, 'status' | 'reason' | 'fields'>> = {},
): Response {
  return {
    status: 200,
    ...more,
    fields: Fields.of(['Content-Type', mediaTypes[type]], ...(more.fields ?? [])),
    content: { kind: 'bytes', bytes: typeof content === 'string' ? Buffer.from(content) : content },
  }
}

/** The response with the fields every response of the web interface carries; one that it has already stays as it is. */
export function withWebFields(response: Response): Response {
  const missing = webFields.filter(([name]) => !response.fields.has(name))
  return { ...response, fields: Fields.of(...missing, ...response.fields) }
}
