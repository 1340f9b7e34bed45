/**
 * The routes of the operations interface: the answer to each path, and the template and view of each page. The pipeline sends
 * requests here by their path alone. Which page answers depends neither on the host that a request names nor on `index.enable`.
 *
 * Paths are compared byte for byte: they are case-sensitive and have one spelling. Queries are ignored, except that of
 * `explain`.
 */

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { day, type Milliseconds } from '../../async/clock.ts'
import { Fields } from '../../http/message/field.ts'
import type { Request, Response } from '../../http/message/message.ts'
import { withoutContent } from '../../http/message/reply.ts'
import { methodNotAllowed } from '../../http/server/router.ts'
import { AddressSet } from '../../ip.ts'
import { packageRoot, projectPage } from '../../package.ts'
import { Templates, type View } from '../../template.ts'
import { healthCheckPaths, operationsPrefix } from '../request/own-paths.ts'
import { endpointFor, serviceState, upkeepCautions } from './endpoint.ts'
import { setupScript } from './examples.ts'
import { LiveEvents } from './live.ts'
import type { OperationsSources } from './sources.ts'
import { cacheView } from './views/cache-view.ts'
import { explainView } from './views/explain-view.ts'
import { configurationView, indexView } from './views/index-view.ts'
import { setupView } from './views/setup-view.ts'
import { statsView } from './views/stats-view.ts'

/** Answers GET for one path. Only `explain` reads the query. */
type Page = (request: Request, query: string | undefined) => Response | Promise<Response>

/**
 * Makes the operations interface. It reads the templates, and throws when one is missing or broken. The function that it returns
 * answers GET and HEAD of every route, and OPTIONS of the paths that load balancers check. It answers other methods with 405 and other
 * paths with 404.
 */
export function operationsHandler(
  sources: OperationsSources,
  live: LiveEvents = new LiveEvents(sources),
): (request: Request, path: string, query?: string) => Promise<Response> {
  const directory = join(packageRoot(), 'templates', 'operations')
  const read = (name: string) => readFileSync(join(directory, name))
  const render = pageRenderer(sources, Templates.read(directory))
  const table = pageTable(sources, { live, render, read })
  const refusal = refusalOf(sources)
  return async (request, path, query) => {
    const { method } = request
    if (method === 'OPTIONS' && healthCheckPaths.has(path)) {
      const { fields, ...answer } = withWebFields(withoutContent(await health(sources)))
      return { ...answer, fields: fields.plus('Allow', 'GET, HEAD, OPTIONS') }
    }
    if (method !== 'GET' && method !== 'HEAD') {
      return withWebFields(methodNotAllowed(['GET', 'HEAD']))
    }
    const refused = refusal(request, path)
    const page = table.get(path)
    const response = withWebFields(
      refused ?? (await (page?.(request, query) ?? withoutPage(path, table, render))),
    )
    return method === 'HEAD' ? withoutContent(response) : response
  }
}

/** The private paths, which show who uses the service and for what. Clients need the other paths to use it. */
const privatePaths: ReadonlySet<string> = new Set([
  ...['/_cachesvc/', '/_cachesvc/cache', '/_cachesvc/stats', '/_cachesvc/explain'],
  ...['/_cachesvc/configuration', '/_cachesvc/live', '/_cachesvc/api/stats', '/_cachesvc/metrics'],
])

const notForYou =
  'This page is for the networks under `index.clients`. See /_cachesvc/setup for how to use this proxy.\n'

/** Refuses requests for private paths from clients outside `index.clients`. Undefined when the request may have the page. */
function refusalOf(
  sources: OperationsSources,
): (request: Request, path: string) => Response | undefined {
  let known: { readonly list: readonly string[]; readonly set: AddressSet } | undefined
  return ({ client }, path) => {
    const list = sources.config.index.clients
    if (list.length === 0 || !privatePaths.has(path)) return undefined
    if (known?.list !== list) known = { list, set: AddressSet.fromCidrs(list) }
    return known.set.has(client.address)
      ? undefined
      : webResponse('text', notForYou, { status: 403 })
  }
}

/** The answer to a path without a page: a redirect when it is a page's path with slashes at its end, else 404. */
function withoutPage(path: string, table: ReadonlyMap<string, Page>, render: Render): Response {
  const shorter = path.replace(/\/+$/, '')
  if (shorter.startsWith(`${operationsPrefix}/`) && table.has(shorter)) return redirect(shorter)
  return webResponse('html', render('not-found', 'Page not found', {}), { status: 404 })
}

const menu = [
  ['/_cachesvc/', 'Overview'],
  ['/_cachesvc/cache', 'Cache'],
  ['/_cachesvc/stats', 'Statistics'],
  ['/_cachesvc/setup', 'Setup'],
  ['/_cachesvc/explain', 'Explain'],
  ['/_cachesvc/configuration', 'Configuration'],
] as const

/** Fills a template with a view, in the frame that all pages have. */
type Render = (template: string, title: string, view: View) => string

function pageRenderer({ version }: OperationsSources, templates: Templates): Render {
  const project = projectPage()
  return (template, title, view) => {
    const links = menu.map(([href, label]) => ({ href, label, current: label === title }))
    return templates.render(template, { title, version, project, menu: links, ...view })
  }
}

