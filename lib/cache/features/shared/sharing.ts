/**
 * Makes the parts by which this node uses a bucket: one finds files in the bucket before an origin is asked, others offer files to the other
 * nodes and follow their Release files. Only a program with the setting `shared_store` loads this file.
 */
import type { Milliseconds } from '../../../async/clock.ts'
import { resultInTime } from '../../../async/deadline.ts'
import { SingleFlight } from '../../../async/single-flight.ts'
import { recentEntries } from '../../../recent.ts'
import { suiteOfRelease } from '../../archive/path.ts'
import type { Rules } from '../../policy/policy.ts'
import { isKeepingKey } from '../../store/key.ts'
import type { Store } from '../../store/store.ts'
import type { Suite } from '../../suites/suite.ts'
import type { Suites } from '../../suites/suites.ts'
import type { GenerationChoice } from '../../suites/updates/places.ts'
import type { Updates } from '../../suites/updates/updates.ts'
import { SharedNearer } from './nearer.ts'
import { isShareableKey, type SharingRules } from './shareable.ts'
import type { SharedStore } from './shared-store.ts'
import { Pointers } from './suites/pointers.ts'
import { sharedFile } from './suites/shared-file.ts'

interface SharingParts
  extends SharingRules,
    Omit<ConstructorParameters<typeof Pointers>[0], 'node'> {
  readonly shared: SharedStore
  readonly rules: () => Rules
  readonly store: Store
  /** The name of this node in Via. */
  readonly pseudonym: string
}

/** For at most this many keys it is remembered which content was offered to the other nodes. */
const mostOffered = 65_536

/** Makes the parts. From now on each new entry of a shared file is offered to the other nodes. */
export function sharingOf(parts: SharingParts) {
  const { shared, store, pseudonym } = parts
  const pointers = new Pointers({ ...parts, node: pseudonym })
  const offered = recentEntries<string, string>(mostOffered)
  store.listen({
    named(entry) {
      const { key, digest } = entry
      // A Release file is offered with the pointer that names it.
      if (suiteOfRelease(key) !== undefined || isKeepingKey(key)) return
      if (offered.get(key) === digest || !isShareableKey(key, parts)) return
      offered.set(key, digest)
      void shared.offer(entry)
    },
  })
  const nearer = new SharedNearer({
    ...parts,
    pointers,
    onTaken: ({ key, digest }) => offered.set(key, digest),
    onWrong: digest => {
      for (const [key, known] of offered.entries()) if (known === digest) offered.delete(key)
    },
  })
  return {
    nearer,
    pointers,
    following: (made: Pick<FollowingParts, 'suites' | 'choice' | 'updates'>) =>
      releaseFollower({ ...parts, ...made, pointers }),
  }
}

interface FollowingParts extends Pick<SharingParts, 'rules' | 'store' | 'clock' | 'log'> {
  readonly pointers: Pointers
  readonly suites: Suites
  readonly choice: GenerationChoice
  readonly updates: Updates
}

/** A pointer that could not be followed is not tried again for this time. */
const betweenTries: Milliseconds = 5000
/** A pointer whose files are not in the bucket is given up after this many tries. Then a node may move it. */
const mostTries = 3

interface Paused {
  /** The moment by `elapsed` until which the pointer is not tried again. */
  readonly until: Milliseconds
  readonly tries: number
  /** The digest of the Release file that the pointer names. */
  readonly digest: string | undefined
}

/**
 * Makes the function that stores the Release file of the other nodes under its key. The function answers undefined when the suite is not
 * shared, and its promise never rejects.
 *
 * The pointer of the suite is read, which is remembered for a second. When it names a newer Release file than the adopted one, this node
 * takes it like one from the origin (`Updates.take`): it verifies the Release file and the indexes that it names.
 */
function releaseFollower(parts: FollowingParts) {
  const { pointers, suites, store, choice, updates, rules, clock, log } = parts
  const flights = new SingleFlight<void>()
  /** Suites whose pointer could not be followed. */
  const paused = new WeakMap<Suite, Paused>()
  const follow = async (at: string): Promise<void> => {
    try {
      const suite = suites.live.of(at)
      const [adopted] = suite.known?.generations ?? []
      // A suite with a delay or a hold follows its own time on this node. A suite that was never adopted is fetched like any file.
      if (adopted === undefined || choice.restrains(at)) return
      const pointer = await pointers.of(at)
      if (pointer === undefined) return
      const release = pointer.release.find(({ key }) => !key.endsWith('.gpg'))
      const entry = release && (await store.get(release.key))
      if (entry === undefined || entry.digest === release?.digest) return
      if (pointer.date <= (adopted.date ?? 0)) return
      const before = paused.get(suite)
      if (before !== undefined && before.until > clock.elapsed()) return
      const offered = {
        date: pointer.date,
        file: (key: string) => sharedFile(pointer, key),
        noteUnfit: () => pointers.noteUnfit(at, pointer),
      }
      const taken = await updates.take(offered, entry)
      if (taken.use === 'store') return
      const until = clock.elapsed() + betweenTries
      const tries = before?.digest === release?.digest ? (before?.tries ?? 0) + 1 : 1
      paused.set(suite, { until, tries, digest: release?.digest })
      if (taken.use !== 'again') return
      // The files are not in the bucket yet, or are gone, so the origin is asked.
      if (tries >= mostTries) pointers.noteUnfit(at, pointer)
      await updates.refresh(entry)
    } catch (error) {
      log.warn('the Release file of the other nodes could not be taken', { suite: at, error })
    }
  }
  return (key: string): Promise<void> | undefined => {
    const at = suiteOfRelease(key)
    if (at === undefined || !pointers.shares(at)) return undefined
    const flight = flights.run(at, () => follow(at))
    // The work goes on after this time.
    return resultInTime(flight, clock, rules().config.timeouts.revalidation)
  }
}
