/**
 * A WebSocket that echoes. It implements as much of RFC 6455 as a sample application needs. Each frame is answered separately,
 * so fragments keep their order.
 */
import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'

/** RFC 6455 section 1.3 */
const magic = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
/** Bytes of one frame; a larger one ends the connection with 1009. */
const LARGEST_FRAME = 1024 * 1024
const FIN = 0x80
const opcodes = { text: 1, close: 8, ping: 9, pong: 10 } as const

/** Answers the opening handshake, sends `greeting`, then echoes until one side closes. 400 when it is no handshake. */
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
  socket.write(frame(FIN | opcodes.text, Buffer.from(greeting)))
  let unread: Buffer = Buffer.alloc(0)
  const take = (block: Buffer) => {
    unread = Buffer.concat([unread, block])
    for (let read = readFrame(unread); read !== undefined; read = readFrame(unread)) {
      unread = unread.subarray(read.size)
      if (!answer(socket, read)) return
    }
    // Reading pauses while answers wait to be sent, so that a slow client cannot fill the memory.
    if (!socket.writableNeedDrain) return
    socket.pause()
    socket.once('drain', () => socket.resume())
  }
  socket.on('data', take)
  take(head)
}

interface Frame {
  /** FIN, reserved bits and opcode of the frame. */
  readonly first: number
  readonly content: Buffer
  /** The bytes of the frame on the wire. */
  readonly size: number
}

/** Whether the connection goes on. */
function answer(socket: Duplex, { first, content }: Frame): boolean {
  const opcode = first & 0x0f
  if (opcode === opcodes.close) socket.end(frame(FIN | opcodes.close, content))
  else if (opcode === opcodes.ping) socket.write(frame(FIN | opcodes.pong, content))
  else if (opcode !== opcodes.pong) socket.write(frame(first, content))
  return opcode !== opcodes.close
}

/** RFC 6455 section 5.2; undefined until it is complete. One that is too large or not masked reads as a close with 1009. */
function readFrame(bytes: Buffer): Frame | undefined {
  const refused = { first: FIN | opcodes.close, content: Buffer.from([0x03, 0xf1]), size: 0 }
  const [first, second] = bytes
  if (first === undefined || second === undefined) return undefined
  if ((second & 0x80) === 0) return refused
  const short = second & 0x7f
  const start = short === 126 ? 8 : short === 127 ? 14 : 6
  if (bytes.length < start) return undefined
  const length =
    short === 126 ? bytes.readUInt16BE(2) : short === 127 ? Number(bytes.readBigUInt64BE(2)) : short
  if (length > LARGEST_FRAME) return refused
  if (bytes.length < start + length) return undefined
  const mask = bytes.subarray(start - 4, start)
  const content = bytes.subarray(start, start + length).map((byte, i) => byte ^ (mask[i % 4] ?? 0))
  return { first, content: Buffer.from(content), size: start + length }
}

/** A frame as servers send it: without a mask. */
function frame(first: number, content: Buffer): Buffer {
  const { length } = content
  const head = Buffer.alloc(length < 126 ? 2 : length < 65_536 ? 4 : 10)
  head[0] = first
  head[1] = length < 126 ? length : length < 65_536 ? 126 : 127
  if (head.length === 4) head.writeUInt16BE(length, 2)
  if (head.length === 10) head.writeBigUInt64BE(BigInt(length), 2)
  return Buffer.concat([head, content])
}
