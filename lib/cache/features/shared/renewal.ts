/**
 * Renews objects of the bucket that are in use. The bucket's lifecycle rule removes objects that are older than `expire`. A used object is
 * copied onto itself when half of that time is over, and its age begins again.
 *
 * # Facts
 * - A response of the bucket has the age of its object, so an object can be renewed when it is read.
 * - Hits come from the local disk and do not ask the bucket. So the contents that clients of this node have used are checked in the background,
 *   a sixteenth of them at a time, all of them within a quarter of `expire`. The time alone decides which sixteenth is next, so a restart does
 *   not change the order.
 * - This round also offers contents that the bucket has lost, or never got: the list of uploads was full, or this node stopped before.
 */
import { type Clock, hour, type Milliseconds } from '../../../async/clock.ts'
import { pause } from '../../../async/deadline.ts'
import type { Logger } from '../../../log/log.ts'
import { recentEntries } from '../../../recent.ts'
import type { ListedEntry } from '../../store/catalogue/catalogue.ts'
import type { Store } from '../../store/store.ts'
import { blobName, entryObject, types } from './objects.ts'
import type { Bucket } from './s3/bucket.ts'
import type { SharedOutcome } from './shared-store.ts'

interface RenewalParts {
  readonly clock: Clock
  readonly log: Logger
  readonly bucket: Bucket
  readonly store: Pick<Store, 'list'>
  /** The age at which the lifecycle rule of the bucket removes objects; 0 when there is no rule. */
  readonly expire: () => Milliseconds
  readonly usable: () => boolean
  readonly shares: (key: string) => boolean
  readonly offer: (key: string, size: number) => void
}

const parts = 16
/** The shortest time between two rounds. A round lists all entries, and an `expire` of minutes must not make it run all the time. */
const shortestSlot: Milliseconds = 60_000
/** The limits of the time between two requests of a round. */
const shortestPause: Milliseconds = 20
const longestPause: Milliseconds = 5000
/** How long a round waits before it looks again whether the store can be used. */
const untilUsable: Milliseconds = 60_000

export class Renewal {
  readonly #parts: RenewalParts
  /** When objects were last renewed, by name and by `elapsed`. A store may still answer with the old age. */
  readonly #renewed = recentEntries<string, Milliseconds>(2000)
  readonly #over = new AbortController()
  #count = 0
  #cancel: () => void = () => {}

  constructor(parts: RenewalParts) {
    this.#parts = parts
  }

  get count(): number {
    return this.#count
  }

  begin(): void {
    this.#later(this.#slot() / 4)
  }

  close(): void {
    this.#over.abort()
    this.#cancel()
  }

  /** Notes that an object was read, and renews it when it is old. */
  seen(name: string, modified: Milliseconds | undefined): void {
    if (this.#isOld(modified) && this.#parts.usable()) void this.#renew(name)
  }

  /** The time in which a sixteenth of the contents is checked. */
  #slot(): Milliseconds {
    return Math.max(this.#parts.expire() / 4 / parts, shortestSlot)
  }

  #later(after: Milliseconds): void {
    const { clock, expire } = this.#parts
    const off = expire() === 0
    this.#cancel = clock.after(off ? hour : after, () => void this.#round(off))
  }

  async #round(off: boolean): Promise<void> {
    if (!off) {
      try {
        await this.#lookAtPart()
      } catch (error) {
        this.#parts.log.warn('the stored files could not be listed for the shared store', { error })
      }
    }
    if (this.#over.signal.aborted) return
    const slot = this.#slot()
    // The next round begins with the next part of the time.
    this.#later(slot - (this.#parts.clock.now() % Math.max(slot, 1)))
  }

  async #lookAtPart(): Promise<void> {
    const { clock, store, expire } = this.#parts
    const slot = this.#slot()
    const part = (Math.floor(clock.now() / slot) % parts).toString(16)
    const since = clock.now() - expire() / 2
    const found: Array<Pick<ListedEntry, 'key' | 'digest' | 'size'>> = []
    for await (const some of store.list()) {
      for (const { key, digest, size, lastUsed } of some) {
        if (digest.startsWith(part) && lastUsed >= since) found.push({ key, digest, size })
      }
    }
    const between = Math.min(Math.max(slot / 2 / (found.length + 1), shortestPause), longestPause)
    for (const one of found) {
      await pause(clock, between, this.#over.signal)
      while (!this.#parts.usable() && !this.#over.signal.aborted) {
        await pause(clock, untilUsable, this.#over.signal)
      }
      if (this.#over.signal.aborted) return
      if (this.#parts.shares(one.key)) await this.#look(one)
    }
  }

  async #look({ key, digest, size }: Pick<ListedEntry, 'key' | 'digest' | 'size'>): Promise<void> {
    const { bucket, offer } = this.#parts
    const there = await bucket.head(blobName(digest))
    if (there.outcome === 'absent' || (there.outcome === 'done' && there.size !== size)) {
      offer(key, size)
    }
    if (there.outcome !== 'done' || !this.#isOld(there.modified)) return
    await this.#renew(blobName(digest))
    const entry = await this.#renew(entryObject(key))
    if (entry === 'absent') offer(key, size)
  }

  async #renew(name: string): Promise<SharedOutcome | undefined> {
    const { clock, expire } = this.#parts
    const now = clock.elapsed()
    const last = this.#renewed.get(name)
    if (last !== undefined && now - last < Math.min(hour, expire() / 4)) return undefined
    this.#renewed.set(name, now)
    const type = name.startsWith('blobs/') ? types.blob : types.json
    const { outcome } = await this.#parts.bucket.renew(name, type)
    if (outcome === 'done') this.#count += 1
    return outcome
  }

  #isOld(modified: Milliseconds | undefined): boolean {
    const expire = this.#parts.expire()
    if (modified === undefined || expire === 0) return false
    return this.#parts.bucket.now() - modified > expire / 2
  }
}
