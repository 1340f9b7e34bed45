/**
 * How an answer of the web interface looks on the wire: its security fields, its content, its HEAD.
 * The policy is the strictest a page can live under: no script, no frame, nothing from elsewhere.
 */
import { Fields } from '../../http/message/field.ts'
import type { Response } from '../../http/message/message.ts'

/** Carried by every answer of the web interface, errors and redirects included. */
const webFields: ReadonlyArray<readonly [name: string, value: string]> = [
  ['Cache-Control', 'no-store'],
  ['X-Content-Type-Options', 'nosniff'],
  ['X-Frame-Options', 'DENY'],
  [
    'Content-Security-Policy',
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  ],
  ['Referrer-Policy', 'no-referrer'],
]

export const mediaTypes = {
  html: 'text/html; charset=utf-8',
  text: 'text/plain; charset=utf-8',
  css: 'text/css; charset=utf-8',
  json: 'application/json; charset=utf-8',
  icon: 'image/x-icon',
  /** Prometheus text exposition format. */
  metrics: 'text/plain; version=0.0.4; charset=utf-8',
  certificate: 'application/x-x509-ca-cert',
  /** RFC 5280 section 4.2.1.13, RFC 2585 */
  revocationList: 'application/pkix-crl',
} as const

export interface Answer {
  /** 200 when not given. */
  readonly status?: number
  readonly reason?: string
  readonly type: string
  readonly content: string | Buffer
  /** Further fields. */
  readonly fields?: ReadonlyArray<readonly [name: string, value: string]>
}

/** The response to GET. */
export function webResponse(answer: Answer): Response {
  const fields = [...webFields, ['Content-Type', answer.type] as const, ...(answer.fields ?? [])]
  const { content } = answer
  return {
    status: answer.status ?? 200,
    ...(answer.reason === undefined ? {} : { reason: answer.reason }),
    fields: Fields.of(...fields),
    content: { kind: 'bytes', bytes: typeof content === 'string' ? Buffer.from(content) : content },
  }
}

/** A response made elsewhere, with the fields every answer of the web interface carries; what it says itself counts. */
export function withWebFields(response: Response): Response {
  const missing = webFields.filter(([name]) => !response.fields.has(name))
  return { ...response, fields: Fields.of(...missing, ...response.fields) }
}
