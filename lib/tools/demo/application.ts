/**
 * A sample application for the gateway to stand in front of: shows who it was told is there and everything it received, and
 * offers one of each thing applications do. For demonstrations and tests; it trusts whoever connects.
 * Knows node:http alone, so that it proves the gateway instead of repeating it.
 *
 *     /                      the page, as is every path not named here
 *     /fields                the request as JSON: method, target, fields in order
 *     /socket                a WebSocket that echoes; /socket?refuse=403 refuses it
 *     /events?count=&every=  a stream of events, every so many milliseconds
 *     /upload                POST or PUT: counts and hashes what comes
 *     /download?bytes=       so many bytes
 *     /form                  a form; POST shows what came
 *     /cookie                sets a cookie of its own and shows those that came
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { packageRoot } from '../../package.ts'
import { Templates } from '../../template.ts'
import { flow } from './flow.ts'
import { identityOf, pageView } from './received.ts'
import { echo } from './websocket.ts'

type Answer = (request: IncomingMessage, response: ServerResponse, asked: URL) => Promise<void>

const FORM_LIMIT = 256 * 1024
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

/** The application, not listening yet. Throws when its templates are missing. */
export function createApplication(): Server {
  const directory = join(packageRoot(), 'templates', 'demo')
  const templates = Templates.read(directory)
  const asset = (name: string) => readFileSync(join(directory, name))
  const assets = new Map<string, readonly [type: string, content: Buffer]>([
    ['/demo/application.css', ['text/css; charset=utf-8', asset('application.css')]],
    ['/demo/application.js', ['text/javascript; charset=utf-8', asset('application.js')]],
  ])
  const page: Answer = async (request, response) => {
    html(response, templates.render('application', pageView(request)))
  }
  const routes = new Map<string, Answer>([
    ['/fields', fields],
    ['/events', events],
    ['/upload', upload],
    ['/download', download],
    ['/cookie', cookie],
    ['/form', (request, response) => form(request, response, templates)],
  ])
  // As much as a gateway may hand on.
  const server = createServer({ maxHeaderSize: 2 * 1024 * 1024 }, (request, response) => {
    const asked = new URL(request.url ?? '/', 'http://application.invalid')
    const found = assets.get(asked.pathname)
    if (found !== undefined) {
      response.setHeader('Content-Type', found[0])
      response.end(found[1])
      return
    }
    const answer = routes.get(asked.pathname) ?? page
    answer(request, response, asked).catch(error => response.destroy(error))
  })
  server.maxHeadersCount = 0
  server.requestTimeout = 0
  server.on('upgrade', upgrade)
  return server
}

function upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
  const asked = new URL(request.url ?? '/', 'http://application.invalid')
  const refusal = asked.searchParams.get('refuse')
  if (asked.pathname === '/socket' && refusal === null) {
    echo(request, socket, head, JSON.stringify({ identity: identityOf(request) }))
    return
  }
  socket.on('error', () => socket.destroy())
  const text = 'The application does not want this WebSocket.\n'
  const status = /^[45]\d\d$/.test(refusal ?? '') ? refusal : '404'
  socket.end(
    `HTTP/1.1 ${status} Refused\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: ${text.length}\r\n\r\n${text}`,
  )
}

async function fields(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { method, url, rawHeaders } = request
  json(response, { method, target: url, fields: rawHeaders })
}

async function events(_: IncomingMessage, response: ServerResponse, asked: URL): Promise<void> {
  const count = numberOf(asked, 'count', 10)
  const every = numberOf(asked, 'every', 1000)
  response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' })
  let sent = 0
  await new Promise<void>(over => {
    const timer = setInterval(() => {
      sent += 1
      response.write(`id: ${sent}\ndata: ${JSON.stringify({ event: sent, of: count })}\n\n`)
      if (sent >= count) response.end()
    }, every)
    response.on('close', () => {
      clearInterval(timer)
      over()
    })
  })
}

async function upload(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const hash = createHash('sha256')
  let bytes = 0
  for await (const block of request) {
    hash.update(block)
    bytes += block.length
  }
  json(response, { bytes, sha256: hash.digest('hex') })
}

async function download(_: IncomingMessage, response: ServerResponse, asked: URL): Promise<void> {
  const size = numberOf(asked, 'bytes', 1024)
  response.writeHead(200, { 'Content-Type': 'application/octet-stream', 'Content-Length': size })
  await pipeline(flow(size), response)
}

async function cookie(request: IncomingMessage, response: ServerResponse): Promise<void> {
  response.setHeader('Set-Cookie', ['application_seen=yes; Path=/; HttpOnly; SameSite=Lax'])
  json(response, { cookies: (request.headers.cookie ?? '').split(/; ?/).filter(Boolean) })
}

async function form(
  request: IncomingMessage,
  response: ServerResponse,
  templates: Templates,
): Promise<void> {
  const blocks: Buffer[] = []
  let size = 0
  for await (const block of request) {
    size += block.length
    if (size <= FORM_LIMIT) blocks.push(block)
  }
  const type = request.headers['content-type'] ?? 'none'
  const content = Buffer.concat(blocks).toString()
  const submitted = request.method === 'POST'
  html(response, templates.render('form', { submitted, type, content, size }))
}

function numberOf(asked: URL, name: string, usual: number): number {
  const given = Number(asked.searchParams.get(name) ?? usual)
  return Number.isSafeInteger(given) && given >= 0 ? given : usual
}

function html(response: ServerResponse, text: string): void {
  response.setHeader('Content-Type', 'text/html; charset=utf-8')
  response.setHeader('Content-Security-Policy', policy)
  response.setHeader('Cache-Control', 'no-store')
  response.end(text)
}

function json(response: ServerResponse, value: unknown): void {
  response.setHeader('Content-Type', 'application/json')
  response.setHeader('Cache-Control', 'no-store')
  response.end(`${JSON.stringify(value, undefined, 2)}\n`)
}
