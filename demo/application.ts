/**
 * The sample application behind the gateway, with one of each thing that applications do. It shows the user the gateway names
 * and all it received. For demonstrations and tests; it trusts every client.
 * It uses node:http and no code of the gateway, so that it can show faults of the gateway.
 *
 *     /                      the page, as is every path not named here
 *     /fields                the request as JSON: method, target, fields in order
 *     /socket                a WebSocket that echoes; /socket?refuse=403 refuses it
 *     /events?count=&every=  a stream of events, every so many milliseconds
 *     /upload                POST or PUT: counts and hashes the content
 *     /download?bytes=       so many bytes
 *     /form                  a form; POST shows what came
 *     /cookie                sets a cookie of its own and shows those that came
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { type Duplex, Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { packageRoot } from '../lib/package.ts'
import { Templates, type View } from '../lib/template.ts'
import { echo } from './websocket.ts'

type Answer = (
  request: IncomingMessage,
  response: ServerResponse,
  query: URLSearchParams,
) => Promise<void> | void

interface Field {
  readonly name: string
  readonly value: string
}

const FORM_LIMIT = 256 * 1024
const LONGEST_SHOWN = 2000
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

/** The application, not listening yet. Throws when its templates are missing. */
export function createApplication(): Server {
  const directory = join(packageRoot(), 'templates', 'demo')
  const templates = Templates.read(directory)
  const asset = (name: string, type: string): Answer => {
    const content = readFileSync(join(directory, name))
    return (_, response) => send(response, `${type}; charset=utf-8`, content)
  }
  const page = (response: ServerResponse, template: string, view: View) =>
    send(response, 'text/html; charset=utf-8', templates.render(template, view))
  const routes = new Map<string, Answer>([
    ['/demo/application.css', asset('application.css', 'text/css')],
    ['/demo/application.js', asset('application.js', 'text/javascript')],
    ['/fields', fields],
    ['/events', events],
    ['/upload', upload],
    ['/download', download],
    ['/cookie', cookie],
    ['/form', async (request, response) => page(response, 'form', await formOf(request))],
  ])
  // The heads may be as large as the gateway forwards them.
  const server = createServer({ maxHeaderSize: 2 * 1024 * 1024 }, async (request, response) => {
    const { path, query } = targetOf(request)
    try {
      const answer = routes.get(path)
      if (answer === undefined) page(response, 'application', pageView(request))
      else await answer(request, response, query)
    } catch {
      response.destroy()
    }
  })
  server.maxHeadersCount = 0
  server.requestTimeout = 0
  server.on('upgrade', upgrade)
  return server
}

/** The URL of a request. Never throws, although a request may have any target, such as `//`. */
function targetOf({ url = '/' }: IncomingMessage) {
  const [path = '', query] = url.split(/\?(.*)/s)
  return { path, query: new URLSearchParams(query) }
}

function upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
  const { path, query } = targetOf(request)
  const refusal = query.get('refuse')
  if (path === '/socket' && refusal === null) {
    // The fields in which the gateway names the user, in the order of their arrival.
    const identity = fieldsOf(request).filter(isIdentity)
    echo(request, socket, head, JSON.stringify({ identity }))
    return
  }
  socket.on('error', () => socket.destroy())
  const text = 'The application does not want this WebSocket.\n'
  const status = /^[45]\d\d$/.test(refusal ?? '') ? refusal : '404'
  socket.end(
    `HTTP/1.1 ${status} Refused\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: ${text.length}\r\n\r\n${text}`,
  )
}

function fields({ method, url, rawHeaders }: IncomingMessage, response: ServerResponse): void {
  json(response, { method, target: url, fields: rawHeaders })
}

function events(_: IncomingMessage, response: ServerResponse, query: URLSearchParams): void {
  const count = numberOf(query, 'count', 10)
  response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' })
  let sent = 0
  const timer = setInterval(
    () => {
      sent += 1
      response.write(`id: ${sent}\ndata: ${JSON.stringify({ event: sent, of: count })}\n\n`)
      if (sent >= count) response.end()
    },
    numberOf(query, 'every', 1000),
  )
  response.on('close', () => clearInterval(timer))
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

const download: Answer = (_, response, query) => {
  const size = numberOf(query, 'bytes', 1024)
  response.writeHead(200, { 'Content-Type': 'application/octet-stream', 'Content-Length': size })
  return pipeline(flow(size), response)
}

const block = Buffer.alloc(64 * 1024, 'A line of the sample download. ')

/** A stream of exactly this many bytes, which repeats one block. */
export function flow(size: number): Readable {
  const blocks = function* () {
    for (let left = size; left > 0; left -= block.length) yield block.subarray(0, left)
  }
  return Readable.from(blocks(), { objectMode: false })
}

function cookie({ headers }: IncomingMessage, response: ServerResponse): void {
  response.setHeader('Set-Cookie', 'application_seen=yes; Path=/; HttpOnly; SameSite=Lax')
  json(response, { cookies: (headers.cookie ?? '').split(/; ?/).filter(Boolean) })
}

/** The values for templates/demo/form.mustache. */
async function formOf(request: IncomingMessage) {
  const blocks: Buffer[] = []
  let size = 0
  for await (const block of request) {
    size += block.length
    if (size <= FORM_LIMIT) blocks.push(block)
  }
  const type = request.headers['content-type'] ?? 'none'
  const content = Buffer.concat(blocks).toString()
  return { submitted: request.method === 'POST', type, content, size }
}

function numberOf(query: URLSearchParams, name: string, usual: number): number {
  const given = Number(query.get(name) ?? usual)
  return Number.isSafeInteger(given) && given >= 0 ? given : usual
}

function json(response: ServerResponse, value: unknown): void {
  send(response, 'application/json', `${JSON.stringify(value, undefined, 2)}\n`)
}

function send(response: ServerResponse, type: string, content: string | Buffer): void {
  response.setHeader('Content-Type', type)
  response.setHeader('Content-Security-Policy', policy)
  response.setHeader('Cache-Control', 'no-store')
  response.end(content)
}

/** The values for templates/demo/application.mustache. */
function pageView(request: IncomingMessage): Readonly<Record<string, unknown>> {
  const all = fieldsOf(request)
  const identity = all.filter(field => isIdentity(field) && !/-instance-id$/i.test(field.name))
  const user = identity.find(({ name }) => /^x-authproxy-user$/i.test(name))?.value
  const others = all.filter(field => !identity.includes(field))
  return {
    user: user ?? '',
    known: user !== undefined,
    identity: identity.map(shown),
    others: others.map(shown),
    method: request.method ?? '',
    target: request.url ?? '',
  }
}

function isIdentity({ name }: Field): boolean {
  return /^(x-authproxy-|authorization$)/i.test(name)
}

function fieldsOf({ rawHeaders }: IncomingMessage): readonly Field[] {
  return rawHeaders.flatMap((name, i) =>
    // The gateway sends UTF-8; Node.js takes each byte of a field as a character.
    i % 2 === 0 ? [{ name, value: Buffer.from(rawHeaders[i + 1] ?? '', 'latin1').toString() }] : [],
  )
}

/** A field for the page; a long value is cut, and `note` says how long it was. */
function shown({ name, value }: Field): Field & { readonly note: string } {
  if (value.length <= LONGEST_SHOWN) return { name, value, note: '' }
  const note = `${value.length.toLocaleString('en-GB')} characters`
  return { name, value: `${value.slice(0, LONGEST_SHOWN)}…`, note }
}
