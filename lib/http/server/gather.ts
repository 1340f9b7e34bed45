/**
 * Reads the content of a request into memory. It limits the size, the time, and the memory of all such requests together, so that many
 * clients at once cannot fill the memory.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { withDeadline } from '../../async/deadline.ts'
import type { Request } from '../message/message.ts'

/** The memory in bytes that all gathered requests share. */
export class Allowance {
  readonly #most: number
  #held = 0

  constructor(most: number) {
    this.#most = most
  }

  get held(): number {
    return this.#held
  }

  take(bytes: number): boolean {
    if (this.#held + bytes > this.#most) return false
    this.#held += bytes
    return true
  }

  give(bytes: number): void {
    this.#held -= bytes
  }
}

export interface GatherLimits {
  readonly clock: Clock
  /** The shared memory; undefined for content so small that it needs no limit. */
  readonly room?: Allowance
  /** The most bytes of the whole content. */
  readonly size: number
  /** The time for all of it to arrive. */
  readonly time: Milliseconds
}

type GatheredContent = Buffer | 'too-large' | 'late' | 'no-room'

class TooSlow extends Error {}

/** The client disconnected while its content was read. */
export class ClientGone extends Error {}

/** Gathers the content of a request. Throws a ClientGone, or what reading throws when the client disconnects. */
export async function gather(request: Request, limits: GatherLimits): Promise<GatheredContent> {
  const { clock, room, size, time } = limits
  const blocks: Buffer[] = []
  let read = 0
  const gathering = async (stop: AbortSignal): Promise<GatheredContent> => {
    for await (const block of request.content) {
      if (stop.aborted) return 'late'
      if (read + block.length > size) return 'too-large'
      if (room?.take(block.length) === false) return 'no-room'
      read += block.length
      // A block that is a small part of a larger buffer is copied, because it would keep that buffer in memory.
      const fills = block.length > 0.8 * block.buffer.byteLength
      blocks.push(fills ? block : Buffer.from(block))
    }
    const [only, ...more] = blocks
    return only !== undefined && more.length === 0 ? only : Buffer.concat(blocks, read)
  }
  try {
    return await withDeadline(
      {
        clock,
        after: time,
        signal: request.lifetime.signal,
        late: () => new TooSlow(),
        aborted: () => new ClientGone('the client has gone'),
      },
      gathering,
    )
  } catch (error) {
    if (error instanceof TooSlow) return 'late'
    throw error
  } finally {
    room?.give(read)
  }
}
