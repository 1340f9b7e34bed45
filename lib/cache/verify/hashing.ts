/**
 * Reads and hashes the contents of a store, each once, at a bounded rate.
 */
import { type Clock, keepAlive, type Milliseconds } from '../../async/clock.ts'
import { pause } from '../../async/deadline.ts'
import { iterate } from '../../bytes/source.ts'
import type { Examined, HashAlgorithm } from '../store/disk/examine.ts'
import type { ReadableStore } from '../store/reading.ts'
import type { StoredFile } from './inventory.ts'

interface HashedOptions {
  readonly store: ReadableStore
  readonly clock: Clock
  /** Bytes a second; 0 is as fast as it goes. */
  readonly rate: number
  /** Called with the bytes of different contents that have been read so far. */
  readonly onRead: (done: number) => void
}

export class HashedContents {
  readonly #store: ReadableStore
  readonly #pace: (bytes: number) => Promise<void>
  readonly #onRead: (done: number) => void
  readonly #known = new Map<string, Examined>()
  #done = 0

  constructor({ store, clock, rate, onRead }: HashedOptions) {
    this.#store = store
    this.#pace = pace(rate, clock)
    this.#onRead = onRead
  }

  /** Whether a file's content is what it is stored under, and what else it hashes to. */
  async examine(file: StoredFile, algorithms: readonly HashAlgorithm[]): Promise<Examined> {
    const { digest, size } = file
    // Entries may disagree about the length of one content; one of them is then wrong.
    const name = `${digest} ${size}`
    const known = this.#known.get(name)
    if (known !== undefined) {
      if (known.found !== 'whole' || algorithms.every(one => known.digests.has(one))) return known
    }
    const before = this.#done
    const examined = await this.#store.examine(digest, {
      size,
      algorithms: [...new Set<HashAlgorithm>(['sha256', ...algorithms])],
      onRead: bytes => {
        if (known === undefined) this.#tell(this.#done + bytes)
        return this.#pace(bytes)
      },
    })
    if (known === undefined) this.#tell(before + size)
    const result = checked(examined, digest, known)
    this.#known.set(name, result)
    return result
  }

  /** The content in pieces. Throws when it is gone. */
  async *read(file: StoredFile): AsyncGenerator<Uint8Array> {
    const content = await this.#store.content(file)
    if (content === undefined) throw new Error(`${file.key}: its content is gone`)
    if (content.kind === 'bytes') yield content.bytes
    if (content.kind !== 'stream') return
    for await (const chunk of iterate(content.open())) {
      yield chunk
      await this.#pace(chunk.length)
    }
  }

  #tell(done: number): void {
    this.#done = done
    this.#onRead(done)
  }
}

/** What was found, with the digests known before; content that is not what it is stored under is broken. */
function checked(examined: Examined, digest: string, known: Examined | undefined): Examined {
  if (examined.found !== 'whole') return examined
  const found = examined.digests.get('sha256')
  if (found !== digest) {
    return { found: 'broken', because: `its bytes hash to ${found} and not to ${digest}` }
  }
  const before = known?.found === 'whole' ? known.digests : []
  return { found: 'whole', digests: new Map([...before, ...examined.digests]) }
}

/** Shorter pauses are put off until they add up to this. */
const shortest: Milliseconds = 20

/** Waits so that no more than so many bytes a second are read; told of every read. */
function pace(rate: number, clock: Clock): (bytes: number) => Promise<void> {
  /** When all that was read so far may have been read. */
  let due: Milliseconds = 0
  return async bytes => {
    if (rate <= 0) return
    const now = clock.elapsed()
    due = Math.max(due, now) + (bytes / rate) * 1000
    const wait = due - now
    // The thread of a check has nothing else open.
    if (wait > shortest) await keepAlive(pause(clock, wait))
  }
}
