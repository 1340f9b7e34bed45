/**
 * Pages of ours: never cached, no external resource, no script but their own, not to be framed.
 */
import { Fields } from '../../http/message/field.ts'
import type { Response } from '../../http/message/message.ts'
import type { Templates } from '../../template.ts'

/** Makes an HTML page of ours from templates/auth, never cached, no external resource, under a strict policy. */
export type PageMaker = (page: Page) => Response

export interface Page {
  /** Name of the template. It is given `nonce` besides the view, for its `<script nonce="…">`. */
  readonly template: string
  readonly view: Readonly<Record<string, unknown>>
  /** 200 unless told. */
  readonly status?: number
  readonly reason?: string
  readonly fields?: Fields
  /** Whether the page has a script of its own. */
  readonly script?: boolean
  /** Origins its forms may be sent to, besides ours; `https:` for any with TLS. */
  readonly formAction?: readonly string[]
}

/** Makes pages from `templates`; each gets a fresh nonce for its style and its script. */
export function pageMaker(templates: Templates, random: (size: number) => Buffer): PageMaker {
  return (page: Page): Response => {
    const nonce = random(16).toString('base64')
    const html = templates.render(page.template, { ...page.view, nonce })
    return {
      status: page.status ?? 200,
      ...(page.reason === undefined ? {} : { reason: page.reason }),
      fields: Fields.fromFlat([
        ...['Content-Type', 'text/html; charset=utf-8'],
        ...ownFields.flat,
        ...['Content-Security-Policy', policyOf(page, nonce)],
        ...(page.fields?.flat ?? []),
      ]),
      content: { kind: 'bytes', bytes: Buffer.from(html) },
    }
  }
}

/** Fields of every response of our own, whatever its form. */
export const ownFields = Fields.of(
  ['Cache-Control', 'no-store'],
  ['Vary', 'Cookie'],
  ['X-Content-Type-Options', 'nosniff'],
  ['Referrer-Policy', 'no-referrer'],
  ['X-Frame-Options', 'DENY'],
)

function policyOf({ script = false, formAction = [] }: Page, nonce: string): string {
  const targets = formAction.filter(source =>
    /^https:$|^https?:\/\/[A-Za-z0-9.\-[\]:]+$/.test(source),
  )
  return [
    "default-src 'none'",
    `style-src 'nonce-${nonce}'`,
    ...(script ? [`script-src 'nonce-${nonce}'`] : []),
    `form-action ${["'self'", ...targets].join(' ')}`,
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join('; ')
}
