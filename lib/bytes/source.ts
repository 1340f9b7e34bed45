/**
 * Content as it is read: one piece after the other, each on request. It uses callbacks, because a promise for each piece costs more than
 * the piece. `iterate` makes an async iteration of it.
 */
import type { Lifetime } from '../async/lifetime.ts'
import { Piece } from './piece.ts'

/**
 * The source calls this once for each `next`: with a piece, which the receiver must release, with undefined at the end, or with the error.
 */
export type Take = (error: Error | undefined, piece: Piece | undefined) => void

export interface Source {
  /** Asks for the next piece. `take` is called once, at once or later. `next` must not be called again before that, nor after the end. */
  next(take: Take): void
  /** Releases the rest, at any time. A waiting `take` is no longer called. Further calls do nothing. */
  close(): void
}

/** A source of these pieces, and then of the pieces of `rest`. It owns both. */
export function prefixedSource(pieces: readonly Piece[], rest: Source): Source {
  const waiting = [...pieces]
  return {
    next(take) {
      const piece = waiting.shift()
      if (piece === undefined) rest.next(take)
      else take(undefined, piece)
    },
    close() {
      for (const piece of waiting.splice(0)) piece.release()
      rest.close()
    },
  }
}

/**
 * Resolves when the first piece or the end has come, to a source that still yields it. Resolves to the closed source when the lifetime ends
 * before that. Rejects with an error that comes before the first piece. It owns `source`.
 */
export function begunSource(source: Source, lifetime: Lifetime): Promise<Source> {
  return new Promise((resolve, reject) => {
    const leave = (): void => {
      source.close()
      resolve(source)
    }
    lifetime.onceOver(leave)
    if (lifetime.over) return
    source.next((error, piece) => {
      lifetime.forget(leave)
      if (error !== undefined) {
        source.close()
        reject(error)
      } else if (piece !== undefined) resolve(prefixedSource([piece], source))
      else resolve({ next: take => take(undefined, undefined), close: () => source.close() })
    })
  })
}

/** A source of these bytes, which must not change afterwards. */
export function bytesSource(bytes: Buffer): Source {
  let left: Piece | undefined = new Piece(bytes)
  return {
    next(take) {
      const piece = left
      left = undefined
      take(undefined, piece)
    },
    close() {
      left = undefined
    },
  }
}

/** A source of the pieces of several sources, one after the other. Each is opened when its turn comes. */
export function concatenatedSource(parts: readonly (() => Source | Promise<Source>)[]): Source {
  const waiting = [...parts]
  let present: Source | undefined
  let closed = false
  const next = (take: Take): void => {
    if (present === undefined) return open(take)
    present.next((error, piece) => {
      if (error !== undefined || piece !== undefined) return take(error, piece)
      present?.close()
      present = undefined
      open(take)
    })
  }
  const open = (take: Take): void => {
    const part = waiting.shift()
    if (part === undefined) return take(undefined, undefined)
    Promise.resolve()
      .then(part)
      .then(
        source => {
          if (closed) return source.close()
          present = source
          next(take)
        },
        (error: unknown) => {
          if (!closed) take(error instanceof Error ? error : new Error(String(error)), undefined)
        },
      )
  }
  return {
    next,
    close() {
      closed = true
      waiting.length = 0
      present?.close()
      present = undefined
    },
  }
}

interface Taps {
  /** Called with the number of bytes of each piece, before the receiver gets it. */
  readonly onPiece: (bytes: number) => void
  /** Called once: with the error, at the end, or when the source is closed before. */
  readonly onOver?: (error: Error | undefined) => void
}

/** The same content, which tells of each piece and of its end. */
export function tappedSource(source: Source, { onPiece, onOver = () => {} }: Taps): Source {
  let over = false
  const end = (error?: Error): void => {
    if (!over) onOver(error)
    over = true
  }
  return {
    next(take) {
      source.next((error, piece) => {
        if (piece === undefined) end(error)
        else onPiece(piece.bytes.length)
        take(error, piece)
      })
    },
    close() {
      source.close()
      end()
    },
  }
}

/** All bytes of a content; undefined when it has more than `most`. Rejects with the error of the content. */
export async function bytesAtMost(
  content: AsyncIterable<Uint8Array>,
  most: number,
): Promise<Buffer | undefined> {
  const blocks: Uint8Array[] = []
  let size = 0
  for await (const block of content) {
    size += block.length
    if (size > most) return undefined
    // A block is valid until the next one only.
    blocks.push(Buffer.from(block))
  }
  return Buffer.concat(blocks, size)
}

/**
 * A source as an iteration. Each block is valid until the next one is requested, or until `return`, which closes the source even while a
 * block is awaited.
 */
export function iterate(source: Source): AsyncIterableIterator<Buffer> {
  let given: Piece | undefined
  let over = false
  let settle: ((end: undefined) => void) | undefined
  const end = (): void => {
    over = true
    source.close()
  }
  const letGo = (): void => {
    given?.release()
    given = undefined
  }
  const next = (): Promise<Piece | undefined> =>
    new Promise((resolve, reject) => {
      settle = resolve
      source.next((error, piece) => (error === undefined ? resolve(piece) : reject(error)))
    })
  return {
    [Symbol.asyncIterator]() {
      return this
    },
    async next() {
      letGo()
      if (over) return { done: true, value: undefined }
      try {
        given = await next()
      } catch (error) {
        end()
        throw error
      }
      if (given !== undefined) return { done: false, value: given.bytes }
      end()
      return { done: true, value: undefined }
    },
    async return() {
      letGo()
      end()
      settle?.(undefined)
      return { done: true, value: undefined }
    },
  }
}
