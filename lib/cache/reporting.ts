/**
 * Makes the operations interface and the metrics of a running service from its parts.
 */
import { hostname } from 'node:os'
import type { Clock } from '../async/clock.ts'
import type { OriginClient } from '../http/client/client.ts'
import type { Clients } from '../http/server/clients.ts'
import { redactUrl } from '../log/redact.ts'
import type { MetricFacts } from '../metrics.ts'
import type { AnswerStep } from './answer/answer-step.ts'
import type { AnswerParts } from './answering.ts'
import type { RefuseFile } from './decide/decide.ts'
import type { SentCredentials } from './decide/sent-credentials.ts'
import type { JoinedFeatures } from './features/join.ts'
import { features } from './features.ts'
import { originRemarks } from './fetch/origin-remarks.ts'
import type { OpenListeners } from './listening.ts'
import { explain } from './operations/explain.ts'
import { LiveEvents } from './operations/live.ts'
import {
  CacheMetrics,
  type Gauges,
  type SignatureOfSuite,
  type SuiteBehind,
} from './operations/metrics.ts'
import { operationsHandler } from './operations/routes.ts'
import type { HttpsPages, OperationsSources, SuiteState } from './operations/sources.ts'
import { isBehind } from './operations/state-text.ts'
import type { Rules } from './policy/policy.ts'
import { machineAddresses } from './policy/routing.ts'
import { type Activity, Holdings } from './stats/activity.ts'
import { historyReport, report } from './stats/report.ts'
import type { Statistics } from './stats/statistics.ts'
import type { Store } from './store/store.ts'
import type { UnreferencedPackages } from './suites/unreferenced.ts'

interface OperationsParts
  extends Pick<
    AnswerParts,
    'suites' | 'updates' | 'negative' | 'fetcher' | 'unconfirmed' | 'shares' | 'delays' | 'mirrors'
  > {
  readonly clock: Clock
  readonly version: string
  readonly rules: () => Rules
  readonly warnings: () => readonly string[]
  readonly listening: Pick<OpenListeners, 'listeners' | 'connections'>
  readonly clients: Pick<Clients, 'waiting'>
  readonly store: Store
  readonly origin: OriginClient
  readonly statistics: Statistics
  readonly activity: Activity
  /** The metrics. The values that are read when a client asks for them are added here. */
  readonly metrics: CacheMetrics
  readonly joined: JoinedFeatures
  readonly around: AnswerStep | undefined
  readonly refuse: RefuseFile | undefined
  readonly sentCredentials: SentCredentials
  readonly pseudonym: string
  readonly unreferenced: Pick<UnreferencedPackages, 'figures'>
}

