import t from 'tap'
import { NameLookup } from '../../../../lib/http/client/dialling/name-lookup.ts'
import { noSuchName, ScriptedDns } from '../../../fixtures/http/dns.ts'
import { Gate } from '../../../fixtures/time/gate.ts'
import { ManualClock } from '../../../fixtures/time/manual-clock.ts'

t.test('answers are shared, remembered for seconds, and then asked for again', async t => {
  const clock = new ManualClock(0)
  const dns = new ScriptedDns({ a: ['192.0.2.1'] })
  const names = new NameLookup(clock, dns.lookup)
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
  const names = new NameLookup(clock, dns.lookup)
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
  const names = new NameLookup(new ManualClock(0), lookup)
  const all = ['a', 'b', 'c', 'd', 'e'].map(name => names.addresses(name))
  await gate.reached
  gate.open()
  t.equal((await Promise.all(all)).length, 5)
  t.equal(most, 2)
})

t.test('a name in use does not wait behind names nobody answers for', async t => {
  const clock = new ManualClock(0)
  const dead = new Gate()
  const dns = new ScriptedDns({ archive: ['192.0.2.1'] })
  const lookup = async (name: string) => {
    if (name.startsWith('slow')) await dead.pass()
    return dns.lookup(name)
  }
  const names = new NameLookup(clock, lookup)
  t.strictSame(await names.addresses('archive'), ['192.0.2.1'])
  clock.advance(10_000)
  const slow = Array.from({ length: 1002 }, (_, i) => names.addresses(`slow${i}`).catch(() => []))
  const waits = names.addresses('archive')
  t.strictSame(await waits, ['192.0.2.1'], 'the line is full')
  dead.open()
  await Promise.all(slow)

  const second = new NameLookup(clock, name => late.get(name) ?? dns.lookup(name))
  const late = new Map<string, Promise<never>>()
  await second.addresses('archive')
  clock.advance(10_000)
  late.set('archive', new Promise(() => undefined))
  const old = second.addresses('archive')
  clock.advance(1000)
  t.strictSame(await old, ['192.0.2.1'], 'the place is taken')
})

t.test('an old answer serves for an hour, and no longer than the name exists', async t => {
  const clock = new ManualClock(0)
  const dns = new ScriptedDns({ a: ['192.0.2.1'], b: ['192.0.2.1'] })
  let dead = false
  const lookup = (name: string) => (dead ? new Promise<never>(() => undefined) : dns.lookup(name))
  const names = new NameLookup(clock, lookup)
  await Promise.all([names.addresses('a'), names.addresses('b')])
  clock.advance(10_000)
  dns.set('b', noSuchName('b'))
  await t.rejects(names.addresses('b'), { code: 'ENOTFOUND' })
  dead = true
  clock.advance(3_600_001)
  let answered = false
  void names.addresses('a').then(() => {
    answered = true
  })
  clock.advance(5000)
  await Promise.resolve()
  t.notOk(answered)
})

t.test('the system is asked for names of this machine', async t => {
  const names = new NameLookup(new ManualClock(0))
  t.match(await names.addresses('localhost'), [/^(127\.0\.0\.1|::1)$/])
})
