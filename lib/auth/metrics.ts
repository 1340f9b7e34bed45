/**
 * What the gateway counts, for Prometheus. Labels come from closed sets; no user, path or host is ever one.
 */
import type { Exchange } from '../http/message/message.ts'
import { Metrics, secondsBuckets } from '../metrics.ts'
import type { SamlReadings } from './saml/service.ts'

export interface MetricSources {
  readonly connections: () => number
  readonly backend: () => { readonly busy: number; readonly free: number; readonly waiting: number }
  readonly tunnels: () => number
  readonly saml: () => SamlReadings
}

const OUTCOMES = [
  ...['forwarded', 'tunnelled', 'login', 'unauthenticated', 'failed', 'saml', 'key-set'],
] as const

export class AuthMetrics {
  readonly #metrics = new Metrics({ process: true })
  readonly #requests
  readonly #failures
  readonly #duration
  readonly #logins
  readonly #saml: () => SamlReadings

  constructor(sources: MetricSources) {
    const metrics = this.#metrics
    this.#saml = sources.saml
    this.#requests = metrics.counter({
      name: 'authproxy_requests_total',
      help: 'Requests by what became of them and the class of their status.',
      labels: ['outcome', 'status'],
    })
    this.#failures = metrics.counter({
      name: 'authproxy_failures_total',
      help: 'Failure pages by category.',
      labels: ['category'],
    })
    this.#duration = metrics.histogram({
      name: 'authproxy_request_duration_seconds',
      help: 'From the head of a request to the end of its response.',
      labels: ['outcome'],
      buckets: secondsBuckets,
    })
    this.#logins = metrics.gauge({
      name: 'authproxy_saml_responses',
      help: 'SAML responses since the start by what became of them.',
      labels: ['outcome'],
    })
    const reading = (name: string, help: string, read: () => number) =>
      metrics.reading({ name: `authproxy_${name}`, help }, read)
    reading('client_connections', 'Open connections of clients.', sources.connections)
    reading('websockets', 'WebSockets under way.', sources.tunnels)
    reading(
      'backend_connections_busy',
      'Connections to the backend in use.',
      () => sources.backend().busy,
    )
    reading(
      'backend_connections_free',
      'Connections to the backend kept.',
      () => sources.backend().free,
    )
    reading(
      'backend_requests_waiting',
      'Requests that wait for a connection.',
      () => sources.backend().waiting,
    )
    const moment = (name: string, help: string, of: (from: SamlReadings) => number | undefined) =>
      reading(
        `${name}_seconds`,
        `${help} Seconds since the epoch; 0 when unknown.`,
        () => (of(sources.saml()) ?? 0) / 1000,
      )
    moment(
      'idp_metadata_fetched',
      'When the metadata of the IdP was last fetched.',
      of => of.metadataFetched,
    )
    moment(
      'idp_metadata_valid_until',
      'Until when that metadata is valid.',
      of => of.metadataValidUntil,
    )
    moment(
      'idp_certificate_ends',
      'When the newest signing certificate of the IdP ends.',
      of => of.idpCertificateEnds,
    )
    moment('own_certificate_ends', 'When our own certificate ends.', of => of.ownCertificateEnds)
  }

  get contentType(): string {
    return this.#metrics.contentType
  }

  exchange({ response, duration }: Exchange): void {
    const { facts = {}, status } = response
    const outcome = OUTCOMES.find(known => known === facts['outcome']) ?? 'other'
    this.#requests.add({ outcome, status: `${Math.floor(status / 100)}xx` })
    // How long a WebSocket lasts says nothing about the service.
    if (outcome !== 'tunnelled') this.#duration.observe({ outcome }, duration / 1000)
    const { category } = facts
    if (category === 'SAML-ERROR' || category === 'PROXY-ERROR') this.#failures.add({ category })
  }

  text(): Promise<string> {
    for (const [outcome, count] of Object.entries(this.#saml().outcomes)) {
      this.#logins.set({ outcome }, count)
    }
    return this.#metrics.text()
  }
}