/** Makes the pages and the values they show, and adds the values of all parts to the metrics. */
export async function operationsOf(parts: OperationsParts) {
  const { clock, version, rules, store, suites, origin, fetcher } = parts
  const { statistics, activity, metrics, listening } = parts
  let space = await store.fileSystem()
  const gauges: Gauges = {
    client_connections: () => listening.connections,
    clients_waiting_for_rate: () => parts.clients.waiting,
    origin_connections: () => {
      const { busy, free, bound } = origin.counts()
      return busy + free + bound
    },
    fetches_under_way: () => fetcher.count,
    files_being_written: () => store.writing,
    stored_objects: () => store.usage().objects,
    stored_bytes: () => store.usage().bytes,
    unremovable_contents: () => store.unremovable.contents,
    unreferenced_files: () => parts.unreferenced.figures?.files ?? 0,
    damaged_contents: () => store.damaged,
    filesystem_free_bytes: () => space?.free ?? 0,
    adopted_suites: () => suites.all.length,
    suites_being_adopted: () => suites.adoptions.count,
    suites_behind: () => suitesBehind(parts).length,
    unconfirmed_origins: () => parts.unconfirmed.reported.length,
    refused_signatures: () => signatureEnds(parts).filter(({ at }) => at <= clock.now()).length,
    suites_behind_seconds: () => suitesBehind(parts)[0]?.seconds ?? 0,
    store_writable: () => Number(store.health().writable && store.full === undefined),
  }
  const parents = () => origin.dialler.parents.states()
  const origins = () => originRemarks(origin, parts.mirrors)
  metrics.read(
    gauges,
    () => suitesBehind(parts),
    parents,
    () => signatureEnds(parts),
  )
  metrics.readUnconfirmed(() => parts.unconfirmed.reported)
  const stored = new Holdings(store, clock)
  const { reports } = parts.joined
  const https = parts.joined.interception.https ?? withoutCertificates(rules)
  const sources: OperationsSources = {
    clock,
    version,
    get config() {
      return rules().config
    },
    admits: client => rules().policy.clients.has(client),
    warnings: parts.warnings,
    parents,
    origins,
    listeners: () => listening.listeners,
    addresses: machineAddresses,
    hostname: hostname(),
    ...https,
    get httpsMode() {
      return https.mode()
    },
    get routing() {
      return rules().routes
    },
    statistics: () => report(statistics.days, statistics.today),
    history: () => historyReport(statistics.days, statistics.history, clock.now()),
    activity: () => ({
      started: activity.started,
      rates: activity.rates,
      runs: activity.runs,
      problems: activity.problems,
      clientsToday: activity.clientsToday,
      archives: activity.archives,
      clients: activity.clients,
      connections: listening.connections,
      waitingForRate: parts.clients.waiting,
      arriving: fetcher.arriving,
    }),
    usage: async () => ({ ...store.usage(), filesystem: await store.fileSystem() }),
    holdings: () => stored.counted(),
    health: () => store.health(),
    nothingStored: () => store.full,
    unremovable: () => store.unremovable,
    unreferenced: () => parts.unreferenced.figures,
    features: reports,
    suites: () => suiteStates(parts),
    unconfirmed: () => parts.unconfirmed.reported,
    metrics: async () => {
      space = await store.fileSystem()
      return metrics.text()
    },
    explain: request =>
      explain(request, {
        ...parts,
        parents,
        origins,
        refusedAddresses: authority => origin.dialler.refusedAddresses(authority),
        features: reports,
        now: clock.now(),
      }),
  }
  const live = new LiveEvents(sources)
  return { operations: operationsHandler(sources, live), sources, live }
}

/** What the pages show when no feature makes certificates. */
function withoutCertificates(rules: () => Rules): HttpsPages {
  return {
    mode: () => (rules().config.https.prevent ? 'disabled' : 'tunnel'),
    https: () => undefined,
    certificate: () => undefined,
    revocationList: () => undefined,
  }
}

/** The suites whose clients get an earlier Release file than the origin has. The one that is behind for the longest time is first. */
function suitesBehind(parts: OperationsParts): readonly SuiteBehind[] {
  return suiteStates(parts)
    .flatMap(({ name, behind }) => {
      if (behind === undefined || !isBehind(behind)) return []
      const [file] = behind.missing
      return [
        {
          suite: redactUrl(name),
          file: file?.path ?? '',
          seconds: Math.round(behind.lasts / 1000),
        },
      ]
    })
    .sort((a, b) => b.seconds - a.seconds)
}

/** The suites whose signature apt refuses now or later, with the earliest first. */
function signatureEnds({ suites }: OperationsParts): readonly SignatureOfSuite[] {
  return suites.all
    .flatMap(({ at, generations: [generation] }) => {
      const ends = generation?.signature.ends
      return ends === undefined ? [] : [{ suite: redactUrl(at), ...ends }]
    })
    .sort((a, b) => a.at - b.at)
}

function suiteStates(parts: OperationsParts): readonly SuiteState[] {
  const { suites, updates } = parts
  const states = suites.all.flatMap(({ at, generations: [generation] }) => {
    if (generation === undefined) return []
    const { date, adopted, validUntil, signature, contents, contradictions } = generation
    const bytes = contents.reduce((sum, { size }) => sum + size, 0)
    const files = contents.length
    const about = { date, adopted, validUntil, signature, files, bytes, contradictions }
    const [behind, refusal] = [updates.behind(at), updates.refusal(at)]
    return [{ name: at, ...about, behind, refusal }]
  })
  return states.reverse()
}

/** The facts of all metrics, those of the features included, for the list in the manual. */
export function listMetrics(): readonly MetricFacts[] {
  return CacheMetrics.list(metrics => {
    for (const feature of features) feature.listMetrics?.(metrics)
  })
}
