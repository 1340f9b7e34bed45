/**
 * The origin of the bench, and its yardstick for hits: the least a server on node:net can do, from memory.
 * Answers requests by path or by whole URL; knows no caching, no ranges, no errors but 404. Files below /slow/ are paced. Content of
 * requests is dropped; what comes over a WebSocket is sent back.
 *
 *     node dist/bench/bare/server.js PORT
 */
import { createServer, type Socket } from 'node:net'
import { type Content, Contents, slowRate } from './content.ts'
import { suite, suiteFiles } from './suite.ts'

const contents = new Contents()
let suiteMade: ReturnType<typeof suiteFiles> | undefined

/** Files below the suite's directory are made when the first of them is asked for. */
function contentOf(path: string): Content | undefined {
  if (!path.startsWith(suite)) return contents.of(path)
  suiteMade ??= suiteFiles(contents)
  return suiteMade.get(path)
}
/** Small responses whole, by path. Emptied when full: a cold run asks for thousands of names once. */
const small = new Map<string, Buffer>()
const smallEnd = 64 * 1024
const mostSmall = 1000
/** Time between two pieces of a paced file, milliseconds. */
const beat = 5

const date = new Date(0).toUTCString()

function headOf(size: number): string {
  return (
    'HTTP/1.1 200 OK\r\nContent-Type: application/vnd.debian.binary-package\r\n' +
    `Last-Modified: ${date}\r\nETag: "${size.toString(16)}"\r\nContent-Length: ${size}\r\n\r\n`
  )
}

const missing = 'HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n'

/** Answers one request; resolves at the end of a paced file, and answers undefined when all is written. */
function answer(socket: Socket, path: string): Promise<void> | undefined {
  const known = small.get(path)
  if (known !== undefined) {
    socket.write(known)
    return undefined
  }
  const content = contentOf(path)
  if (content === undefined) {
    socket.write(missing)
    return undefined
  }
  const size = content[0].length + content[1].length
  if (path.startsWith('/slow/')) return sendPaced(socket, size, content)
  if (size <= smallEnd) {
    const whole = Buffer.concat([Buffer.from(headOf(size)), ...content])
    if (small.size >= mostSmall) small.clear()
    small.set(path, whole)
    socket.write(whole)
    return undefined
  }
  socket.cork()
  socket.write(headOf(size))
  for (const piece of content) socket.write(piece)
  socket.uncork()
  return undefined
}

/** The first piece leaves at once, the others by the clock: after a late timer more is sent. */
function sendPaced(socket: Socket, size: number, [first, rest]: Content): Promise<void> {
  socket.write(headOf(size))
  socket.write(first)
  const began = performance.now()
  let sent = 0
  return new Promise(resolve => {
    const timer = setInterval(() => {
      const due = Math.floor(((performance.now() - began) / 1000) * slowRate)
      socket.write(rest.subarray(sent, due))
      sent = Math.min(due, rest.length)
      if (sent < rest.length && !socket.destroyed) return
      clearInterval(timer)
      resolve()
    }, beat)
  })
}

function pathIn(head: string): string {
  const target = head.slice(4, head.indexOf(' ', 4))
  return target.startsWith('/') ? target : target.slice(target.indexOf('/', 'http://'.length))
}

const agreed =
  'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n'
const received = Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')

/** Answers the requests of a connection in their order; apt sends several before it reads. */
function serve(socket: Socket): void {
  let text = ''
  let pending = false
  /** Bytes of content that are still to come. */
  let content = 0
  const work = (): void => {
    for (;;) {
      const end = text.indexOf('\r\n\r\n')
      if (pending || end === -1) return
      const head = text.slice(0, end)
      text = text.slice(end + 4)
      if (head.startsWith('POST ')) {
        content = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0)
        take(text)
        continue
      }
      if (/\r\nupgrade: websocket/i.test(head)) {
        socket.removeAllListeners('data').on('data', bytes => socket.write(bytes))
        socket.write(agreed)
        return
      }
      const paced = answer(socket, pathIn(head))
      if (/\r\nconnection: close/i.test(head)) socket.end()
      if (paced === undefined) continue
      pending = true
      void paced.then(() => {
        pending = false
        work()
      })
    }
  }
  /** What follows the content is the next request. */
  const take = (more: string): void => {
    text = more.slice(content)
    content -= more.length - text.length
    if (content === 0) socket.write(received)
  }
  socket.setNoDelay(true)
  socket.on('error', () => socket.destroy())
  socket.on('data', bytes => {
    if (content > bytes.length) {
      content -= bytes.length
      return
    }
    if (content > 0) take(bytes.toString('latin1'))
    else text += bytes.toString('latin1')
    work()
  })
}

createServer(serve).listen(Number(process.argv[2]), '127.0.0.1', 2048)
