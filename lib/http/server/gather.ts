/**
 * Reads the content of a request into memory, with limits for its size, its time, and the memory of all such requests together,
 * so that many clients at once cannot fill the memory.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { within } from '../../async/deadline.ts'
import type { Request } from '../message/message.ts'

/** Bytes that all requests gathered at a time may hold. */
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
  /** Undefined for content so small that it needs none. */
  readonly room?: Allowance
  /** Bytes of the whole content. */
  readonly size: number
  /** For all of it to arrive. */
  readonly time: Milliseconds
}

type Gathered = Buffer | 'too-large' | 'late' | 'no-room'

class TooSlow extends Error {}

/** The client went away while its content was read. */
export class ClientGone extends Error {}

/** Gathers the content of a request. Throws a ClientGone, or what reading throws when the client goes away. */
export async function gather(request: Request, limits: GatherLimits): Promise<Gathered> {
  const { clock, room, size, time } = limits
  const blocks: Buffer[] = []
  let read = 0
  const gathering = async (stop: AbortSignal): Promise<Gathered> => {
    for await (const block of request.content) {
      if (stop.aborted) return 'late'
      if (read + block.length > size) return 'too-large'
      if (room?.take(block.length) === false) return 'no-room'
      read += block.length
      // A copy of what is a small part of a larger buffer, which it would keep.
      const fills = block.length > 0.8 * block.buffer.byteLength
      blocks.push(fills ? block : Buffer.from(block))
    }
    const [only, ...more] = blocks
    return only !== undefined && more.length === 0 ? only : Buffer.concat(blocks, read)
  }
  try {
    return await within(
      {
        clock,
        after: time,
        signal: request.signal,
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
