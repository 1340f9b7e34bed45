/**
 * The routes of the operations interface: which path is answered with what. The pipeline sends requests here by their path
 * alone; nothing here depends on the host a request names or on `index.enable`.
 *
 * Paths are compared byte for byte: they are case-sensitive and have one spelling. Queries are ignored, except that of
 * `explain`.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { day, type Milliseconds } from '../../async/clock.ts'
import { Fields } from '../../http/message/field.ts'
import type { Request, Response } from '../../http/message/message.ts'
import { withoutContent } from '../../http/message/reply.ts'
import { methodNotAllowed } from '../../http/server/router.ts'
import { packageRoot, projectPage } from '../../package.ts'
import { Templates } from '../../template.ts'
import { Live } from './live.ts'
import { Pages } from './pages.ts'
import { operationsPrefix } from './paths.ts'
import { readers } from './readers.ts'
import type { OperationsSources } from './sources.ts'
import { policyWithScript, webResponse, withWebFields } from './web.ts'

/** Answers GET. Only `explain` reads the query, and `allowed` the address of the client. */
type Page = (query: string | undefined, client: string) => Response | Promise<Response>

/**
 * Makes the operations interface. Reads the templates, and throws when one is missing or broken. The function it returns
 * answers GET and HEAD of every route, 405 for other methods, and 404 for every path that is not its own.
 */
export function operations(
  sources: OperationsSources,
  live: Live = new Live(sources),
): (request: Request, path: string, query?: string) => Promise<Response> {
  const directory = join(packageRoot(), 'templates', 'operations')
  const pages = new Pages(sources, Templates.read(directory))
  const table = pageTable(sources, { pages, live }, name => readFileSync(join(directory, name)))
  const refusal = readers(sources)
  return async (request, path, query) => {
    const { method, client } = request
    if (method !== 'GET' && method !== 'HEAD') {
      return withWebFields(methodNotAllowed(['GET', 'HEAD']))
    }
    const page = table.get(path) ?? (() => withoutPage(path, table, pages))
    const response = withWebFields(
      (await refusal(request, path)) ?? (await page(query, client.address)),
    )
    return method === 'HEAD' ? withoutContent(response) : response
  }
}

function pageTable(
  sources: OperationsSources,
  { pages, live }: { readonly pages: Pages; readonly live: Live },
  read: (name: string) => Buffer,
): ReadonlyMap<string, Page> {
  const style = read('style.css')
  const icon = read('favicon.ico')
  const usage = read('usage.html')
  const [, script = ''] = /<script>(.*)<\/script>/s.exec(read('live.mustache').toString()) ?? []
  const withScript = { fields: policyWithScript(script) }
  const project = projectPage()
  return new Map<string, Page>([
    ['/', () => usageInformation(usage)],
    ['/robots.txt', () => webResponse('text', 'User-agent: *\nDisallow: /\n')],
    ['/favicon.ico', () => webResponse('icon', icon)],
    [
      '/.well-known/security.txt',
      () => webResponse('text', securityText(project, sources.clock.now())),
    ],
    ['/_cachesvc', () => redirect('/_cachesvc/')],
    ['/_cachesvc/', async () => webResponse('html', await pages.index(), withScript)],
    ['/_cachesvc/live', () => liveResponse(live)],
    ['/_cachesvc/cache', async () => webResponse('html', await pages.cache())],
    ['/_cachesvc/stats', () => webResponse('html', pages.stats())],
    ['/_cachesvc/setup', () => webResponse('html', pages.setup())],
    ['/_cachesvc/setup.sh', () => webResponse('text', pages.setupScript())],
    ['/_cachesvc/explain', async query => webResponse('html', await pages.explain(query))],
    ['/_cachesvc/style.css', () => webResponse('css', style)],
    [
      '/_cachesvc/api/stats',
      () => webResponse('json', `${JSON.stringify(sources.statistics())}\n`),
    ],
    ['/_cachesvc/cachesvc.crt', async () => file('certificate', await sources.certificate())],
    [
      '/_cachesvc/revocation.crl',
      async () => file('revocationList', await sources.revocationList()),
    ],
    ['/_cachesvc/allowed', (_query, client) => allowed(client, sources)],
    ['/_cachesvc/healthz', () => health(sources)],
    ['/_cachesvc/metrics', async () => webResponse('metrics', await sources.metrics())],
  ])
}

function liveResponse(live: Live): Response {
  if (live.full) {
    const fields = Fields.of(['Retry-After', '60'])
    return webResponse('text', 'Too many pages get live figures.\n', { status: 503, fields })
  }
  const stream = { kind: 'stream', length: undefined, open: () => live.open() } as const
  return { ...webResponse('events', ''), content: stream }
}

/** A path of a page with slashes at its end is redirected to the page; every other path is 404. */
function withoutPage(path: string, table: ReadonlyMap<string, Page>, pages: Pages): Response {
  const shorter = path.replace(/\/+$/, '')
  if (shorter.startsWith(`${operationsPrefix}/`) && table.has(shorter)) return redirect(shorter)
  return webResponse('html', pages.notFound(), { status: 404 })
}

/** The query is dropped: no page but `explain` reads one. */
function redirect(location: string): Response {
  const fields = Fields.of(['Location', location])
  return webResponse('text', `See ${location}\n`, { status: 307, fields })
}

/**
 * `GET /`: tools that look for an APT proxy know one by status 406, older ones by the words "usage information" in the
 * reason phrase. A redirect would hide it from them, so the page itself leads a browser on.
 */
function usageInformation(page: Buffer): Response {
  return webResponse('html', page, { status: 406, reason: 'Not Acceptable - Usage Information' })
}

const securityExpiry: Milliseconds = 7 * day

/** RFC 9116. */
function securityText(contact: string, now: Milliseconds): string {
  const expires = new Date(now + securityExpiry).toISOString().replace(/\.\d+Z$/, 'Z')
  return `Contact: ${contact}\nExpires: ${expires}\nPreferred-Languages: en\n`
}

function file(type: keyof typeof missing, bytes: Buffer | undefined): Response {
  return bytes === undefined
    ? webResponse('text', missing[type], { status: 404 })
    : webResponse(type, bytes)
}

const missing = {
  certificate: 'There is no certificate: this service does not intercept HTTPS.\n',
  revocationList: 'There is no revocation list: this service does not make one.\n',
}

/** For the script that tells apt whether to use this proxy. */
function allowed(client: string, { admits }: OperationsSources): Response {
  if (admits(client)) return webResponse('text', 'yes\n')
  return webResponse('text', `${client} is in no network under \`clients\`.\n`, { status: 403 })
}

async function health(sources: OperationsSources): Promise<Response> {
  const found = await sources.health()
  return found.writable
    ? webResponse('text', 'ok\n')
    : webResponse('text', `not ready: ${found.because}\n`, { status: 503 })
}
