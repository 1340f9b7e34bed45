/**
 * Writes to connections. Small writes wait for the end of the turn of the event loop, and the kernel gets those of all connections in a
 * row. An immediate write goes after all writes that wait. A caller that ends a connection flushes first, or waits until the listeners of
 * its writes were called.
 *
 * # Facts
 * - Under load a turn reads from dozens of connections. A write between two reads wakes the process at the other end, which then finds a
 *   few bytes and sleeps again; consecutive writes find it awake (docs/decisions/0037).
 * - The kernel nearly always takes a small write at once. When it does not, the block belongs to that write until the kernel has taken it:
 *   a client that reads nothing keeps one block.
 * - A write that fails at once has failed before its socket shows it in any other way than by `errored`.
 */
import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'

/** The writer calls this when the kernel has the bytes, or with the error that prevents it for good. */
export type WriteListener = (error?: Error | null) => void

const mostSmall = 64 * 1024
/** The number of blocks of `mostSmall` bytes that wait together. */
const mostBlocks = 8

interface Block {
  readonly memory: Buffer
  /** The number of its writes that the kernel did not take at once. */
  awaited: number
}

/** The bytes that wait for one connection: a text of their own, or a part of a block. */
class Write {
  readonly socket: Socket
  readonly text: string
  readonly block: Block | undefined
  readonly from: number
  to: number
  readonly told: WriteListener[]
  /** Whether the block is kept for it. */
  #late = false
  #over = false

  constructor(
    socket: Socket,
    { text = '', block, from = 0 }: { text?: string; block?: Block; from?: number },
    taken: WriteListener,
  ) {
    this.socket = socket
    this.text = text
    this.block = block
    this.from = from
    this.to = used
    this.told = [taken]
  }

  /** Whether the kernel has taken it. */
  send(): boolean {
    const { socket, block } = this
    const behind = socket.writableLength > 0
    const bytes = block?.memory.subarray(this.from, this.to)
    // The client has not taken earlier bytes, so this write would hold its memory for long: a copy waits instead.
    const part = behind && bytes !== undefined ? Buffer.from(bytes) : (bytes ?? this.text)
    socket.write(part, 'latin1', this.over)
    const taken = socket.writableLength === 0
    if (block !== undefined && !taken && !behind) {
      this.#late = true
      block.awaited += 1
    }
    return taken && !socket.destroyed && !socket.errored
  }

  readonly over = (error?: Error | null): void => {
    if (this.#over) return
    this.#over = true
    for (const tell of this.told) tell(error)
    if (this.block === undefined || !this.#late) return
    this.block.awaited -= 1
    leave(this.block)
  }
}

/** There are at most `mostBlocks`. */
const spare: Block[] = []
/** The blocks that hold the waiting bytes. The last one has room after `used`. */
let blocks: Block[] = []
let used = mostSmall
let writes: Write[] = []
let scheduled = false

/** Writes texts (latin1) and bytes. At most `most` bytes are copied and written at the end of the turn; more are written at once. */
export function writeSoon(
  socket: Socket,
  parts: ReadonlyArray<string | Buffer>,
  taken: WriteListener,
  most = mostSmall,
): void {
  const size = sizeOf(parts)
  if (size > most) return writeNow(socket, parts, taken)
  // TLS takes nothing at once, and makes its own bytes anyway.
  if (socket instanceof TLSSocket) return void socket.write(joined(parts), taken)
  const [text] = parts
  if (parts.length === 1 && typeof text === 'string' && writes.at(-1)?.socket !== socket) {
    writes.push(new Write(socket, { text }, taken))
  } else gather(socket, parts, size, taken)
  if (scheduled) return
  scheduled = true
  setImmediate(endTurn)
}

/** Writes texts (latin1) and bytes in one write, without a copy, after all writes that wait. */
export function writeNow(
  socket: Socket,
  parts: ReadonlyArray<string | Buffer>,
  taken: WriteListener,
): void {
  flushWrites()
  const last = parts.at(-1)
  if (last === undefined) return taken()
  if (parts.length === 1) return void socket.write(last, 'latin1', taken)
  socket.cork()
  for (let i = 0; i + 1 < parts.length; i += 1) socket.write(parts[i] ?? '', 'latin1')
  socket.write(last, 'latin1', taken)
  socket.uncork()
}

function gather(
  socket: Socket,
  parts: ReadonlyArray<string | Buffer>,
  size: number,
  told: WriteListener,
): void {
  // The parts may be in memory that a connection reads into, and a write listener may read. So `gather` copies first and calls listeners
  // last.
  const full = blocks.length === mostBlocks && used + size > mostSmall
  const taken = full ? handOver() : []
  const block = blockFor(size)
  const { memory } = block
  const from = used
  for (const part of parts) {
    used += typeof part === 'string' ? memory.write(part, used, 'latin1') : part.copy(memory, used)
  }
  const last = writes.at(-1)
  if (last?.socket === socket && last.block === block) {
    last.to = used
    last.told.push(told)
  } else writes.push(new Write(socket, { block, from }, told))
  for (const write of taken) write.over()
}

function joined(parts: ReadonlyArray<string | Buffer>): Buffer {
  return Buffer.concat(
    parts.map(part => (typeof part === 'string' ? Buffer.from(part, 'latin1') : part)),
  )
}

function sizeOf(parts: ReadonlyArray<string | Buffer>): number {
  let size = 0
  for (const { length } of parts) size += length
  return size
}

/** Gives all waiting bytes to the kernel. */
export function flushWrites(): void {
  // The listeners are called after all writes, because each may begin many more.
  for (const write of handOver()) write.over()
}

/** Returns the writes that the kernel has taken, whose listeners are to be called. */
function handOver(): readonly Write[] {
  if (writes.length === 0) return []
  const all = writes
  const full = blocks
  writes = []
  blocks = []
  used = mostSmall
  const taken = all.filter(write => write.send())
  for (const block of full) leave(block)
  return taken
}

/** Makes the block available again, unless a write still reads from it. */
function leave(block: Block): void {
  if (block.awaited === 0 && spare.length < mostBlocks) spare.push(block)
}

function endTurn(): void {
  scheduled = false
  flushWrites()
}

/** The block with room for so many bytes after `used`. */
function blockFor(size: number): Block {
  const last = blocks.at(-1)
  if (last !== undefined && used + size <= mostSmall) return last
  const next = spare.pop() ?? { memory: Buffer.allocUnsafeSlow(mostSmall), awaited: 0 }
  blocks.push(next)
  used = 0
  return next
}
