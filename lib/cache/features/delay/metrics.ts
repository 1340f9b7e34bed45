/**
 * The metric of delays.
 */
import type { Metrics } from '../../../metrics.ts'

/** Adds the gauge. */
export function delayMetrics(metrics: Metrics, waiting: () => number): void {
  metrics.reading(
    {
      name: 'cachesvc_waiting_generations',
      help: 'Generations of suites that a delay or a hold of their archive keeps from clients.',
    },
    waiting,
  )
}
