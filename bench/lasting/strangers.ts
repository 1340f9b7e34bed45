/**
 * Strangers who hold connections for long, a process of their own: told to begin, they open event streams, uploads that drip and
 * downloads that sip, as many of each, and tell when all are under way. Asked later, they tell how many connections are open.
 */
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

const [portText, domain, countText, addressesText] = process.argv.slice(2)
const port = Number(portText)
const count = Number(countText)
const addresses = Number(addressesText)
const open = new Set<Socket>()

const head = (line: string, fields = '') =>
  `${line} HTTP/1.1\r\nHost: ${domain}\r\nX-Forwarded-Proto: https\r\n${fields}\r\n`

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

async function begin(): Promise<void> {
  for (let index = 0; index < count; index += 1) {
    listens(index)
    drips(index)
    sips(index)
    if (index % 16 === 0) await sleep(20)
  }
}

process.on('message', async message => {
  if (message === 'begin') await begin()
  if (message === 'leave') for (const socket of open) socket.destroy()
  process.send?.(open.size)
})
process.on('disconnect', () => process.exit())
