/**
 * The three lines at the end of a job: its requests, the bytes that the cache saved, and what was slow.
 */
import type { Milliseconds } from '../../../async/clock.ts'
import { countOf, size } from '../../../figures.ts'
import type { Counters } from '../../stats/statistics.ts'
import type { JobRequest } from './own-proxy.ts'

/** A request that takes longer is slow. */
const slow: Milliseconds = 1000

const outcomes = {
  hit: 'from the cache',
  miss: 'from origins',
  tunnel: 'tunnels',
  refused: 'refused',
  failed: 'failed',
}

/** The lines. `before` and `after` are the counts of the store at the beginning and at the end. */
export function jobSummary(
  requests: readonly JobRequest[],
  before: Counters,
  after: Counters,
): readonly string[] {
  const up = after.traffic_up - before.traffic_up
  const down = after.traffic_down - before.traffic_down
  const bytes = `${size(up)} given, ${size(down)} fetched: ${size(Math.max(0, up - down))} saved`
  return [requestsLine(requests), bytes, slowLine(requests)]
}

function requestsLine(requests: readonly JobRequest[]): string {
  if (requests.length === 0) return 'no request came: see that the command uses http_proxy'
  const words = Object.entries(outcomes).flatMap(([outcome, what]) => {
    const { length } = requests.filter(request => request.outcome === outcome)
    return length > 0 || outcome === 'hit' ? [`${length} ${what}`] : []
  })
  return `${countOf(requests.length, 'request')}: ${words.join(', ')}`
}

function slowLine(requests: readonly JobRequest[]): string {
  const [slowest, ...others] = requests
    .filter(request => request.duration >= slow)
    .sort((a, b) => b.duration - a.duration)
  if (slowest === undefined) return 'no request took longer than a second'
  const more = others.length === 0 ? '' : `, and ${countOf(others.length, 'other')} above a second`
  return `slowest: ${(slowest.duration / 1000).toFixed(1)} s for ${slowest.target} (${slowest.because})${more}`
}
