/**
 * Has this node give the Release files that the other nodes of a bucket give: before a Release file is looked up, the pointer of its suite is
 * read, which is remembered for a second. When it names a newer one than is adopted here, that is taken as one of the origin would be
 * (`Updates.take`): it is verified, and so are the indexes it names.
 */
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { resultInTime } from '../../../async/deadline.ts'
import { SingleFlight } from '../../../async/single-flight.ts'
import type { Logger } from '../../../log/log.ts'
import { recentEntries } from '../../../recent.ts'
import type { SuiteDelays } from '../../answer/suite-delays.ts'
import type { Updates } from '../../answer/suite-updates.ts'
import { suiteOfRelease } from '../../archive/path.ts'
import type { Store } from '../../store/store.ts'
import type { Suites } from '../../suites/suites.ts'
import type { Pointers } from './pointers.ts'

interface FollowingParts {
  readonly pointers: Pointers
  readonly suites: Pick<Suites, 'at'>
  readonly delays: Pick<SuiteDelays, 'restraint'>
  readonly updates: Pick<Updates, 'take' | 'refresh'>
  readonly store: Pick<Store, 'get'>
  readonly clock: Clock
  readonly log: Logger
  /** How long a client waits for it; it goes on then. */
  readonly wait: () => Milliseconds
}

/** How long a pointer that could not be followed is left alone. */
const betweenTries: Milliseconds = 5000
/** How often a pointer is tried whose files are not in the bucket. Then it is left, and no longer keeps a node from moving it. */
const mostTries = 3
const mostPaused = 1000

interface Paused {
  /** Until when it is not tried again, by `elapsed`. */
  readonly until: Milliseconds
  readonly tries: number
  /** That of the Release file which the pointer names. */
  readonly digest: string | undefined
}

export class Following {
  readonly #parts: FollowingParts
  readonly #flights = new SingleFlight<void>()
  /** Suites whose pointer could not be followed. */
  readonly #paused = recentEntries<string, Paused>(mostPaused)

  constructor(parts: FollowingParts) {
    this.#parts = parts
  }

  /** Has the Release file of the other nodes stand under this key. Undefined when its suite is not shared. Never rejects. */
  settle(key: string): Promise<void> | undefined {
    const { pointers, clock, wait } = this.#parts
    const at = suiteOfRelease(key)
    if (at === undefined || !pointers.shares(at)) return undefined
    return resultInTime(
      this.#flights.run(at, () => this.#follow(at)),
      clock,
      wait(),
    )
  }

  async #follow(at: string): Promise<void> {
    const { pointers, suites, store, delays, updates, clock, log } = this.#parts
    try {
      const pointer = await pointers.of(at)
      const [adopted] = suites.at(at)?.generations ?? []
      // What a delay keeps has its own time here. A suite that was never adopted is fetched as any file is, from the bucket.
      if (pointer === undefined || adopted === undefined || delays.restraint(at)) return
      const release = pointer.release.find(({ key }) => !key.endsWith('.gpg'))
      const entry = release && (await store.get(release.key))
      if (entry === undefined || entry.digest === release?.digest) return
      if (pointer.date <= (adopted.date ?? 0)) return
      const before = this.#paused.get(at)
      if (before !== undefined && before.until > clock.elapsed()) return
      const taken = await updates.take(pointer, entry)
      if (taken.use === 'store') return
      const until = clock.elapsed() + betweenTries
      const tries = before?.digest === release?.digest ? (before?.tries ?? 0) + 1 : 1
      this.#paused.set(at, { until, tries, digest: release?.digest })
      if (taken.use !== 'again') return
      // Its files have not reached the bucket, or are gone: the origin has them.
      if (tries >= mostTries) pointers.noteUnfit(at, pointer)
      await updates.refresh(entry)
    } catch (error) {
      log.warn('the Release file of the other nodes could not be taken', { suite: at, error })
    }
  }
}
