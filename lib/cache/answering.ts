/**
 * Makes the parts that answer requests for files: the fetcher, the suites with their delays and updates, and the answerer.
 */
import type { Clock } from '../async/clock.ts'
import type { OriginClient } from '../http/client/client.ts'
import type { TargetUri } from '../http/message/target.ts'
import type { Logger } from '../log/log.ts'
import { recentEntries } from '../recent.ts'
import { Answerer } from './answer/answerer.ts'
import { ConfinedContents } from './answer/confined-contents.ts'
import { passedResponse } from './answer/from-origin.ts'
import type { OpenFeature } from './features/feature.ts'
import { Fetcher } from './fetch/fetch.ts'
import type { FetchEvents } from './fetch/fetch-outcome.ts'
import { LateHeads } from './fetch/late-heads.ts'
import { Mirrors, originPatience } from './fetch/mirrors.ts'
import type { OriginCredentials } from './fetch/origin-credentials.ts'
import { askOrigins } from './fetch/origin-question.ts'
import { RangesAhead } from './fetch/range-ahead.ts'
import { UnconfirmedOrigins } from './fetch/unconfirmed-origins.ts'
import type { Rules } from './policy/policy.ts'
import { archiveOf, connectionsTo, placesOf } from './policy/routing.ts'
import type { NegativeMemory } from './rfc9111/lookup.ts'
import type { Store } from './store/store.ts'
import type { StoreOptions } from './store/wiring.ts'
import type { KnownSuite } from './suites/generation.ts'
import { openAdopted } from './suites/known-suites.ts'
import { policiesOf } from './suites/policy.ts'
import { LiveSuites } from './suites/suite.ts'
import { Suites } from './suites/suites.ts'
import { noChoice } from './suites/updates/places.ts'
import { Updates } from './suites/updates/updates.ts'

interface AnswerPartsOptions extends Omit<FetchEvents, 'onBroken'> {
  readonly rules: () => Rules
  readonly store: Store
  readonly clock: Clock
  readonly log: Logger
  readonly origin: OriginClient
  readonly pseudonym: string
  readonly version: string
  readonly onFailover: () => void
  readonly credentials: () => OriginCredentials
  readonly disk: StoreOptions['disk'] | undefined
  /** The open features, in their order. */
  readonly features: readonly OpenFeature[]
}

/** The most 404s that are remembered. */
const mostMissing = 10_000

/** The parts that answer requests for files. */
export type AnswerParts = Awaited<ReturnType<typeof makeAnswerParts>>

/** Makes the parts, and reads the known suites from disk. It asks no origin yet. */
export async function makeAnswerParts(parts: AnswerPartsOptions) {
  const { rules, store, clock, log, onFailover } = parts
  const {
    cacheDirectory,
    suites: { memory },
  } = rules().config
  const shared = { store, clock, cacheDirectory }
  /** What the features put into a place that is filled before these parts are made. */
  const places = <Name extends 'share' | 'choose'>(name: Name) =>
    parts.features.flatMap(({ [name]: place }) => (place === undefined ? [] : [place]))
  const fetchLog = log.child({ part: 'fetch' })
  const suiteLog = log.child({ part: 'suites' })
  const adopted = await openAdopted({ ...shared, log: suiteLog, memory, disk: parts.disk })
  const live = new LiveSuites({ clock, known: adopted.known })
  const mostConnections = (place: TargetUri): number => {
    const { archives, limits } = rules().config
    return connectionsTo(place, archives) ?? limits.originConnections
  }
  const mirrors = new Mirrors({
    clock,
    log: fetchLog,
    onFailover,
    places: uri => placesOf(uri, rules().config.archives),
    late: new LateHeads({
      clock,
      timeouts: () => rules().config.timeouts,
      connectionsTo: mostConnections,
    }),
    impatient: () => ({ content: Math.min(originPatience, rules().config.timeouts.content) }),
  })
  const ask = askOrigins({ ...parts, log: fetchLog, mirrors })
  const onBroken: FetchEvents['onBroken'] = place => mirrors.brokeOff(place)
  const storesAll = (uri: TargetUri): boolean =>
    archiveOf(uri, rules().config.archives)?.archive.store === 'always'
  const goneAfter = () => rules().config.suites.goneAfter
  const sharing = places('share')[0]?.({ live })
  const unconfirmed = new UnconfirmedOrigins({ clock, log: fetchLog })
  const fetching = {
    ...parts,
    log: fetchLog,
    ask,
    onBroken,
    storesAll,
    goneAfter,
    unconfirmed,
    releases: live,
  }
  const fetcher = new Fetcher({ ...fetching, nearer: sharing?.nearer })
  const confined = new ConfinedContents({ rules, store, log: suiteLog })
  store.listen({
    named: entry => confined.note(entry),
    arriving: ({ entry }) => confined.note(entry),
    freed: ({ digest }) => confined.forget(digest),
  })
  const shares = (digest: string, key: string) => confined.shares(digest, key)
  const adoptedListeners: Array<(suite: KnownSuite) => void> = []
  const suites = new Suites({
    ...shared,
    ...adopted,
    live,
    log: suiteLog,
    memory,
    wait: () => rules().config.suites.wait,
    policyOf: policiesOf(() => rules().config),
    snapshotDays: () => rules().config.suites.snapshotDays,
    onAdopted: suite => {
      for (const listener of adoptedListeners) listener(suite)
    },
    shares,
  })
  const negative: NegativeMemory = recentEntries(mostMissing)
  const choice = places('choose')[0]?.({ suites }) ?? noChoice
  const updates = new Updates({
    rules,
    suites,
    fetcher,
    store,
    clock,
    log: suiteLog,
    choice,
    others: sharing?.others,
  })
  const following = sharing?.follow({ suites, choice, updates })
  updates.removeLeftovers()
  const rangesAhead = new RangesAhead({
    ask,
    clock,
    connectionsTo: mostConnections,
    onFetched: parts.onFetched,
  })
  const asked = { rules, store, fetcher, suites, updates, negative, clock, ask, shares }
  const answerer = new Answerer({
    ...asked,
    delays: choice,
    rangesAhead,
    connectionsTo: mostConnections,
    passed: (allowed, because) => passedResponse(allowed, because, parts),
  })
  return {
    mirrors,
    fetcher,
    unconfirmed,
    negative,
    answerer,
    suites,
    /** The functions that are called after a suite was adopted. They are added before a client is served. */
    adoptedListeners,
    updates,
    delays: choice,
    shares,
    /**
     * Puts the Release file that clients are to get under its key, which can also be the key of its signature. Other nodes of a shared
     * store and a delay can choose another one than the stored one. Undefined when neither concerns this key. Never rejects.
     */
    settleRelease: (key: string): Promise<void> | undefined => {
      const followed = following?.(key)
      return followed === undefined ? choice.settle(key) : followed.then(() => choice.settle(key))
    },
  }
}
