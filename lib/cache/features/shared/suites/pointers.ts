/**
 * Pointers: each suite has a pointer in the bucket, which names the Release file that all nodes give. The node that has verified a newer Release
 * file moves the pointer before its clients get the file, and the other nodes follow (suites/updates.ts).
 *
 * # Facts
 * - A node verifies the files that a pointer names like files from an origin, before its clients get them. A pointer to files that cannot be used
 *   is unfit: a node does not follow it, and may move it.
 * - A pointer names only files of its own suite. A pointer with other files is unfit.
 * - Generations are ordered by their signed dates. No pointer names a generation without a date.
 * - A generation that waits for a `delay` or a `hold` is not adopted, so no pointer names it.
 */
import { createHash } from 'node:crypto'
import type { Clock, Milliseconds } from '../../../../async/clock.ts'
import { resultInTime } from '../../../../async/deadline.ts'
import type { Logger } from '../../../../log/log.ts'
import type { Entry } from '../../../store/entry.ts'
import type { Store } from '../../../store/store.ts'
import { type KnownSuite, releasesOf } from '../../../suites/generation.ts'
import type { LiveSuites, Suite } from '../../../suites/suite.ts'
import { isShareableKey, type SharingRules } from '../shareable.ts'
import { type SharedStore, type SuitePointer, sharedPatience } from '../shared-store.ts'

interface PointersParts extends SharingRules {
  readonly shared: SharedStore
  readonly store: Pick<Store, 'get'>
  readonly clock: Clock
  readonly log: Logger
  readonly node: string
  readonly live: Pick<LiveSuites, 'of'>
}

/** What is remembered of a suite. */
interface PointerMemory {
  /** The pointer that was found unfit. */
  unfit?: string
  /** The Release files that were last announced. An earlier announcement may still wait for its upload. */
  announced?: string
}

/** A node tries this many times to move a pointer when other nodes are faster. */
const mostLost = 3

export class Pointers {
  readonly #parts: PointersParts
  readonly #memories = new WeakMap<Suite, PointerMemory>()

  constructor(parts: PointersParts) {
    this.#parts = parts
  }

  /** Whether the Release files of the suite in the directory with this key are shared. */
  shares(at: string): boolean {
    return isShareableKey(`${at}/InRelease`, this.#parts)
  }

  /** The pointer of the suite in the directory with this key, unless it was found unfit. Never rejects. */
  async of(at: string): Promise<SuitePointer | undefined> {
    const { shared, clock } = this.#parts
    const pointer = await resultInTime(shared.suite(idOf(at)), clock, sharedPatience)
    if (pointer === undefined || this.#isUnfit(at, pointer)) return undefined
    if (isOfSuite(at, pointer)) return pointer
    this.noteUnfit(at, pointer)
    return undefined
  }

  noteUnfit(at: string, { etag, release }: SuitePointer): void {
    this.#memory(at).unfit = versionOf({ etag, release })
    this.#parts.log.warn('the shared store points to a Release file that cannot be used', {
      suite: at,
      release: release[0]?.digest,
    })
  }

  /**
   * Moves the pointer to the Release files that this node has verified, once the bucket has them. Waits at most two seconds, and not at all for a
   * bucket that does not answer or takes no writes: the pointer moves when it works again. Never rejects.
   */
  async announce(
    at: string,
    release: readonly Entry[],
    date: Milliseconds | undefined,
  ): Promise<void> {
    const { shared, clock } = this.#parts
    if (date === undefined || release.length === 0 || !this.shares(at)) return
    const version = versionOf({ etag: '', release })
    const memory = this.#memory(at)
    memory.announced = version
    const offers = release.map(entry => shared.offer(entry, { first: true }))
    const told = Promise.all(offers).then(uploaded => {
      const isLast = memory.announced === version
      return isLast && uploaded.every(Boolean) ? this.#move(at, release, date) : undefined
    })
    const { resting, unwritable } = shared.state
    if (resting === undefined && unwritable === undefined)
      await resultInTime(told, clock, sharedPatience)
  }

  /** Announces the adopted generation of a suite, unless the pointer already names it or a newer one. */
  async adopted({ at, generations: [generation] }: KnownSuite): Promise<void> {
    if (generation === undefined || !this.shares(at)) return
    const { store } = this.#parts
    const files = releasesOf(generation).flatMap(({ name, digest, signedBy }) => {
      const signature = signedBy === undefined ? [] : [{ name: 'Release.gpg', ...signedBy }]
      return [{ name, digest }, ...signature]
    })
    const release: Entry[] = []
    for (const { name, digest } of files) {
      const entry = await store.get(`${at}/${name}`)
      if (entry?.digest === digest) release.push(entry)
    }
    const known = await this.of(at)
    const whole = release.some(({ key }) => !key.endsWith('.gpg'))
    if (whole && (known?.date ?? 0) < (generation.date ?? 0)) {
      await this.announce(at, release, generation.date)
    }
  }

  async #move(at: string, release: readonly Entry[], date: Milliseconds): Promise<void> {
    const { shared, clock, node, log } = this.#parts
    const to = { release, date, adopted: clock.now(), node }
    for (let times = 0; times < mostLost; times += 1) {
      const from = await shared.suite(idOf(at), { fresh: true })
      const holds = from !== undefined && isOfSuite(at, from) && !this.#isUnfit(at, from)
      if (holds && from.date >= date) return
      if ((await shared.swap(idOf(at), from, to)) !== 'lost') return
    }
    // Other nodes are rarely faster so often. An engine whose conditions have ceased to work looks the same.
    log.warn('the shared store did not take a newer Release file; other nodes go on with theirs', {
      suite: at,
    })
  }

  #isUnfit(at: string, pointer: SuitePointer): boolean {
    return this.#memory(at).unfit === versionOf(pointer)
  }

  #memory(at: string): PointerMemory {
    const suite = this.#parts.live.of(at)
    const memory = this.#memories.get(suite) ?? {}
    this.#memories.set(suite, memory)
    return memory
  }
}

function isOfSuite(at: string, { release }: Pick<SuitePointer, 'release'>): boolean {
  const names = ['InRelease', 'Release', 'Release.gpg'].map(name => `${at}/${name}`)
  return release.every(({ key }) => names.includes(key))
}

function versionOf({ etag, release }: Pick<SuitePointer, 'etag' | 'release'>): string {
  return `${etag} ${release.map(({ digest }) => digest).join(' ')}`
}

/** The name of the pointer of a suite. */
function idOf(at: string): string {
  return createHash('sha256').update(at).digest('hex')
}
