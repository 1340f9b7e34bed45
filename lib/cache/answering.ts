/**
 * Makes the parts that answer requests for files: what asks origins, what indexes say, what answers from both.
 */
import type { Clock } from '../async/clock.ts'
import type { Failure } from '../errors.ts'
import type { OriginClient, OriginResponse } from '../http/client/client.ts'
import { Fields } from '../http/message/field.ts'
import type { TargetUri } from '../http/message/target.ts'
import type { Logger } from '../log/log.ts'
import { Answerer } from './answer/answerer.ts'
import { Fetcher } from './fetch/fetch.ts'
import { follow, sharedFields } from './fetch/redirects.ts'
import { suitePolicy } from './policy/archives.ts'
import { admitTarget } from './policy/policy.ts'
import type { Rules } from './policy/rules.ts'
import { allowsStale } from './rfc9111/lookup.ts'
import { NegativeMemory } from './rfc9111/negative.ts'
import type { Store } from './store/store.ts'
import { Suites } from './suites/suites.ts'

export interface AnsweringParts {
  readonly rules: () => Rules
  readonly store: Store
  readonly clock: Clock
  readonly log: Logger
  readonly origin: OriginClient
  /** Our name in Via. */
  readonly pseudonym: string
  readonly version: string
  readonly onFetched: (bytes: number) => void
  readonly onImpostor: () => void
  readonly onWrong: (failure: Failure) => void
}

export interface Answering {
  readonly fetcher: Fetcher
  readonly negative: NegativeMemory
  readonly answerer: Answerer
  readonly suites: Suites
}

/** Time after an origin missed a deadline in which requests with a stored copy do not wait for it. */
const failureMemory = 10_000

/** Reads what is known of suites; asks no origin yet. */
export async function answering(parts: AnsweringParts): Promise<Answering> {
  const { rules, store, clock, log, origin, pseudonym, version } = parts
  const { config } = rules()
  const ask = (
    method: 'GET' | 'HEAD',
    question: { uri: TargetUri; more: Fields; signal: AbortSignal },
  ): Promise<OriginResponse> => {
    const shared = sharedFields(`1.1 ${pseudonym}`, `cachesvc/${version}`)
    const fields = Fields.fromFlat([...shared.flat, ...question.more.flat])
    const { uri, signal } = question
    return follow(
      { method, uri, fields, signal },
      {
        origin,
        admit: to => admitTarget({ kind: 'fetch', authority: to }, rules().policy),
      },
    )
  }
  const fetcher = new Fetcher({
    store,
    clock,
    log: log.child({ part: 'fetch' }),
    ask: (uri, more, signal) => ask('GET', { uri, more, signal }),
    onFetched: parts.onFetched,
    onImpostor: parts.onImpostor,
    onWrong: parts.onWrong,
    failureMemory,
  })
  const suites = await Suites.open({
    cacheDirectory: config.cacheDirectory,
    clock,
    log: log.child({ part: 'suites' }),
    store,
    memory: config.suites.memory,
    wait: () => rules().config.suites.wait,
    policyOf: at => suitePolicy(at, rules().config),
  })
  const negative = new NegativeMemory(clock, () => rules().config.freshness.negative)
  const answerer = new Answerer({
    store,
    fetcher,
    negative,
    clock,
    askHead: (uri, signal) => ask('HEAD', { uri, more: Fields.empty, signal }),
    mayBeStale: entry => rules().config.freshness.serveStale === 'always' || allowsStale(entry),
    revalidationBudget: () => rules().config.timeouts.revalidation,
    onReleaseGiven: (client, entry) => suites.given(client, entry),
  })
  return { fetcher, negative, answerer, suites }
}
