/**
 * Counts and measures requests and logins for Prometheus. Labels come from closed sets, never from users, paths or hosts.
 */
import type { Exchange } from '../http/message/message.ts'
import { type MetricFacts, Metrics, measureProcess } from '../metrics.ts'
import { checkOutcomes, type OutcomeFacts, outcomes } from './access/outcome.ts'

/** The figures that are read when a client asks for the metrics, with their help texts. */
const gauges = {
  client_connections: 'Open connections of clients.',
  websockets: 'WebSockets under way.',
  backend_connections_busy: 'Connections to the backend in use.',
  backend_connections_lasting: 'Of the busy ones those of requests that last.',
  backend_connections_free: 'Connections to the backend kept.',
  backend_connections_bound:
    'Connections that Windows authentication has bound to one client, unused at present.',
  backend_requests_waiting: 'Requests that wait for a connection.',
  idp_metadata_fetched_seconds: moment('When the IdP metadata was last fetched.'),
  idp_metadata_valid_until_seconds: moment('Until when that metadata is valid.'),
  idp_certificate_ends_seconds: moment('When the last certificate of the IdP ends.'),
  own_certificate_ends_seconds: moment('When our own certificate ends.'),
  shared_store_here:
    'Whether the store under state answers: 1, else 0; also 0 where none is configured.',
  shared_store_waiting: 'Ends of sessions that have not been passed on to the store.',
  shared_store_unanswered_total:
    'Questions of requests that the shared store did not answer in time, so that this instance decided alone: an answer to a login could be used at two instances.',
  shared_store_evicts:
    'Whether the shared store throws keys away when its memory is full (1), so that an answer to a login could be used twice.',
  group_names_outdated:
    'Whether the file under identity.rename has changed and could not be taken: 1, else 0.',
} as const

function moment(sentence: string): string {
  return `${sentence} Seconds since the epoch; 0 when unknown.`
}

/** The function that reads each figure. */
export type Gauges = Readonly<Record<keyof typeof gauges, () => number>>

const known: ReadonlySet<unknown> = new Set(outcomes)

export class AuthMetrics extends Metrics {
  readonly #requests = this.counter({
    name: 'authproxy_requests_total',
    help: 'Requests by outcome and class of status.',
    labels: ['outcome', 'status'],
  })
  readonly #failures = this.counter({
    name: 'authproxy_failures_total',
    help: 'Failure pages by category.',
    labels: ['category'],
  })
  readonly #refusals = this.counter({
    name: 'authproxy_access_refusals_total',
    help: 'Requests that the rules of access refused, by the number of the rule; 0 when no rule matched.',
    labels: ['rule'],
  })
  readonly #watched = this.counter({
    name: 'authproxy_access_watched_total',
    help: 'Requests to which a watched rule of access would have done this, by the number of the rule; 0 when none was for them.',
    labels: ['rule', 'would'],
  })
  readonly #checks = this.counter({
    name: 'authproxy_checks_total',
    help: 'Checks of the edge under forwardAuth by outcome.',
    labels: ['edge', 'verdict'],
  })
  readonly #duration = this.histogram({
    name: 'authproxy_request_duration_seconds',
    help: 'From the head of a request to the end of its response.',
    labels: ['outcome'],
  })
  readonly #logins = this.counter({
    name: 'authproxy_saml_responses_total',
    help: 'SAML responses by outcome.',
    labels: ['outcome'],
  })

  static list(): readonly MetricFacts[] {
    const names = Object.keys(gauges) as Array<keyof Gauges>
    const metrics = new AuthMetrics()
    metrics.read(Object.fromEntries(names.map(name => [name, () => 0])) as Gauges)
    return metrics.list()
  }

  /** Has these figures read whenever the metrics are asked for, and those of the process. To be called once, when their parts are there. */
  read(reads: Gauges): void {
    for (const [name, help] of Object.entries(gauges)) {
      const add = name.endsWith('_total') ? this.total : this.reading
      add.call(this, { name: `authproxy_${name}`, help }, reads[name as keyof Gauges])
    }
    measureProcess(this)
  }

  exchange({ response, duration }: Exchange): void {
    const { facts = {}, status } = response
    const told = facts['outcome']
    const outcome = known.has(told) ? String(told) : 'other'
    this.#requests.add({ outcome, status: `${Math.floor(status / 100)}xx` })
    // How long a WebSocket lasts says nothing about the service.
    if (outcome !== 'tunnelled' && outcome !== 'cut')
      this.#duration.observe({ outcome }, duration / 1000)
    const { category } = facts
    this.#judged(facts)
    if (category === 'SAML-ERROR' || category === 'PROXY-ERROR') this.#failures.add({ category })
  }

  check(edge: string, { response: { facts = {} } }: Pick<Exchange, 'response'>): void {
    const { outcome } = facts
    const verdict = checkOutcomes.find(each => each === outcome) ?? 'failed'
    this.#checks.add({ edge, verdict })
    this.#judged(facts)
  }

  #judged({ because, rule, would }: OutcomeFacts): void {
    if (because === 'access') this.#refusals.add({ rule: String(rule ?? 0) })
    if (would !== undefined) this.#watched.add({ rule: String(rule ?? 0), would })
  }

  /** Counts how a login or a logout ended. The codes are ours, a closed set. */
  login(outcome: string): void {
    this.#logins.add({ outcome })
  }
}
