/**
 * Makes the HTML pages and JSON answers of the gateway itself. They are never cached, use no external resource, and cannot be
 * framed unless the caller allows it. Pages are in the language of the browser, with the logo and the colours of the
 * organisation.
 */
import { join } from 'node:path'
import type { Milliseconds } from '../../async/clock.ts'
import { explainError, Failure } from '../../errors.ts'
import { readBounded } from '../../files/bounded-file.ts'
import { Fields } from '../../http/message/field.ts'
import type { Request, Response } from '../../http/message/message.ts'
import { packageRoot } from '../../package.ts'
import { Templates } from '../../template.ts'
import type { Config } from '../config/config.ts'
import { logoTypes } from '../config/setting-pages.ts'
import { readLanguages, type Say } from './language.ts'
import { logoPath, type OwnDocument } from './own-document.ts'

/** Makes an HTML page from templates/auth. */
export type PageMaker = (page: Page) => Response

export interface Page extends Partial<Answered> {
  /** The request, whose fields name the languages of the person. */
  readonly request: Pick<Request, 'fields'>
  /** The name of the template. It gets `nonce` in addition to the view, for its `<script nonce="…">`. */
  readonly template: string
  readonly view: (say: Say) => Readonly<Record<string, unknown>>
  /** Whether the document is to have no origin, so that no script of the application can read it. */
  readonly sandbox?: boolean
  /** Whether the page has a script of its own. */
  readonly script?: boolean
  /** The origins, other than ours, to which the forms of the page may be sent; `https:` means any origin with TLS. */
  readonly formAction?: readonly string[]
  /** The origins whose pages may show it in a frame; `self` is ours. None may by default. */
  readonly framedBy?: 'self' | readonly string[]
}

interface Answered {
  readonly status: number
  readonly reason?: string | undefined
  readonly fields?: Fields | undefined
}

/** Makes pages; each gets a fresh nonce for its style and its script. Throws when templates or languages are missing. */
export function pageMaker(random: (size: number) => Buffer, brandOf: () => Brand): PageMaker {
  const directory = join(packageRoot(), 'templates', 'auth')
  const templates = Templates.read(directory)
  const languageOf = readLanguages(join(directory, 'languages'))
  return page => {
    const nonce = random(16).toString('base64')
    const { tag, say } = languageOf(page.request.fields)
    const brand = brandOf().templateValues
    const view = { ...page.view(say), ...{ nonce, brand, language: tag, english: tag === 'en' } }
    const html = templates.render(page.template, view)
    const { status = 200, reason, fields = Fields.empty } = page
    const own = Fields.of(
      ['Content-Language', tag],
      ['Vary', 'Accept-Language'],
      ['Content-Security-Policy', policyOf(page, { nonce, logo: brand.logo })],
      ['X-Frame-Options', frameOptions(page)],
      ...fields,
    )
    return answer('text/html; charset=utf-8', html, { status, reason, fields: own })
  }
}

/** A JSON answer for programs. */
export function json(value: unknown, answered: Answered): Response {
  const fields = Fields.of(['X-Frame-Options', 'DENY'], ...(answered.fields ?? Fields.empty))
  return answer('application/json; charset=utf-8', `${JSON.stringify(value)}\n`, {
    ...answered,
    fields,
  })
}

/** A moment in the form that pages show, to the second. */
export function timeText(at: Milliseconds): string {
  return new Date(at).toISOString().replace(/\.\d+Z$/, 'Z')
}

function answer(type: string, text: string, { status, reason, fields }: Answered): Response {
  const given = fields ?? Fields.empty
  // The fields of a page replace these, except that Vary is added.
  const own = ownFields.filter(([name]) => name === 'Vary' || !given.has(name))
  return {
    status,
    ...(reason === undefined ? {} : { reason }),
    fields: Fields.of(['Content-Type', type], ...own, ...given),
    content: { kind: 'bytes', bytes: Buffer.from(text) },
  }
}

const ownFields = [
  ['Cache-Control', 'no-store'],
  ['Vary', 'Cookie'],
  ['X-Content-Type-Options', 'nosniff'],
  ['Referrer-Policy', 'no-referrer'],
] as const

/** X-Frame-Options cannot name another origin, so a page that one may frame has only the policy. */
function frameOptions({ framedBy = [] }: Page): string | undefined {
  if (framedBy === 'self') return 'SAMEORIGIN'
  return framedBy.length === 0 ? 'DENY' : undefined
}

function policyOf(
  { script = false, sandbox = false, formAction = [], framedBy = [] }: Page,
  { nonce, logo }: { readonly nonce: string; readonly logo: boolean },
): string {
  const targets = formAction.filter(source => source === 'https:' || ORIGIN.test(source))
  const framing = framedBy === 'self' ? ["'self'"] : framedBy.filter(each => ORIGIN.test(each))
  return [
    "default-src 'none'",
    `style-src 'nonce-${nonce}'`,
    ...(logo ? ["img-src 'self'"] : []),
    ...(script ? [`script-src 'nonce-${nonce}'`] : []),
    `form-action ${["'self'", ...targets].join(' ')}`,
    "base-uri 'none'",
    `frame-ancestors ${framing.length === 0 ? "'none'" : framing.join(' ')}`,
    ...(sandbox ? ['sandbox'] : []),
  ].join('; ')
}

const ORIGIN = /^https?:\/\/[A-Za-z0-9.\-[\]:]+$/

/** The parts of the pages that belong to the organisation: the contact for help, the logo, the colours. */
export type Brand = Awaited<ReturnType<typeof readBrand>>

const LARGEST_LOGO = 256 * 1024

/** Reads the logo. Throws a Failure when it cannot be read. */
export async function readBrand({ pages, domain }: Pick<Config, 'pages' | 'domain'>) {
  const { logo, colour, colourDark, application = domain } = pages
  const text = pages.contact
  const contact = text !== undefined && { text, href: hrefOf(text) }
  return {
    templateValues: {
      application,
      logo: logo !== undefined,
      logoPath,
      colour,
      colourDark,
      contact,
    },
    logo: logo === undefined ? undefined : await readLogo(logo),
  }
}

async function readLogo(path: string): Promise<OwnDocument> {
  const type = logoTypes[/[^.]*$/.exec(path)?.[0].toLowerCase() ?? ''] ?? ''
  try {
    const { bytes } = await readBounded(path, LARGEST_LOGO)
    return { type, bytes, policy: "default-src 'none'; style-src 'unsafe-inline'; sandbox" }
  } catch (cause) {
    throw new Failure(`cannot read pages.logo: ${explainError(cause)}`, { code: 'LOGO', cause })
  }
}

function hrefOf(contact: string): string | false {
  if (/^https:\/\/\S+$/.test(contact)) return contact
  return /^[^\s@:/?]+@[^\s@:/?]+$/.test(contact) ? `mailto:${contact}` : false
}
