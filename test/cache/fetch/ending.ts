import t from 'tap'
import { watchAbandoned } from '../../../lib/cache/fetch/transfer.ts'
import { TestCache } from '../../fixtures/cache/cache.ts'
import { reply, ScriptedOrigin } from '../../fixtures/http/scripted-origin.ts'
import { Gate } from '../../fixtures/time/gate.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

interface Progress {
  readonly readers: number
  readonly length: number | undefined
  readonly stored?: boolean
  /** Bytes by the end of each half-minute. */
  readonly sizes: readonly number[]
}

/** The half-minute at whose end it was given up; undefined when it was not. */
function givenUpAfter({ sizes, stored = true, ...download }: Progress): number | undefined {
  const clock = new ManualClock(0)
  const now = { ...download, stored, size: 0 }
  let ended: number | undefined
  let passed = 0
  const stop = watchAbandoned(now, clock, () => {
    ended = passed
  })
  for (const size of sizes) {
    passed += 1
    now.size = size
    clock.advance(30_000)
  }
  stop()
  return ended
}

t.test('a download nobody reads is given up when its end is too far off', async t => {
  const cases: ReadonlyArray<readonly [string, Progress, number | undefined]> = [
    ['somebody reads', { readers: 1, length: undefined, sizes: [1, 2, 3] }, undefined],
    ['no end is known', { readers: 0, length: undefined, sizes: [1e6, 2e6, 3e6] }, 2],
    ['it comes well', { readers: 0, length: 100e6, sizes: [5e6, 10e6, 15e6] }, undefined],
    ['it drips', { readers: 0, length: 100e6, sizes: [30, 60, 90] }, 2],
    ['it would fill every disk', { readers: 0, length: 1e15, sizes: [1e9, 2e9, 3e9] }, 2],
    ['it is not stored', { readers: 0, length: 10, stored: false, sizes: [1, 9, 9] }, 2],
    ['it slows down', { readers: 0, length: 100e6, sizes: [5e6, 10e6, 10e6 + 1] }, 3],
  ]
  for (const [words, progress, wanted] of cases) t.equal(givenUpAfter(progress), wanted, words)
})

t.test('an origin that never ends is left once its client has gone', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const clock = new ManualClock(Date.UTC(2025, 0, 1))
  const settings = { timeouts: { content: '10m' } }
  const cache = await TestCache.start(t, { origins: [origin], clock, settings })
  const gate = new Gate()
  t.teardown(() => gate.open())
  const endless = { content: 'for ever', framing: 'chunked' as const, pauses: [{ at: 3, gate }] }
  for (const [path, fields] of [
    ['/stored', {}],
    ['/passed', { 'Cache-Control': 'no-store' }],
  ] as const) {
    origin.at(path, reply({ ...endless, fields }))
    const client = await cache.client()
    await client.request('GET', origin.url(path))
    await client.head()
    clock.advance(100_000)
    t.equal(await cache.metric('cachesvc_fetches_under_way'), 1, 'somebody waits')
    await client.reset()
    await cache.quiet()
    await origin.seen(path)[0]?.gone
    t.strictSame(await cache.stored(), [])
  }
})
