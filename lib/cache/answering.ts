/**
 * Makes the parts that answer requests for files: what asks origins, what indexes say, what answers from both.
 */
import type { Clock } from '../async/clock.ts'
import type { Failure } from '../errors.ts'
import type { OriginClient } from '../http/client/client.ts'
import type { Logger } from '../log/log.ts'
import { Ahead, type AheadParts } from './ahead/ahead.ts'
import { Answerer } from './answer/answerer.ts'
import { offlineFailure } from './answer/errors.ts'
import { Updates } from './answer/suite-updates.ts'
import { Fetcher } from './fetch/fetch.ts'
import { Mirrors } from './fetch/mirrors.ts'
import { type Ask, asking, impatient } from './fetch/origin-client.ts'
import { admitTarget, type Rules } from './policy/policy.ts'
import { archiveOf, placesOf } from './policy/routing.ts'
import { NegativeMemory } from './rfc9111/stored-response.ts'
import type { Store } from './store/store.ts'
import { suitePolicy } from './suites/policy.ts'
import { Suites } from './suites/suites.ts'

interface AnsweringParts {
  readonly rules: () => Rules
  readonly store: Store
  readonly clock: Clock
  readonly log: Logger
  readonly origin: OriginClient
  /** Our name in Via. */
  readonly pseudonym: string
  readonly version: string
  readonly onFetched: (bytes: number) => void
  readonly onFailover: () => void
  readonly onImpostor: () => void
  readonly onWrong: (failure: Failure) => void
  readonly onAhead: AheadParts['onEnd']
}

/** Reads what is known of suites; asks no origin yet. */
export async function answering(parts: AnsweringParts) {
  const { rules, store, clock, log, origin, pseudonym, version } = parts
  const { config } = rules()
  const mirrors = new Mirrors({
    clock,
    log: log.child({ part: 'fetch' }),
    places: uri => placesOf(uri, rules().config.archives),
    impatient: () => impatient(rules().config),
    onFailover: parts.onFailover,
  })
  const online = asking({
    origin,
    mirrors,
    admit: to => admitTarget({ kind: 'fetch', authority: to }, rules().policy),
    passes: uri => {
      const { archives, redirects } = rules().config
      return (archiveOf(uri, archives)?.archive.redirects ?? redirects) === 'pass'
    },
    via: `1.1 ${pseudonym}`,
    agent: `cachesvc/${version}`,
  })
  const ask: Ask = question =>
    rules().config.offline ? Promise.reject(offlineFailure()) : online(question)
  const fetcher = new Fetcher({
    store,
    clock,
    log: log.child({ part: 'fetch' }),
    ask,
    onBroken: place => mirrors.brokeOff(place),
    onFetched: parts.onFetched,
    onImpostor: parts.onImpostor,
    onWrong: parts.onWrong,
  })
  const ahead = new Ahead({
    cacheDirectory: config.cacheDirectory,
    clock,
    log: log.child({ part: 'ahead' }),
    store,
    fetcher,
    settings: () => (rules().config.offline ? undefined : rules().config.suites.warm),
    onEnd: parts.onAhead,
  })
  const suites = await Suites.open({
    cacheDirectory: config.cacheDirectory,
    clock,
    log: log.child({ part: 'suites' }),
    store,
    memory: config.suites.memory,
    wait: () => rules().config.suites.wait,
    policyOf: at => suitePolicy(at, rules().config),
    snapshotDays: () => rules().config.suites.snapshotDays,
    onAdopted: suite => ahead.adopted(suite),
  })
  const negative = new NegativeMemory(clock, () => rules().config.freshness.negative)
  const suiteLog = log.child({ part: 'suites' })
  const updates = new Updates({ rules, suites, fetcher, store, clock, log: suiteLog })
  updates.removeLeftovers()
  const answerer = new Answerer({ rules, store, fetcher, suites, updates, negative, clock, ask })
  return { fetcher, negative, answerer, suites, updates, ahead }
}
