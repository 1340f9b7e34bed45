/**
 * The metrics of the cache under their Prometheus names. Counters of requests agree with the statistics. Gauges are read when a
 * client asks for the metrics.
 */
import type { ParentState } from '../../http/client/dialling/parents.ts'
import type { Exchange } from '../../http/message/message.ts'
import { type LabelNames, type MetricFacts, Metrics, measureProcess } from '../../metrics.ts'
import { isGone } from '../fetch/revalidation.ts'
import type { UnconfirmedOrigin } from '../fetch/unconfirmed-origins.ts'
import type { Outcome } from '../rfc9111/outcome.ts'
import type { SignatureEnd } from '../suites/signing/apt-policy.ts'

const gauges = {
  client_connections: 'Open client connections.',
  clients_waiting_for_rate: 'Clients whose content waits for `limits.per_client.rate`.',
  origin_connections: 'Open connections to origins.',
  fetches_under_way: 'Files being fetched from origins.',
  files_being_written: 'Files not yet whole on disk.',
  stored_objects: 'Stored targets.',
  stored_bytes: 'Bytes of stored content, each content once.',
  unremovable_contents: 'Removed contents whose files the file system did not let go.',
  unreferenced_files:
    'Stored packages that no index names, as of the last sweep; 0 unless `retention.unreferenced` is set.',
  damaged_contents: 'Stored contents found damaged when they were read, since the start.',
  filesystem_free_bytes: 'Free bytes of the file system of the cache.',
  adopted_suites: 'Suites whose indexes are compared with files.',
  suites_being_adopted: 'Suites whose indexes are being read.',
  suites_behind: 'Suites whose clients get an earlier Release file than the origin has.',
  suites_behind_seconds: 'For how long that is so, of the suite for which it is longest.',
  unconfirmed_origins: 'Origins that have confirmed nothing for ten minutes while clients asked.',
  refused_signatures:
    'Suites whose signature apt refuses by now: its policy has ended an algorithm, or the key has expired.',
  store_writable:
    '1 while the store takes new content, 0 while the disk fails or other programs fill it.',
} as const

/** The functions that read the gauges. */
export type Gauges = Readonly<Record<keyof typeof gauges, () => number>>

/** A suite whose clients get an earlier Release file than the origin has, and the first file that is missing. */
export interface SuiteBehind {
  readonly suite: string
  readonly file: string
  readonly seconds: number
}

/** A suite whose signature apt refuses from a moment on. */
export interface SignatureOfSuite extends SignatureEnd {
  readonly suite: string
}

/** The most suites with figures of their own. Clients choose the names of suites, so there must be a bound. */
const mostSuites = 20
/** The same of origins, whose names clients choose as well. */
const mostOrigins = 20

/** Events that are counted without labels, each with the name of its metric and its help text. */
const events = {
  broken: ['broken_responses', 'Responses cut off before their end.'],
  malformed: ['malformed_requests', 'Requests that cannot be read.'],
  'beyond-limit': [
    'connections_beyond_client_limit',
    'Connections answered 429 or closed because their client had as many as `limits.per_client.connections` allows.',
  ],
  slow: [
    'slow_clients',
    'Responses cut off because their client read nothing, or less than `limits.minimum_rate`. They are among the broken ones.',
  ],
  absent: [
    'absent_files',
    'Requests answered 404 or 410: the archive does not have the file. They are among the failed ones, and most are not a fault: apt asks for an InRelease where there is only a Release.',
  ],
  impostor: [
    'impostor_responses',
    'Responses of origins that were plainly not the file asked for, and not stored.',
  ],
  failover: [
    'failovers',
    'Responses fetched from another origin of an archive than the preferred one.',
  ],
} as const

const outcomes: ReadonlySet<string> = new Set<Outcome>([
  'hit',
  'miss',
  'tunnel',
  'intercept',
  'refused',
  'failed',
  'operations',
])

const byOutcome = ['outcome'] as const
const byArchive = ['archive', 'outcome'] as const

/** The most archives with figures of their own. Clients choose hosts, so there must be a bound. */
const mostArchives = 64
/** The label of the archives beyond the bound, and of hosts that have not delivered a file yet. */
const otherArchives = 'other'

