/**
 * The contents of a store, each read and hashed once, at a bounded rate.
 */

import type { Milliseconds } from '../../async/clock.ts'
import { iterate } from '../../bytes/source.ts'
import type { Examined, HashAlgorithm } from '../store/disk/examine.ts'
import type { ReadableStore } from '../store/reading.ts'
import type { StoredFile } from './inventory.ts'

export class Contents {
  readonly #store: ReadableStore
  readonly #pace: Pace
  readonly #onRead: (done: number) => void
  readonly #known = new Map<string, Examined>()
  #done = 0

  /** `onRead` is told how many bytes of different contents have been read so far. */
  constructor(store: ReadableStore, rate: number, onRead: (done: number) => void) {
    this.#store = store
    this.#pace = new Pace(rate)
    this.#onRead = onRead
  }

  /** Whether a file's content is what it is stored under, and what else it hashes to. */
  async examine(file: StoredFile, algorithms: readonly HashAlgorithm[]): Promise<Examined> {
    const name = nameOf(file)
    const known = this.#known.get(name)
    if (known !== undefined && known.found !== 'whole') return known
    if (known !== undefined && algorithms.every(one => known.digests.has(one))) return known
    const examined = await this.#read(file, ['sha256', ...algorithms], known === undefined)
    const digests = new Map([...digestsIn(known), ...digestsIn(examined)])
    const result = examined.found === 'whole' ? { ...examined, digests } : examined
    this.#known.set(name, result)
    return result
  }

  /** What a file's content hashes to, as far as it was asked for. */
  digestsOf(file: StoredFile): ReadonlyMap<HashAlgorithm, string> {
    return digestsIn(this.#known.get(nameOf(file)))
  }

  /** The content in pieces. Throws when it is gone. */
  async *read(file: StoredFile): AsyncGenerator<Uint8Array> {
    const content = await this.#store.content(file)
    if (content === undefined) throw new Error(`${file.key}: its content is gone`)
    if (content.kind === 'bytes') yield content.bytes
    if (content.kind !== 'stream') return
    for await (const chunk of iterate(content.open())) {
      yield chunk
      await this.#pace.spend(chunk.length)
    }
  }

  #count(bytes: number): void {
    this.#done += bytes
    this.#onRead(this.#done)
  }

  async #read(
    { digest, size }: StoredFile,
    algorithms: readonly HashAlgorithm[],
    count: boolean,
  ): Promise<Examined> {
    const before = this.#done
    const examined = await this.#store.examine(digest, {
      size,
      algorithms,
      onRead: bytes => {
        if (count) this.#count(bytes)
        return this.#pace.spend(bytes)
      },
    })
    if (count) this.#count(before + size - this.#done)
    const found = digestsIn(examined).get('sha256')
    if (found === undefined || found === digest) return examined
    return { found: 'broken', because: `its bytes hash to ${found} and not to ${digest}` }
  }
}

/** Entries may disagree about the length of one content; one of them is then wrong. */
function nameOf({ digest, size }: StoredFile): string {
  return `${digest} ${size}`
}

function digestsIn(examined: Examined | undefined): ReadonlyMap<HashAlgorithm, string> {
  return examined?.found === 'whole' ? examined.digests : none
}

const none: ReadonlyMap<HashAlgorithm, string> = new Map()

/** Waits so that no more than so many bytes a second are spent. */
class Pace {
  readonly #rate: number
  /** When all that was spent so far may have been spent. */
  #due: Milliseconds = 0

  constructor(rate: number) {
    this.#rate = rate
  }

  async spend(bytes: number): Promise<void> {
    if (this.#rate <= 0) return
    const now = performance.now()
    this.#due = Math.max(this.#due, now) + (bytes / this.#rate) * 1000
    const wait = this.#due - now
    if (wait > shortest) await new Promise(resolve => setTimeout(resolve, wait))
  }
}

/** Pauses shorter than this are saved up. */
const shortest: Milliseconds = 20
