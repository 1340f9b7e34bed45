/**
 * Small writes of all connections leave together, one behind the other, at the end of the turn of the event loop. Whoever writes to such
 * a connection in another way, or ends it, lets them leave first (`flushWrites`).
 *
 * # Facts
 * - Under load a turn reads from dozens of connections. A write between two reads wakes the process at the other end, which then finds a
 *   few bytes and sleeps again; writes behind each other find it awake (docs/decisions/0037).
 * - The kernel nearly always takes a small write at once. When it does not, as with TLS, the block is that write's until it is taken: a
 *   client that takes nothing keeps a block.
 */
import type { Socket } from 'node:net'

/** Told when bytes are with the kernel, or why they never will be. */
export type Taken = (error?: Error | null) => void

/** No write larger than this is a small one. */
export const mostSmall = 64 * 1024
/** So many blocks of `mostSmall` bytes wait together. */
const mostBlocks = 8

interface Block {
  readonly memory: Buffer
  /** Writes from it that the kernel did not take at once. */
  awaited: number
}

/** What waits for one connection: a text that is all of it, or its place in a block. */
class Write {
  readonly socket: Socket
  readonly text: string | undefined
  readonly block: Block
  readonly from: number
  to: number
  readonly told: Taken[]
  #late = false
  #over = false

  constructor(socket: Socket, text: string | undefined, block: Block, from: number, taken: Taken) {
    this.socket = socket
    this.text = text
    this.block = block
    this.from = from
    this.to = used
    this.told = [taken]
  }

  /** Whether the kernel has taken it. */
  send(): boolean {
    const { socket, text, block, from, to } = this
    socket.write(text ?? block.memory.subarray(from, to), 'latin1', this.over)
    this.#late = socket.writableLength > 0
    if (this.#late) block.awaited += 1
    return !this.#late && !socket.destroyed
  }

  readonly over = (error?: Error | null): void => {
    if (this.#over) return
    this.#over = true
    for (const tell of this.told) tell(error)
    if (!this.#late) return
    this.block.awaited -= 1
    leave(this.block)
  }
}

/** No more than `mostBlocks`. */
const spare: Block[] = []
/** Those that hold what waits; the last one has room behind `used`. */
let blocks: Block[] = []
let used = mostSmall
let writes: Write[] = []
let scheduled = false

/** Writes texts (latin1) and bytes, `mostSmall` bytes of them at most. The bytes are copied. */
export function writeSmall(
  socket: Socket,
  parts: ReadonlyArray<string | Buffer>,
  taken: Taken,
): void {
  const block = blockFor(sizeOf(parts))
  const last = writes.at(-1)
  const behind = last?.socket === socket
  const [first] = parts
  const from = used
  if (!behind && parts.length === 1 && typeof first === 'string') {
    writes.push(new Write(socket, first, block, from, taken))
  } else {
    const { memory } = block
    for (const part of parts) {
      used +=
        typeof part === 'string' ? memory.write(part, used, 'latin1') : part.copy(memory, used)
    }
    if (behind && last.text === undefined && last.block === block) {
      last.to = used
      last.told.push(taken)
    } else writes.push(new Write(socket, undefined, block, from, taken))
  }
  if (scheduled) return
  scheduled = true
  setImmediate(endTurn)
}

export function sizeOf(parts: ReadonlyArray<string | Buffer>): number {
  let size = 0
  for (const { length } of parts) size += length
  return size
}

/** Hands all that waits to the kernel. */
export function flushWrites(): void {
  if (writes.length === 0) return
  const all = writes
  const full = blocks
  writes = []
  blocks = []
  used = mostSmall
  const taken = all.filter(write => write.send())
  for (const block of full) leave(block)
  // Not between two writes, because much may follow.
  for (const write of taken) write.over()
}

/** To be used again, unless a write still reads from it. */
function leave(block: Block): void {
  if (block.awaited === 0 && spare.length < mostBlocks) spare.push(block)
}

function endTurn(): void {
  scheduled = false
  flushWrites()
}

/** The block with room for so many bytes behind `used`. */
function blockFor(size: number): Block {
  const last = blocks.at(-1)
  if (last !== undefined && used + size <= mostSmall) return last
  if (blocks.length === mostBlocks) flushWrites()
  const next = spare.pop() ?? { memory: Buffer.allocUnsafeSlow(mostSmall), awaited: 0 }
  blocks.push(next)
  used = 0
  return next
}
