/**
 * The metrics of the store that several nodes share.
 */
import type { Metrics } from '../../../metrics.ts'
import type { SharedState } from './shared-store.ts'

type SharedFigure = readonly [name: string, help: string, read: (state: SharedState) => number]

const sharedGauges: readonly SharedFigure[] = [
  [
    'resting',
    '1 while the shared store is not asked, because it has not answered lately.',
    ({ resting }) => Number(resting !== undefined),
  ],
  [
    'conditional_writes',
    '1 when the shared store obeys conditions of writes, so that of two nodes that write a suite at once one notices the other.',
    ({ conditionalWrites }) => Number(conditionalWrites === 'on'),
  ],
  ['uploads_waiting', 'Files that wait to be uploaded.', ({ uploads }) => uploads.waiting],
]

const sharedCounters: readonly SharedFigure[] = [
  ['received_bytes', 'Bytes of contents read from the shared store.', ({ received }) => received],
  ['sent_bytes', 'Bytes of contents written to the shared store.', ({ sent }) => sent],
  ['uploads', 'Files uploaded.', ({ uploads }) => uploads.done],
  [
    'uploads_dropped',
    'Files not uploaded because too many waited.',
    ({ uploads }) => uploads.dropped,
  ],
  [
    'wrong_content',
    'Contents of the shared store that were not what their digest says, and were removed from it.',
    ({ wrong }) => wrong,
  ],
  ['renewed', 'Objects whose time in the shared store was begun again.', ({ renewed }) => renewed],
]

/** Adds the metrics. */
export function sharedStoreMetrics(metrics: Metrics, shared: () => SharedState | undefined): void {
  const of = (read: (state: SharedState) => number) => () => {
    const state = shared()
    return state === undefined ? 0 : read(state)
  }
  for (const [name, help, read] of sharedGauges) {
    metrics.reading({ name: `cachesvc_shared_store_${name}`, help }, of(read))
  }
  for (const [name, help, read] of sharedCounters) {
    metrics.total({ name: `cachesvc_shared_store_${name}_total`, help }, of(read))
  }
  metrics.readings(
    {
      name: 'cachesvc_shared_store_requests_total',
      help: 'Requests to the shared store by operation and by what came of them: done, absent, precondition, unsupported, denied, full, failed or away.',
      labels: ['operation', 'outcome'],
      type: 'counter',
    },
    () =>
      [...(shared()?.requests ?? [])].flatMap(([operation, outcomes]) =>
        [...outcomes].map(([outcome, value]) => ({ labels: { operation, outcome }, value })),
      ),
  )
}
