/**
 * A store that throws keys away when its memory is full: the running service says so.
 */
import t from 'tap'
import { EvictionWatch, memoryPolicy } from '../../../lib/auth/shared-state/eviction.ts'
import type { StoreAnswer } from '../../../lib/auth/shared-state/store-link.ts'
import { createMemoryLog } from '../../fixtures/log/memory-log.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

function info(policy: string, { evicted = 0, memory = 1000 } = {}): StoreAnswer {
  const lines = [`maxmemory:${memory}`, `maxmemory_policy:${policy}`, `evicted_keys:${evicted}`]
  return { ok: true, answer: `# Memory\r\n${lines.join('\r\n')}\r\n` }
}

t.test('what INFO says of memory', t => {
  const policyOf = (answer: StoreAnswer) => memoryPolicy(String(answer.ok && answer.answer))
  t.match(policyOf(info('noeviction')), { evicts: false, evicted: 0 })
  t.match(policyOf(info('allkeys-lru', { evicted: 7 })), { evicts: true, evicted: 7 })
  t.match(policyOf(info('volatile-ttl')), { evicts: true }, 'all our keys lapse')
  t.match(policyOf(info('allkeys-lru', { memory: 0 })), { evicts: false }, 'without a limit')
  t.equal(memoryPolicy('redis_version:7'), undefined)
  t.end()
})

t.test('89: a store that evicts: log and status say so, and when it does not any more', async t => {
  const clock = new ManualClock(0)
  const log = createMemoryLog()
  let answer: StoreAnswer = info('noeviction')
  const link = {
    askLater: async () => answer,
  }
  const watch = new EvictionWatch(link, { clock, log })
  t.teardown(() => watch.close())
  const lines = () => log.lines.map(({ level, message }) => `${level} ${message}`)
  const later = async () => {
    clock.advance(60_000)
    for (let turn = 0; turn < 5; turn += 1) await Promise.resolve()
  }
  await watch.look()
  t.equal(watch.evicts, false)
  t.equal(watch.remark(), undefined)
  answer = info('allkeys-lru')
  await later()
  t.equal(watch.evicts, true)
  t.match(
    watch.remark(),
    /maxmemory-policy allkeys-lru\): an answer to a login could be used twice/,
  )
  await later()
  t.equal(lines().length, 1, 'not again while nothing changes')
  t.match(lines()[0], /^warn .*throws keys away/)
  answer = info('allkeys-lru', { evicted: 12 })
  await later()
  t.equal(lines().length, 2, 'again when keys are gone')
  t.match(watch.remark(), /has thrown away 12/)
  answer = { ok: false, because: 'away' }
  await later()
  t.equal(watch.evicts, true, 'what is not known stays')
  answer = info('noeviction')
  await later()
  t.match(lines().at(-1), /^info .*no longer evicts keys/)
  t.equal(watch.remark(), undefined)
  answer = { ok: false, because: 'refused' }
  await later()
  t.equal(watch.remark(), undefined)
  answer = info('allkeys-lru')
  await later()
  t.equal(watch.evicts, true, 'a store that refused INFO is asked again')
})
