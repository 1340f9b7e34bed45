/**
 * A WebSocket that says everything again, RFC 6455: the part a sample application needs. Frames are answered as they come, so
 * fragments and their order survive.
 */
import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'

/** RFC 6455 section 1.3 */
const magic = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
/** Bytes of one frame; larger ones end the connection with 1009. */
const LARGEST_FRAME = 1024 * 1024

const opcodes = { close: 8, ping: 9, pong: 10 } as const

/** Answers the opening handshake, says `greeting`, then echoes until one side closes. 400 when it is no handshake. */
export function echo(
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
  greeting: string,
): void {
  socket.on('error', () => socket.destroy())
  const key = request.headers['sec-websocket-key']
  if (request.headers['sec-websocket-version'] !== '13' || key === undefined) {
    socket.end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n')
    return
  }
  const accept = createHash('sha1').update(`${key}${magic}`).digest('base64')
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
  )
  socket.write(frame(0x81, Buffer.from(greeting)))
  let waiting: Buffer = head
  const take = (block: Buffer) => {
    waiting = Buffer.concat([waiting, block])
    for (;;) {
      const read = readFrame(waiting)
      if (read === 'more') return
      if (read === 'refused') {
        socket.end(frame(0x80 | opcodes.close, Buffer.from([0x03, 0xf1])))
        return
      }
      waiting = waiting.subarray(read.size)
      if (!answer(socket, read)) return
    }
  }
  socket.on('data', (block: Buffer) => {
    take(block)
    // The reader decides the pace: nothing more is read while answers wait to be sent.
    if (socket.writableNeedDrain) {
      socket.pause()
      socket.once('drain', () => socket.resume())
    }
  })
  take(Buffer.alloc(0))
}

interface Frame {
  /** FIN, reserved bits and opcode as they came. */
  readonly first: number
  readonly content: Buffer
  /** Bytes it took on the wire. */
  readonly size: number
}

/** Whether the connection goes on. */
function answer(socket: Duplex, { first, content }: Frame): boolean {
  const opcode = first & 0x0f
  if (opcode === opcodes.close) {
    socket.end(frame(0x80 | opcodes.close, content))
    return false
  }
  if (opcode === opcodes.ping) socket.write(frame(0x80 | opcodes.pong, content))
  else if (opcode !== opcodes.pong) socket.write(frame(first, content))
  return true
}

/** RFC 6455 section 5.2. Frames of clients are masked. */
function readFrame(bytes: Buffer): Frame | 'more' | 'refused' {
  const [first, second] = bytes
  if (first === undefined || second === undefined) return 'more'
  if ((second & 0x80) === 0) return 'refused'
  const short = second & 0x7f
  const extra = short === 126 ? 2 : short === 127 ? 8 : 0
  const start = 2 + extra + 4
  if (bytes.length < start) return 'more'
  const length =
    extra === 2 ? bytes.readUInt16BE(2) : extra === 8 ? Number(bytes.readBigUInt64BE(2)) : short
  if (length > LARGEST_FRAME) return 'refused'
  if (bytes.length < start + length) return 'more'
  const mask = bytes.subarray(start - 4, start)
  const content = Buffer.from(bytes.subarray(start, start + length))
  for (let i = 0; i < content.length; i += 1) content[i] = (content[i] ?? 0) ^ (mask[i % 4] ?? 0)
  return { first, content, size: start + length }
}

/** A frame as servers send it: without a mask. */
function frame(first: number, content: Buffer): Buffer {
  const { length } = content
  if (length < 126) return Buffer.concat([Buffer.from([first, length]), content])
  const head = Buffer.alloc(length < 65_536 ? 4 : 10)
  head[0] = first
  head[1] = length < 65_536 ? 126 : 127
  if (length < 65_536) head.writeUInt16BE(length, 2)
  else head.writeBigUInt64BE(BigInt(length), 2)
  return Buffer.concat([head, content])
}
