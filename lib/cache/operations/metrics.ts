/**
 * What is measured, under its Prometheus names. Counters of requests agree with the statistics; everything else is read when
 * somebody looks.
 */
import type { Exchange } from '../../http/message/message.ts'
import { Metrics } from '../../metrics.ts'
import type { Outcome } from '../rfc9111/outcome.ts'

/** Figures that are read when the metrics are asked for. */
export interface Gauges {
  readonly connections: () => number
  readonly fetches: () => number
  readonly originConnections: () => number
  readonly objects: () => number
  readonly bytes: () => number
  readonly free: () => number
  readonly writable: () => boolean
  readonly distrusting: () => number
  /** When the CA's certificate ends, seconds since the epoch; undefined without a CA. */
  readonly authorityExpiry: number | undefined
  /** The last verification that reached its end. */
  readonly verification: () =>
    | { readonly finished: number; readonly files: number; readonly wrong: number }
    | undefined
}

const outcomes: ReadonlySet<string> = new Set<Outcome>([
  'hit',
  'miss',
  'tunnel',
  'intercept',
  'refused',
  'failed',
  'operations',
])

export class CacheMetrics {
  readonly #metrics = new Metrics({ process: true })
  readonly #requests = this.#metrics.counter<'outcome'>({
    name: 'cachesvc_requests_total',
    help: 'Requests by outcome.',
    labels: ['outcome'],
  })
  readonly #sent = this.#metrics.counter<'outcome'>({
    name: 'cachesvc_sent_bytes_total',
    help: 'Bytes of content sent to clients by outcome.',
    labels: ['outcome'],
  })
  readonly #fetched = this.#metrics.counter({
    name: 'cachesvc_fetched_bytes_total',
    help: 'Bytes of content fetched from origins.',
  })
  readonly #broken = this.#metrics.counter({
    name: 'cachesvc_broken_responses_total',
    help: 'Responses that did not reach their end.',
  })
  readonly #malformed = this.#metrics.counter({
    name: 'cachesvc_malformed_requests_total',
    help: 'Requests refused before they could be understood.',
  })
  readonly #interceptions = this.#metrics.counter<'end'>({
    name: 'cachesvc_interceptions_total',
    help: 'Opened tunnels by what became of them.',
    labels: ['end'],
  })
  readonly #warnings = this.#metrics.counter({
    name: 'cachesvc_repository_verification_warnings_total',
    help: 'Stored files found wrong and removed.',
  })
  readonly #duration = this.#metrics.histogram<'outcome'>({
    name: 'cachesvc_response_seconds',
    help: 'Time from the head of a request to the end of its response.',
    labels: ['outcome'],
  })

  constructor(gauges: Gauges) {
    const reading = (name: string, help: string, read: () => number) =>
      this.#metrics.reading({ name: `cachesvc_${name}`, help }, read)
    reading('client_connections', 'Open client connections.', gauges.connections)
    reading('origin_connections', 'Open connections to origins.', gauges.originConnections)
    reading('fetches_under_way', 'Files being fetched from origins.', gauges.fetches)
    reading('stored_objects', 'Stored targets.', gauges.objects)
    reading('stored_bytes', 'Bytes of stored content, each content once.', gauges.bytes)
    reading('filesystem_free_bytes', 'Free bytes of the file system of the cache.', gauges.free)
    reading(
      'distrusting_clients',
      'Clients remembered as rejecting our certificates, once for each host.',
      gauges.distrusting,
    )
    const { authorityExpiry } = gauges
    if (authorityExpiry !== undefined) {
      const help = 'When the certificate of the CA ends, seconds since the epoch.'
      reading('authority_expiry_timestamp_seconds', help, () => authorityExpiry)
    }
    reading('store_writable', '1 while the store takes new content.', () =>
      gauges.writable() ? 1 : 0,
    )
    const { verification } = gauges
    reading('verification_timestamp_seconds', 'End of the last verification; 0 for none.', () =>
      Math.floor((verification()?.finished ?? 0) / 1000),
    )
    reading(
      'verification_files',
      'Files the last verification looked at.',
      () => verification()?.files ?? 0,
    )
    reading(
      'verification_wrong_files',
      'Files the last verification found wrong.',
      () => verification()?.wrong ?? 0,
    )
  }

  /** Counts an exchange under the outcome its response names. */
  exchange({ response, sent, complete, duration }: Exchange): void {
    const named = response.facts?.['outcome']
    const outcome = typeof named === 'string' && outcomes.has(named) ? named : 'operations'
    this.#requests.add({ outcome })
    this.#sent.add({ outcome }, sent)
    this.#duration.observe({ outcome }, duration / 1000)
    const end = response.facts?.['because']
    if (outcome === 'intercept' && typeof end === 'string') this.#interceptions.add({ end })
    if (!complete) this.#broken.add({})
  }

  fetched(bytes: number): void {
    this.#fetched.add({}, bytes)
  }

  /** A repository-verification warning was given. */
  verificationWarning(): void {
    this.#warnings.add({})
  }

  malformed(): void {
    this.#malformed.add({})
  }

  text(): Promise<string> {
    return this.#metrics.text()
  }
}
