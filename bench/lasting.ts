/**
 * What users notice when strangers hold connections for long: `node dist/bench/lasting.js [seconds] [of each kind] [addresses]`.
 *
 * On a passthrough path strangers open event streams, send uploads a byte a second, and read downloads a little a second, all at
 * once, from so many addresses of the loopback. A signed-in user asks 200 times a second meanwhile. Writes the user's times without
 * them, with them, and after they have gone.
 */
import { createServer, type ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { AuthproxyProcess, startable } from '../test/fixtures/gateway/authproxy-process.ts'
import { WholeBrowser } from '../test/fixtures/gateway/whole-browser.ts'
import { freePort } from '../test/fixtures/process/ports.ts'
import { ScriptedIdp } from '../test/fixtures/saml/idp.ts'

const [secondsText = '20', countText = '512', addressesText = '64'] = process.argv.slice(2)
const seconds = Number(secondsText)
const count = Number(countText)
const addresses = Number(addressesText)
const teardowns: Array<() => unknown> = []
const t = { teardown: (action: () => unknown) => void teardowns.push(action) }

/** What the backend sees of each kind. */
const arrived = { events: 0, uploads: 0, downloads: 0 }
const streams = new Set<ServerResponse>()
const large = Buffer.alloc(10_000_000, 'x')
const backendPort = await freePort()
createServer((request, response) => {
  request.on('error', () => undefined)
  if (request.url === '/open/events') {
    arrived.events += 1
    response.writeHead(200, { 'Content-Type': 'text/event-stream' })
    response.write('data: first\n\n')
    streams.add(response.on('close', () => streams.delete(response)))
  } else if (request.url === '/open/upload') {
    arrived.uploads += 1
    request.resume().on('end', () => response.end('taken'))
  } else if (request.url === '/open/download') {
    arrived.downloads += 1
    response.end(large)
  } else response.end('the application')
}).listen(backendPort, '127.0.0.1')
setInterval(() => {
  for (const stream of streams) stream.write('data: more\n\n')
}, 5000).unref()

const { directory, port, settings } = await startable(t)
const gateway = await AuthproxyProcess.start(t, {
  directory,
  // As bin/authproxy has it.
  nodeOptions: ['--max-semi-space-size=4'],
  settings: {
    ...settings,
    proxy: { ...settings.proxy, targetURL: `http://127.0.0.1:${backendPort}` },
  },
})
await gateway.until('ready')

const head = (line: string, fields = '') =>
  `${line} HTTP/1.1\r\nHost: ${settings.domain}\r\nX-Forwarded-Proto: https\r\n${fields}\r\n`

const open = new Set<Socket>()
/** A stranger's connection; each address has as many. */
function stranger(index: number, bytes: string): Socket {
  const at = index % addresses
  const localAddress = `127.0.${1 + Math.floor(at / 200)}.${1 + (at % 200)}`
  const socket = connect({ port, host: '127.0.0.1', localAddress })
  open.add(socket)
  socket.on('error', () => undefined).on('close', () => open.delete(socket))
  socket.write(bytes)
  return socket
}

function listens(index: number): void {
  stranger(index, head('GET /open/events')).resume()
}

function drips(index: number): void {
  const socket = stranger(index, head('POST /open/upload', 'Content-Length: 10000000\r\n')).resume()
  const timer = setInterval(() => socket.write('x'), 1000)
  socket.on('close', () => clearInterval(timer))
}

/** Reads what waits, once a second. */
function sips(index: number): void {
  const socket = stranger(index, head('GET /open/download'))
  socket.on('data', () => socket.pause())
  const timer = setInterval(() => socket.resume(), 1000)
  socket.on('close', () => clearInterval(timer))
}

const user = new WholeBrowser({ teardown: () => undefined }, port)
await user.signIn(new ScriptedIdp('okta', { now: Date.now }))
const cookies = [...user.cookies].map(([name, value]) => `${name}=${value}`).join('; ')
const asked = head('GET /page', `Cookie: ${cookies}\r\n`)
let failed = 0

/** One connection of the user: a request every 100 ms, or when the one before is answered. */
async function asks(until: number, times: number[]): Promise<void> {
  const socket = connect({ port, host: '127.0.0.1' })
  let settle = (_answer: string): void => undefined
  socket
    .on('error', () => undefined)
    .on('data', bytes => settle(bytes.toString('latin1')))
    .on('close', () => settle(''))
  while (performance.now() < until) {
    const begun = performance.now()
    socket.write(asked)
    const answer = await new Promise<string>(resolve => {
      settle = resolve
    })
    if (!answer.startsWith('HTTP/1.1 200')) failed += 1
    times.push(performance.now() - begun)
    await sleep(Math.max(0, 100 - (performance.now() - begun)))
  }
  socket.destroy()
}

async function measure(name: string): Promise<void> {
  const times: number[] = []
  failed = 0
  const until = performance.now() + seconds * 1000
  await Promise.all(Array.from({ length: 20 }, () => asks(until, times)))
  times.sort((a, b) => a - b)
  const at = (share: number) => (times[Math.floor((times.length - 1) * share)] ?? 0).toFixed(1)
  const { events, uploads, downloads } = arrived
  const figures = [name, times.length, failed, at(0.5), at(0.99), at(1), open.size]
  const backend = `${events} + ${uploads} + ${downloads}`
  process.stdout.write(`| ${[...figures, backend].join(' | ')} |\n`)
}

process.stdout.write(
  '|  | requests | failed | ms, median | ms, p99 | ms, longest | connections of strangers | event streams + uploads + downloads at the backend |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n',
)
await measure('warming up')
await measure('without strangers')
for (let index = 0; index < count; index += 1) {
  listens(index)
  drips(index)
  sips(index)
  if (index % 16 === 0) await sleep(20)
}
await sleep(1000)
await measure('with strangers')
await measure('with them for longer')
for (const socket of open) socket.destroy()
await sleep(2000)
await measure('after them')
await gateway.stop()
for (const teardown of teardowns.reverse()) await teardown()
process.exit()
