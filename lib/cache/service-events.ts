/**
 * What follows from what the service does: the statistics of the days, the metrics, the activity on the pages, and the log.
 */
import type { Clock, Milliseconds } from '../async/clock.ts'
import type { Failure } from '../errors.ts'
import type { Exchange } from '../http/message/message.ts'
import { accessFacts } from '../http/server/exchanges.ts'
import type { HttpServerOptions } from '../http/server/options.ts'
import type { Log, LogFacts } from '../log/log.ts'
import { recent } from '../recent.ts'
import type { RefreshResult } from './ahead/refresh.ts'
import type { CacheMetrics } from './operations/metrics.ts'
import type { RulesInForce } from './rules-in-force.ts'
import type { Activity } from './stats/activity.ts'
import type { Statistics } from './stats/statistics.ts'

interface CountingParts {
  readonly log: Log
  readonly settings: RulesInForce
  readonly statistics: Statistics
  readonly metrics: CacheMetrics
  readonly activity: Activity
}

/** What the parts that fetch tell. */
export function fetchEvents({ statistics, metrics }: CountingParts) {
  return {
    onFetched: (bytes: number): void => {
      statistics.fetched(bytes)
      metrics.fetched(bytes)
    },
    onFailover: (): void => metrics.count('failover'),
    onImpostor: (): void => metrics.count('impostor'),
    onNotStored: (because: string): void => metrics.notStored(because),
    onWrong: (failure: Failure): void => metrics.wrongContent(failure.code),
    onAhead: (result: 'fetched' | 'failed', bytes: number): void =>
      metrics.fetchedAhead(result, bytes),
    onRefresh: (result: RefreshResult): void => metrics.refreshed(result),
  }
}

/** What the servers tell. */
export function serverEvents({
  log,
  settings,
  statistics,
  metrics,
  activity,
}: CountingParts): Pick<HttpServerOptions, 'onExchange' | 'onMalformed'> {
  return {
    onExchange: (exchange, error) => {
      const outcome = exchange.response.facts?.['outcome']
      if (outcome === 'hit') statistics.hit(exchange.sent)
      else if (outcome === 'miss') statistics.miss({ down: 0, up: exchange.sent })
      else if (outcome === 'refused' || outcome === 'failed') statistics.unanswered(outcome)
      metrics.exchange(exchange)
      if (exchange.request.slowClient) metrics.count('slow')
      if (activity.note(exchange)) statistics.problem()
      if (settings.config.log.access) log.info('request', factsWithoutRepeats(exchange))
      if (error !== undefined) log.warn('response broke off', { id: exchange.request.id, error })
    },
    onMalformed: (client, status, problem) => {
      metrics.count('malformed')
      log.info('malformed request', { client: client.address, status, problem })
    },
  }
}

/** How often the log says of a client that it has too many connections. */
const pause: Milliseconds = 60_000
/** Clients of which it is remembered. */
const mostNoted = 256

/** What follows from a connection more than its client may have: one line a minute of each client. */
export function onTooManyConnections(
  { log, settings, metrics }: CountingParts,
  clock: Clock,
): (client: string) => void {
  const noted = recent<string, Milliseconds>(mostNoted)
  return client => {
    metrics.count('beyond-limit')
    const now = clock.elapsed()
    if (now < (noted.get(client) ?? Number.NEGATIVE_INFINITY) + pause) return
    noted.set(client, now)
    const most = settings.config.limits.perClient.connections
    log.warn('a client has more connections than it may have', { client, most })
  }
}

/** Facts of a request for the log. The key of a file is left out where it is what the client wrote: that is most of the lines. */
function factsWithoutRepeats(exchange: Exchange): LogFacts {
  const facts = accessFacts(exchange)
  if (facts['key'] === facts['target']) facts['key'] = undefined
  return facts
}
