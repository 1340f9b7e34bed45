/**
 * The routes of the operations interface: which path is answered with what. Which requests come here at all is for the
 * pipeline to say; nothing here depends on the host a request names or on `index.enable`.
 *
 * Paths are compared byte for byte: they are case-sensitive and have one spelling. Queries are ignored, except that of
 * `explain`.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Milliseconds } from '../../async/clock.ts'
import type { Request, Response } from '../../http/message/message.ts'
import { withoutContent } from '../../http/message/reply.ts'
import { methodNotAllowed, router } from '../../http/server/router.ts'
import { packageRoot, projectPage } from '../../package.ts'
import { Templates } from '../../template.ts'
import { icon } from './icon.ts'
import { Pages } from './pages.ts'
import { operationsPrefix } from './paths.ts'
import type { OperationsSources, Source } from './sources.ts'
import { type Answer, mediaTypes, webResponse, withWebFields } from './web.ts'

const securityExpiry: Milliseconds = 7 * 24 * 60 * 60 * 1000

/** An answer from the query; only `explain` reads it. */
type Page = (query: string | undefined) => Answer | Promise<Answer>

/**
 * Makes the operations interface. Reads the templates, and throws when one is missing or broken. The function it returns
 * answers GET and HEAD of every route, 405 for other methods, and 404 for every path that is not its own.
 */
export function operations(
  sources: OperationsSources,
): (request: Request, path: string, query?: string) => Promise<Response> {
  const directory = join(packageRoot(), 'templates', 'operations')
  const pages = new Pages(sources, Templates.read(directory))
  const table = pageTable(sources, pages, readFileSync(join(directory, 'style.css')))
  const dispatch = router<string | undefined>(
    [...table].map(([path, page]) => ({
      method: 'GET',
      path,
      handle: async (_request, query) => webResponse(await page(query)),
    })),
  )
  return async (request, path, query) => {
    const known = dispatch(request, path, query)
    if (known !== undefined) return withWebFields(await known)
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      return withWebFields(methodNotAllowed(['GET', 'HEAD']))
    }
    const response = webResponse(await withoutPage(path, table, pages))
    return request.method === 'HEAD' ? withoutContent(response) : response
  }
}

function pageTable(
  sources: OperationsSources,
  pages: Pages,
  style: Buffer,
): ReadonlyMap<string, Page> {
  const image = icon()
  const routes = new Map<string, Page>([
    ['/', () => usageInformation],
    ['/robots.txt', () => text('User-agent: *\nDisallow: /\n')],
    ['/favicon.ico', () => ({ type: mediaTypes.icon, content: image })],
    ['/.well-known/security.txt', () => text(securityText(sources.clock.now()))],
    ['/_cachesvc', () => redirect('/_cachesvc/')],
    ['/_cachesvc/', async () => html(await pages.index())],
    ['/_cachesvc/cache', async () => html(await pages.cache())],
    ['/_cachesvc/stats', () => html(pages.stats())],
    ['/_cachesvc/setup', () => html(pages.setup())],
    ['/_cachesvc/style.css', () => ({ type: mediaTypes.css, content: style })],
    ['/_cachesvc/api/stats', () => json(sources.statistics())],
    ['/_cachesvc/cachesvc.crt', () => certificate(sources.certificate)],
    ['/_cachesvc/revocation.crl', () => revocationList(sources.revocationList)],
    ['/_cachesvc/healthz', () => health(sources)],
    ['/_cachesvc/metrics', () => metrics(sources)],
  ])
  if (sources.explain !== undefined) {
    routes.set('/_cachesvc/explain', async query => html(await pages.explain(query)))
  }
  return routes
}

/** A known page with a slash too many is shown the way; everything else is not there. */
function withoutPage(path: string, table: ReadonlyMap<string, Page>, pages: Pages): Answer {
  const shorter = path.replace(/\/+$/, '')
  if (shorter.startsWith(`${operationsPrefix}/`) && table.has(shorter)) return redirect(shorter)
  return { ...html(pages.notFound()), status: 404 }
}

/**
 * `GET /`: tools that look for an APT proxy know one by status 406, older ones by the words "usage information" in the
 * reason phrase. A redirect would hide it from them, so people are led on by the page itself.
 */
const usageInformation: Answer = {
  status: 406,
  reason: 'Not Acceptable - Usage Information',
  type: mediaTypes.html,
  content: `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url=/_cachesvc/">
<title>Usage information</title>
</head>
<body>
<p>This is a caching proxy for APT archives. <a href="/_cachesvc/">Its pages</a> say how to use it.</p>
</body>
</html>
`,
}

function text(content: string): Answer {
  return { type: mediaTypes.text, content }
}

function html(content: string): Answer {
  return { type: mediaTypes.html, content }
}

function json(value: unknown): Answer {
  return { type: mediaTypes.json, content: `${JSON.stringify(value)}\n` }
}

/** The query is dropped: no page but `explain` reads one. */
function redirect(location: string): Answer {
  return { status: 307, ...text(`See ${location}\n`), fields: [['Location', location]] }
}

/** RFC 9116. */
function securityText(now: Milliseconds): string {
  const expires = new Date(now + securityExpiry).toISOString().replace(/\.\d+Z$/, 'Z')
  return `Contact: ${projectPage}\nExpires: ${expires}\nPreferred-Languages: en\n`
}

async function certificate(source: Source<Buffer | undefined> | undefined): Promise<Answer> {
  const bytes = await source?.()
  if (bytes !== undefined) return { type: mediaTypes.certificate, content: bytes }
  return {
    status: 404,
    ...text('There is no certificate: this service does not intercept HTTPS.\n'),
  }
}

async function revocationList(source: Source<Buffer | undefined> | undefined): Promise<Answer> {
  const bytes = await source?.()
  if (bytes !== undefined) return { type: mediaTypes.revocationList, content: bytes }
  return { status: 404, ...text('There is no revocation list: this service does not make one.\n') }
}

async function health(sources: OperationsSources): Promise<Answer> {
  const { writable, because } = await sources.health()
  if (writable) return text('ok\n')
  return { status: 503, ...text(`not ready: ${because ?? 'the store cannot be written'}\n`) }
}

async function metrics(sources: OperationsSources): Promise<Answer> {
  return { type: mediaTypes.metrics, content: await sources.metrics() }
}
