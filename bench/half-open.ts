/**
 * Whether authproxy gives back what WebSockets took: `node dist/bench/half-open.js [seconds] [clients]`.
 *
 * The clients open sockets to a backend that keeps its side half open for a minute, say something and leave, by FIN or RST, again and
 * again. Writes descriptors and resident memory of the gateway before, at the end, and until they are back.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { AuthproxyProcess, startable } from '../test/fixtures/gateway/authproxy-process.ts'
import { freePort } from '../test/fixtures/process/ports.ts'

const [seconds = '180', clients = '300'] = process.argv.slice(2)
const teardowns: Array<() => unknown> = []
const t = { teardown: (action: () => unknown) => void teardowns.push(action) }

const agreed =
  'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n'
const backendPort = await freePort()
const halfOpen = new Set<Socket>()
createServer({ allowHalfOpen: true }, socket => {
  halfOpen.add(socket)
  socket.on('error', () => undefined).on('close', () => halfOpen.delete(socket))
  socket.once('data', () => socket.write(agreed)).resume()
  // For ever is too long for the descriptors of this process.
  setTimeout(() => socket.destroy(), 60_000).unref()
}).listen(backendPort, '127.0.0.1')

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

function readings(): { readonly descriptors: number; readonly megabytes: number } {
  const [, kilobytes = ''] =
    /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${gateway.pid}/status`, 'utf8')) ?? []
  return {
    descriptors: readdirSync(`/proc/${gateway.pid}/fd`).length,
    megabytes: Math.round(Number(kilobytes) / 1024),
  }
}

function tell(when: string): void {
  const { descriptors, megabytes } = readings()
  const backend = `${halfOpen.size} sockets at the backend`
  process.stdout.write(`${when}: ${descriptors} descriptors, ${megabytes} MB, ${backend}\n`)
}

const handshake = `GET /open/socket HTTP/1.1\r\nHost: ${settings.domain}\r\nX-Forwarded-Proto: https\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n`
let opened = 0

/** One socket, until the client has left. */
function visit(leaves: 'fin' | 'reset'): Promise<void> {
  return new Promise(resolve => {
    const socket = connect({ port, host: '127.0.0.1' })
    socket.on('error', () => undefined).on('close', () => resolve())
    socket.write(handshake)
    socket.once('data', () => {
      opened += 1
      socket.write('something')
      if (leaves === 'fin') socket.end()
      else setTimeout(() => socket.resetAndDestroy(), 100)
    })
    socket.resume().setTimeout(20_000, () => socket.destroy())
  })
}

async function client(until: number, index: number): Promise<void> {
  while (performance.now() < until) {
    await visit(index % 2 === 0 ? 'fin' : 'reset')
    await sleep(500)
  }
}

const run = (time: number) => {
  const until = performance.now() + time
  return Promise.all(Array.from({ length: Number(clients) }, (_, i) => client(until, i)))
}

tell('at the start')
await run(3000)
await sleep(15_000)
tell('after a first round')
const over = run(Number(seconds) * 1000)
for (let at = 30; at < Number(seconds); at += 30) {
  await sleep(30_000)
  tell(`${at} s`)
}
await over
tell(`at the end, ${opened} sockets opened`)
for (let at = 5; at <= 30; at += 5) {
  await sleep(5000)
  tell(`${at} s later`)
}
await gateway.stop()
for (const teardown of teardowns.reverse()) await teardown()
process.exit()
