/**
 * Small writes of all connections leave together, one behind the other, at the end of the turn of the event loop. Whoever writes to such
 * a connection in another way, or ends it, lets them leave first (`flushWrites`).
 *
 * # Facts
 * - Under load a turn reads from dozens of connections. A write between two reads wakes the process at the other end, which then finds a
 *   few bytes and sleeps again; writes behind each other find it awake (docs/decisions/0037).
 * - The kernel nearly always takes a small write at once. When it does not, the block is left to that write: a client that takes
 *   nothing costs a block.
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
  /** A write that the kernel did not take at once has it for good. */
  lost: boolean
}

/** What waits for one connection: a text that is all of it, or its place in a block. */
interface Write {
  readonly socket: Socket
  readonly text: string | undefined
  readonly block: Block
  readonly from: number
  to: number
  readonly told: Taken[]
}

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
    writes.push({ socket, text: first, block, from, to: from, told: [taken] })
  } else {
    const { memory } = block
    for (const part of parts) {
      used +=
        typeof part === 'string' ? memory.write(part, used, 'latin1') : part.copy(memory, used)
    }
    if (behind && last.text === undefined && last.block === block) {
      last.to = used
      last.told.push(taken)
    } else writes.push({ socket, text: undefined, block, from, to: used, told: [taken] })
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
  const taken: Array<() => void> = []
  for (const { socket, text, block, from, to, told } of all) {
    const tell = once(told)
    socket.write(text ?? block.memory.subarray(from, to), 'latin1', tell)
    if (socket.writableLength > 0) block.lost = true
    else if (!socket.destroyed) taken.push(tell)
  }
  for (const block of full) if (!block.lost) spare.push(block)
  // Not between two writes, because much may follow.
  for (const tell of taken) tell()
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
  const next = spare.pop() ?? { memory: Buffer.allocUnsafeSlow(mostSmall), lost: false }
  blocks.push(next)
  used = 0
  return next
}

function once(told: readonly Taken[]): Taken {
  let done = false
  return error => {
    if (done) return
    done = true
    for (const tell of told) tell(error)
  }
}
