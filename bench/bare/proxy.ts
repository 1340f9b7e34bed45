/**
 * The yardstick for bytes on their way: the least a proxy on node:net can do with blocks of 1 MiB read by `onread`.
 * A GET is fetched, hashed, written to a file and sent on, and never answered from there; a CONNECT becomes a tunnel.
 *
 *     node dist/bench/bare/proxy.js PORT DIRECTORY
 */
import { createHash, type Hash } from 'node:crypto'
import { open, rename } from 'node:fs/promises'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'

const [, , ownPort = '', directory = ''] = process.argv
const blockSize = 1 << 20
/** Bytes that may wait for a client before its origin is not read. */
const mostWaiting = 4 * blockSize
const idle: Buffer<ArrayBuffer>[] = []
let serial = 0

interface Target {
  readonly host: string
  readonly port: number
  readonly path: string
}

/**
 * Connects and hands every block that is read to `each`, which answers whether to go on at once and calls `done` when the
 * block may be used again.
 */
function read({ host, port }: Target, each: (block: Buffer, done: () => void) => boolean): Socket {
  let block: Buffer<ArrayBuffer> = Buffer.alloc(0)
  return connect({
    host,
    port,
    onread: {
      buffer: () => {
        block = idle.pop() ?? Buffer.allocUnsafeSlow(blockSize)
        return block
      },
      callback: length => {
        const used = block
        return each(used.subarray(0, length), () => idle.push(used))
      },
    },
  })
}

/** What comes from `target` goes to the client, and what the client sends goes there. */
function tunnel(client: Socket, target: Target): void {
  const origin = read(target, (block, done) => {
    client.write(block, done)
    return client.writableLength < mostWaiting
  })
  client.on('drain', () => origin.resume())
  origin.once('connect', () => client.write('HTTP/1.1 200 Connection established\r\n\r\n'))
  client.pipe(origin)
  endTogether(client, origin)
}

/** Fetches a file, and sends, hashes and stores it block by block. */
function tee(client: Socket, target: Target): void {
  const file = join(directory, `${serial}.part`)
  serial += 1
  const hash = createHash('sha256')
  const opened = open(file, 'w')
  let written: Promise<unknown> = opened
  let left = -1
  const origin = read(target, (block, done) => {
    let content = block
    if (left === -1) {
      const end = block.indexOf('\r\n\r\n') + 4
      left = Number(/content-length: (\d+)/i.exec(block.toString('latin1', 0, end))?.[1])
      content = block.subarray(end)
    }
    left -= content.length
    let users = 2
    const release = () => {
      users -= 1
      if (users === 0) done()
    }
    client.write(block, release)
    hash.update(content)
    written = written.then(async () => (await opened).write(content)).then(release)
    if (left === 0) {
      void written.then(() => store(file, opened, hash))
      origin.destroy()
      serve(client)
    }
    return client.writableLength < mostWaiting
  })
  const resume = () => origin.resume()
  client.on('drain', resume)
  origin.once('close', () => client.off('drain', resume))
  origin.write(`GET ${target.path} HTTP/1.1\r\nHost: ${target.host}:${target.port}\r\n\r\n`)
  origin.on('error', () => client.destroy())
}

async function store(file: string, opened: ReturnType<typeof open>, hash: Hash): Promise<void> {
  await (await opened).close()
  await rename(file, join(directory, hash.digest('hex')))
}

function endTogether(one: Socket, other: Socket): void {
  for (const [socket, peer] of [
    [one, other],
    [other, one],
  ] as const) {
    socket.on('error', () => peer.destroy())
    socket.once('close', () => peer.destroy())
  }
}

/** The next request of a client, which never sends it before the response to its last is complete. */
function serve(client: Socket): void {
  client.once('data', bytes => {
    const [method = '', name = ''] = bytes.toString('latin1').split(' ')
    const url = new URL(method === 'CONNECT' ? `http://${name}` : name)
    const target = { host: url.hostname, port: Number(url.port), path: url.pathname }
    if (method === 'CONNECT') tunnel(client, target)
    else tee(client, target)
  })
}

createServer({ noDelay: true }, client => {
  client.on('error', () => client.destroy())
  serve(client)
}).listen(Number(ownPort), '127.0.0.1', 2048)
