/**
 * Serves a development IdP over HTTP, with requests and replies as values and pages from templates.
 */
import { createServer, type IncomingMessage, type Server } from 'node:http'
import { join } from 'node:path'
import { packageRoot } from '../../lib/package.ts'
import { Templates, type View } from '../../lib/template.ts'

/** The parts of a request that a provider needs. */
export interface IdpRequest {
  /** The query as the target has it. */
  readonly query: string | undefined
  /** The values of a form; undefined when the request is no POST. */
  readonly form: URLSearchParams | undefined
  /** The ID of the session. */
  readonly session: string | undefined
}

export interface Reply {
  readonly status: number
  readonly fields: Readonly<Record<string, string>>
  readonly content: string
}

/** Makes a page from a template, with status 200 unless another is given. */
export type Page = (template: string, view: View, more?: Partial<Omit<Reply, 'content'>>) => Reply

export const sessionCookie = 'dev_idp_session'

/** Bytes of a form: a signed AuthnRequest has a few thousand. */
const FORM_LIMIT = 256 * 1024

/** The server, not listening yet; 503 while there is no provider. */
export function createDevIdpServer(
  provider: () => { answer(path: string, asked: IdpRequest): Reply } | undefined,
): Server {
  return createServer(async (request, response) => {
    const ready = provider()
    if (ready === undefined) {
      response.writeHead(503, { 'Retry-After': '1' }).end()
      return
    }
    try {
      const { path, ...asked } = await read(request)
      const { status, fields, content } = ready.answer(path, asked)
      response.writeHead(status, { 'Cache-Control': 'no-store', ...fields }).end(content)
    } catch {
      response.destroy()
    }
  })
}

async function read(request: IncomingMessage): Promise<IdpRequest & { readonly path: string }> {
  const { method, url = '/', headers } = request
  const [path = '', query] = url.split(/\?(.*)/s)
  const cookie = new RegExp(`(?:^|; ?)${sessionCookie}=(_[0-9a-f]{32})`)
  const session = cookie.exec(headers.cookie ?? '')?.[1]
  return { path, query, form: method === 'POST' ? await formOf(request) : undefined, session }
}

async function formOf(request: IncomingMessage): Promise<URLSearchParams> {
  const blocks: Buffer[] = []
  let size = 0
  for await (const block of request) {
    size += block.length
    if (size > FORM_LIMIT) throw new Error('the form is too large')
    blocks.push(block)
  }
  return new URLSearchParams(Buffer.concat(blocks).toString())
}

/** Makes the maker of pages. Throws when their templates are missing. */
export function pageMaker(random: (size: number) => Buffer): Page {
  const templates = Templates.read(join(packageRoot(), 'templates', 'dev-idp'))
  return (template, view, { status = 200, fields = {} } = {}) => {
    const nonce = random(16).toString('base64')
    const own = {
      'Content-Type': 'text/html; charset=utf-8',
      // No form-action: browsers apply it to the redirects that follow a login as well.
      'Content-Security-Policy': `default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-${nonce}'; frame-ancestors 'none'; base-uri 'none'`,
      'Referrer-Policy': 'no-referrer',
    }
    const content = templates.render(template, { ...view, nonce })
    return { status, fields: { ...own, ...fields }, content }
  }
}