function pageTable(
  sources: OperationsSources,
  { live, render, read }: PageParts,
): ReadonlyMap<string, Page> {
  const style = read('style.css')
  const icon = read('favicon.ico')
  const usage = read('usage.html')
  /** The fields of a page that includes this template, which consists of one script. */
  const withScript = (template: string) => {
    const text = read(`${template}.mustache`).toString()
    const [, script = ''] = /<script>(.*)<\/script>/s.exec(text) ?? []
    return { fields: policyWithScript(script) }
  }
  const [withFigures, withCopy] = [withScript('live'), withScript('copy')]
  const { clock } = sources
  const here = (request: Request) => endpointFor(request, sources)
  const html = (...page: Parameters<Render>) => webResponse('html', render(...page))
  const pages: Readonly<Record<string, Page>> = {
    '/': () => usageInformation(usage),
    '/robots.txt': () => webResponse('text', 'User-agent: *\nDisallow: /\n'),
    '/favicon.ico': () => webResponse('icon', icon),
    '/.well-known/security.txt': () => webResponse('text', securityText(clock.now())),
    '/_cachesvc': () => redirect('/_cachesvc/'),
    '/_cachesvc/': async request => {
      const view = { ...(await indexView(sources, here(request))), ...(await stateView(sources)) }
      return webResponse('html', render('index', 'Overview', view), withFigures)
    },
    '/_cachesvc/live': () => liveResponse(live),
    '/_cachesvc/cache': async () => {
      const view = { ...(await cacheView(sources)), ...(await stateView(sources)) }
      return html('cache', 'Cache', view)
    },
    '/_cachesvc/stats': () =>
      html('stats', 'Statistics', statsView(sources.statistics(), sources.history())),
    '/_cachesvc/setup': request => {
      const view = setupView(sources, here(request), request)
      return webResponse('html', render('setup', 'Setup', view), withCopy)
    },
    '/_cachesvc/setup.sh': request => {
      const setting = { here: here(request), proxies: sources.config.index.proxies }
      return webResponse('text', setupScript(setting))
    },
    '/_cachesvc/explain': async (_request, query) =>
      html('explain', 'Explain', await explainView(sources, query)),
    '/_cachesvc/configuration': request =>
      html('configuration', 'Configuration', configurationView(sources, here(request))),
    '/_cachesvc/style.css': () => webResponse('css', style),
    '/_cachesvc/api/stats': () => webResponse('json', `${JSON.stringify(sources.statistics())}\n`),
    '/_cachesvc/cachesvc.crt': async () => file('certificate', await sources.certificate()),
    '/_cachesvc/revocation.crl': async () => file('revocationList', await sources.revocationList()),
    '/_cachesvc/allowed': ({ client }) => allowed(client.address, sources),
    '/_cachesvc/healthz': () => health(sources),
    '/_cachesvc/metrics': async () => webResponse('metrics', await sources.metrics()),
  }
  return new Map(Object.entries(pages))
}

interface PageParts {
  readonly live: LiveEvents
  readonly render: Render
  readonly read: (name: string) => Buffer
}

async function stateView(sources: OperationsSources): Promise<View> {
  const { is, because, cautions } = await serviceState(sources)
  const state = { ready: is === 'ready', doubtful: is === 'doubtful', broken: is === 'broken' }
  return { ...state, because, cautions, storing: sources.nothingStored() === undefined }
}

function liveResponse(live: LiveEvents): Response {
  if (live.full) {
    const fields = Fields.of(['Retry-After', '60'])
    return webResponse('text', 'Too many pages get live figures.\n', { status: 503, fields })
  }
  const stream = { kind: 'stream', length: undefined, open: () => live.open() } as const
  return { ...webResponse('events', ''), content: stream }
}

/** A redirect to a page. It drops the query, which only `explain` reads. */
function redirect(location: string): Response {
  const fields = Fields.of(['Location', location])
  return webResponse('text', `See ${location}\n`, { status: 307, fields })
}

/**
 * The answer to `GET /`. Tools that look for an APT proxy recognise one by status 406, older ones by the words "usage information" in
 * the reason phrase. A redirect would hide the status from them, so the page itself sends a browser to the overview.
 */
function usageInformation(page: Buffer): Response {
  return webResponse('html', page, { status: 406, reason: 'Not Acceptable - Usage Information' })
}

const securityExpiry: Milliseconds = 7 * day

/** The text of security.txt (RFC 9116). */
function securityText(now: Milliseconds): string {
  const expires = new Date(now + securityExpiry).toISOString().replace(/\.\d+Z$/, 'Z')
  return `Contact: ${projectPage()}\nExpires: ${expires}\nPreferred-Languages: en\n`
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

/** The answer to the script that tells apt whether to use this proxy. */
function allowed(client: string, { admits }: OperationsSources): Response {
  if (admits(client)) return webResponse('text', 'yes\n')
  return webResponse('text', `${client} is in no network under \`clients\`.\n`, { status: 403 })
}

async function health(sources: OperationsSources): Promise<Response> {
  const found = await sources.health()
  const cautions = upkeepCautions(sources).map(caution => `${caution}\n`)
  return found.writable
    ? webResponse('text', ['ok\n', ...cautions].join(''))
    : webResponse('text', `not ready: ${found.because}\n`, { status: 503 })
}

/*
 * Responses of the web interface: their media types, and the security fields that every response has.
 * The content security policy allows no frames, no content of other sites, and no scripts but those of the overview and the setup page.
 */

const contentPolicy =
  "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

/** The policy for a page with one script. The script may send requests to this service only. */
function policyWithScript(script: string): Fields {
  const hash = createHash('sha256').update(script).digest('base64')
  const policy = `${contentPolicy}; script-src 'sha256-${hash}'; connect-src 'self'`
  return Fields.of(['Content-Security-Policy', policy])
}

/** The fields of every response of the web interface, errors and redirects included. */
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

/** A response with this content. Its status is 200 unless `more` has another. */
function webResponse(
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

/** Adds the fields of every response of the web interface. Fields that the response already has stay unchanged. */
function withWebFields(response: Response): Response {
  const missing = webFields.filter(([name]) => !response.fields.has(name))
  return { ...response, fields: Fields.of(...missing, ...response.fields) }
}
