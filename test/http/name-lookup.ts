import t from 'tap'
import { ManualClock } from '../../lib/clock.ts'
import { NameLookup } from '../../lib/http/name-lookup.ts'
import { ScriptedDns } from '../fixtures/dns.ts'
import { Gate } from '../fixtures/gate.ts'

t.test('answers are shared, remembered for seconds, and then asked for again', async t => {
  const clock = new ManualClock(0)
  const dns = new ScriptedDns({ a: ['192.0.2.1'] })
  const names = new NameLookup({ clock, lookup: dns.lookup })
  const both = await Promise.all([names.addresses('a'), names.addresses('a')])
  t.strictSame(both, [['192.0.2.1'], ['192.0.2.1']])
  dns.set('a', ['192.0.2.2'])
  clock.advance(9999)
  t.strictSame(await names.addresses('a'), ['192.0.2.1'])
  t.equal(dns.asked('a'), 1)
  clock.advance(1)
  t.strictSame(await names.addresses('a'), ['192.0.2.2'])
})

t.test('a failure is remembered for a moment only', async t => {
  const clock = new ManualClock(0)
  const dns = new ScriptedDns()
  const names = new NameLookup({ clock, lookup: dns.lookup })
  await t.rejects(names.addresses('a'), { code: 'ENOTFOUND' })
  dns.set('a', ['192.0.2.1'])
  await t.rejects(names.addresses('a'), { code: 'ENOTFOUND' })
  clock.advance(1000)
  t.strictSame(await names.addresses('a'), ['192.0.2.1'])
})

t.test('only so many look-ups run at once, so that threads are left for files', async t => {
  const gate = new Gate()
  let running = 0
  let most = 0
  const lookup = async () => {
    running += 1
    most = Math.max(most, running)
    await gate.pass()
    running -= 1
    return ['192.0.2.1']
  }
  const names = new NameLookup({ clock: new ManualClock(0), lookup, atOnce: 2 })
  const all = ['a', 'b', 'c', 'd', 'e'].map(name => names.addresses(name))
  await gate.reached
  gate.open()
  t.equal((await Promise.all(all)).length, 5)
  t.equal(most, 2)
})

t.test('the system is asked for names of this machine', async t => {
  const names = new NameLookup({ clock: new ManualClock(0) })
  t.match(await names.addresses('localhost'), [/^(127\.0\.0\.1|::1)$/])
})