export class CacheMetrics {
  /** Features add theirs. */
  readonly registry = new Metrics()
  readonly #metrics = this.registry
  readonly #requests = this.#counter(
    'requests',
    'Requests by outcome. A file that its archive does not have counts as failed, too; cachesvc_absent_files_total counts those alone.',
    byOutcome,
  )
  readonly #sent = this.#counter('sent_bytes', 'Bytes of content sent to clients.', byOutcome)
  readonly #archiveRequests = this.#counter(
    'archive_requests',
    'Requests for files by the host they are fetched from and by outcome: hit, miss or failed.',
    byArchive,
  )
  readonly #archiveSent = this.#counter(
    'archive_sent_bytes',
    'Bytes of content sent to clients, by the host the files are fetched from and by outcome.',
    byArchive,
  )
  readonly #archives = new Set<string>()
  readonly fetched = this.#counter('fetched_bytes', 'Bytes of content fetched from origins.', [])
  readonly wrongContent = this.#counter(
    'wrong_content',
    'Responses of origins cut off because their content was not what an index or its name promises.',
    ['code'],
  )
  readonly notStored = this.#counter(
    'not_stored',
    'Responses of origins passed on and not stored, by reason: their fields forbid it (private, no-store, vary), or they are not the whole file (partial, page, empty, format).',
    ['because'],
  )
  readonly #unreferenced = this.#counter(
    'removed_unreferenced_files',
    'Packages removed because no index has named them for the time of `retention.unreferenced`.',
    [],
  )
  readonly #unreferencedBytes = this.#counter(
    'removed_unreferenced_bytes',
    'Bytes of those removed.',
    [],
  )
  readonly #events = new Map(
    Object.entries(events).map(([event, [name, help]]) => [event, this.#counter(name, help, [])]),
  )
  readonly #ends = this.#counter('interceptions', 'Intercepted tunnels by their end.', ['end'])
  readonly #duration = this.#metrics.histogram<'outcome'>({
    name: 'cachesvc_response_seconds',
    help: 'Time from the head of a request to the end of its response.',
    labels: byOutcome,
  })

  /** The facts of all metrics, for the list in the manual. `more` adds those of the features. */
  static list(more: (metrics: Metrics) => void): readonly MetricFacts[] {
    const names = Object.keys(gauges) as Array<keyof Gauges>
    const metrics = new CacheMetrics()
    metrics.read(
      Object.fromEntries(names.map(name => [name, () => 0])) as Gauges,
      () => [],
      () => [],
    )
    metrics.readUnconfirmed(() => [])
    more(metrics.registry)
    return metrics.#metrics.list()
  }

  /**
   * Adds the metrics that other parts provide: the gauges, the suites whose clients get an earlier Release file (those for the longest
   * time first), the parent proxies, the ends of signatures, and the figures of the process.
   */
  read(
    reads: Gauges,
    behind: () => readonly SuiteBehind[],
    parents: () => readonly ParentState[],
    ends: () => readonly SignatureOfSuite[] = () => [],
  ): void {
    for (const [name, help] of Object.entries(gauges)) {
      this.#metrics.reading({ name: `cachesvc_${name}`, help }, reads[name as keyof Gauges])
    }
    measureProcess(this.#metrics)
    const signatures = {
      name: 'cachesvc_signature_end_timestamp_seconds',
      help: 'When apt’s policy begins to refuse the signature of a suite, in seconds since the epoch, and why.',
      labels: ['suite', 'because'],
    } as const
    this.#metrics.readings(signatures, () =>
      ends()
        .slice(0, mostSuites)
        .map(({ at, ...labels }) => ({ labels, value: Math.floor(at / 1000) })),
    )
    const name = 'cachesvc_suite_behind_seconds'
    const help =
      'For how long clients have got an earlier Release file of a suite, and the first file it waits for.'
    this.#metrics.readings({ name, help, labels: ['suite', 'file'] }, () =>
      behind()
        .slice(0, mostSuites)
        .map(({ seconds, ...labels }) => ({ labels, value: seconds })),
    )
    this.#metrics.readings(
      {
        name: 'cachesvc_parent_requests_total',
        help: 'Requests and tunnels through a parent proxy, by result: answered, or failed where another way is tried if there is one.',
        labels: ['parent', 'result'],
        type: 'counter',
      },
      () =>
        parents().flatMap(({ name: parent, answered, failed }) => [
          { labels: { parent, result: 'answered' }, value: answered },
          { labels: { parent, result: 'failed' }, value: failed },
        ]),
    )
    this.#metrics.readings(
      {
        name: 'cachesvc_parent_failing',
        help: '1 while a parent proxy fails, so that others are asked before it.',
        labels: ['parent'],
      },
      () =>
        parents().map(({ name: parent, because }) => ({
          labels: { parent },
          value: Number(because !== undefined),
        })),
    )
  }

  /** Adds the figures of the origins that have confirmed nothing for ten minutes. The one for the longest time is first. */
  readUnconfirmed(origins: () => readonly UnconfirmedOrigin[]): void {
    this.#metrics.readings(
      {
        name: 'cachesvc_origin_unconfirmed_seconds',
        help: 'For how long an origin has confirmed nothing while clients asked, from ten minutes on, and the last reason.',
        labels: ['origin', 'because'],
      },
      () =>
        origins()
          .slice(0, mostOrigins)
          .map(({ origin, because, lasts }) => ({
            labels: { origin, because },
            value: Math.round(lasts / 1000),
          })),
    )
  }

  #counter<L extends string>(name: string, help: string, labels: LabelNames<L>) {
    return this.#metrics.counter<L>({ name: `cachesvc_${name}_total`, help, labels })
  }

  exchange({ response, sent, complete, duration }: Exchange): void {
    const named = response.facts?.['outcome']
    const outcome = typeof named === 'string' && outcomes.has(named) ? named : 'operations'
    this.#requests.add({ outcome })
    this.#sent.add({ outcome }, sent)
    this.#duration.observe({ outcome }, duration / 1000)
    const end = response.facts?.['because']
    const origin = response.facts?.['origin']
    if (typeof origin === 'string') this.#ofArchive(origin, outcome, sent)
    if (outcome === 'intercept' && typeof end === 'string') this.#ends.add({ end })
    if (!complete) this.count('broken')
    if (outcome === 'failed' && isGone(response.status)) this.count('absent')
  }

  /** Counts a request by its archive. A host gets its own figures when its first file is served, so that invented names get none. */
  #ofArchive(origin: string, outcome: string, sent: number): void {
    const served = outcome === 'hit' || outcome === 'miss'
    if (!served && outcome !== 'failed') return
    if (served && this.#archives.size < mostArchives) this.#archives.add(origin)
    const archive = this.#archives.has(origin) ? origin : otherArchives
    this.#archiveRequests.add({ archive, outcome })
    this.#archiveSent.add({ archive, outcome }, sent)
  }

  count(event: keyof typeof events): void {
    this.#events.get(event)?.add({})
  }

  removedUnreferenced(bytes: number): void {
    this.#unreferenced.add({})
    this.#unreferencedBytes.add({}, bytes)
  }

  text(): string {
    return this.#metrics.text()
  }
}
