/**
 * Content as it is read: one piece after the other, each when it is asked for. Callbacks, because a promise for each piece
 * costs more than the piece; `iterate` makes an async iteration of it.
 */
import type { Lifetime } from '../async/lifetime.ts'
import { Piece } from './piece.ts'

/** The source calls this once for each `next`: with a piece that the taker has to release, with undefined at the end, or with the error. */
export type Take = (error: Error | undefined, piece: Piece | undefined) => void

export interface Source {
  /** Asks for the next piece. `take` is called once, at once or later; not to be called again before, nor after the end. */
  next(take: Take): void
  /** Lets go of what is left, at any time. A `take` that waits is not called any more. Further calls do nothing. */
  close(): void
}

/** These pieces, then what `rest` has. Takes the pieces and the source over. */
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
 * The source once its first piece is there, or its end; when the lifetime ends before that, the source, closed. Rejects with what it
 * breaks off with before its first piece. Takes the source over.
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

/** These bytes, which must not be written again. */
export function ofBytes(bytes: Buffer): Source {
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

/** What these sources have, one after the other, each opened when its turn comes. */
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

/**
 * A source as an iteration: each block is valid until the next is asked for, or until `return`, which closes the source, also
 * while a block is awaited.
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
