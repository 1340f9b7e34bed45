/**
 * Counts and measures requests and logins for Prometheus. Labels come from closed sets, never from users, paths or hosts.
 */
import type { Exchange } from '../http/message/message.ts'
import { Metrics } from '../metrics.ts'
import type { SamlReadings } from './saml/service.ts'

interface MetricSources {
  readonly connections: () => number
  readonly backend: () => {
    readonly busy: number
    readonly free: number
    readonly lasting: number
    readonly waiting: number
  }
  readonly tunnels: () => number
  readonly saml: () => SamlReadings
}

type Reading = readonly [name: string, help: string, read: (from: MetricSources) => number]

const moment = (
  name: string,
  sentence: string,
  of: Exclude<keyof SamlReadings, 'outcomes'>,
): Reading => [
  `${name}_seconds`,
  `${sentence} Seconds since the epoch; 0 when unknown.`,
  from => (from.saml()[of] ?? 0) / 1000,
]

const READINGS: readonly Reading[] = [
  ['client_connections', 'Open connections of clients.', of => of.connections()],
  ['websockets', 'WebSockets under way.', of => of.tunnels()],
  ['backend_connections_busy', 'Connections to the backend in use.', of => of.backend().busy],
  [
    'backend_connections_lasting',
    'Of the busy ones those of requests that last.',
    of => of.backend().lasting,
  ],
  ['backend_connections_free', 'Connections to the backend kept.', of => of.backend().free],
  ['backend_requests_waiting', 'Requests that wait for a connection.', of => of.backend().waiting],
  moment('idp_metadata_fetched', 'When the IdP metadata was last fetched.', 'metadataFetched'),
  moment('idp_metadata_valid_until', 'Until when that metadata is valid.', 'metadataValidUntil'),
  moment(
    'idp_certificate_ends',
    'When the last certificate of the IdP ends.',
    'idpCertificateEnds',
  ),
  moment('own_certificate_ends', 'When our own certificate ends.', 'ownCertificateEnds'),
]

/** What becomes of requests; docs/life-of-a-request.md explains each. */
export const OUTCOMES: ReadonlySet<unknown> = new Set([
  ...['forwarded', 'tunnelled', 'login', 'unauthenticated', 'saml', 'key-set', 'logo', 'probe'],
  ...['refused', 'failed', 'client-gone'],
])

export class AuthMetrics {
  readonly #metrics = new Metrics()
  readonly #saml: () => SamlReadings
  readonly #requests = this.#metrics.counter({
    name: 'authproxy_requests_total',
    help: 'Requests by what became of them and the class of their status.',
    labels: ['outcome', 'status'],
  })
  readonly #failures = this.#metrics.counter({
    name: 'authproxy_failures_total',
    help: 'Failure pages by category.',
    labels: ['category'],
  })
  readonly #duration = this.#metrics.histogram({
    name: 'authproxy_request_duration_seconds',
    help: 'From the head of a request to the end of its response.',
    labels: ['outcome'],
  })
  readonly #logins = this.#metrics.counter({
    name: 'authproxy_saml_responses_total',
    help: 'SAML responses by what became of them.',
    labels: ['outcome'],
  })

  /** What has been added to the counter of SAML responses so far. */
  readonly #added = new Map<string, number>()

  constructor(sources: MetricSources) {
    this.#saml = sources.saml
    for (const [name, help, read] of READINGS) {
      this.#metrics.reading({ name: `authproxy_${name}`, help }, () => read(sources))
    }
  }

  get contentType(): string {
    return this.#metrics.contentType
  }

  exchange({ response, duration }: Exchange): void {
    const { facts = {}, status } = response
    const told = facts['outcome']
    const outcome = OUTCOMES.has(told) ? String(told) : 'other'
    this.#requests.add({ outcome, status: `${Math.floor(status / 100)}xx` })
    // How long a WebSocket lasts says nothing about the service.
    if (outcome !== 'tunnelled') this.#duration.observe({ outcome }, duration / 1000)
    const { category } = facts
    if (category === 'SAML-ERROR' || category === 'PROXY-ERROR') this.#failures.add({ category })
  }

  text(): Promise<string> {
    for (const [outcome, count] of Object.entries(this.#saml().outcomes)) {
      this.#logins.add({ outcome }, count - (this.#added.get(outcome) ?? 0))
      this.#added.set(outcome, count)
    }
    return this.#metrics.text()
  }
}
