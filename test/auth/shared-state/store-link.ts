/**
 * The link to the shared store under every fault: no request waits for it longer than 50 ms, no answer reaches another question, and it comes
 * back by itself.
 */
import t, { type Test } from 'tap'
import { type Connection, connect, dialStore } from '../../../lib/auth/shared-state/connection.ts'
import { LONGEST, PATIENCE, StoreLink } from '../../../lib/auth/shared-state/store-link.ts'
import { createMemoryLog } from '../../fixtures/log/memory-log.ts'
import { error, resp, ScriptedStore } from '../../fixtures/state/scripted-store.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const plain = {
  ...{ database: 0, user: undefined, password: undefined, tls: false, authorities: undefined },
}

/** Settles when a condition holds; lets the sockets work meanwhile. */
async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise(resolve => setImmediate(resolve))
}

/** A link over a clock that the test advances. Every wait of the link is of this clock, so a test can see that one ends in time. */
async function linked(t: Test, store: ScriptedStore) {
  const clock = new ManualClock(0)
  const log = createMemoryLog()
  const arrivals: Connection[] = []
  const address = { ...plain, host: '127.0.0.1', port: store.port }
  const link = new StoreLink({
    dial: within => connect(address, { clock, within }),
    probe: 'probe',
    ...{ clock, log },
  })
  const opened = link.open(async connection => void arrivals.push(connection))
  t.teardown(() => link.close())
  return { clock, log, link, arrivals, opened }
}

t.test('a store that answers is here', async t => {
  const store = await ScriptedStore.listen(t)
  const { link, opened, log } = await linked(t, store)
  await opened
  t.equal(link.state, 'here')
  t.equal(link.problem, undefined)
  store.answers.set('GET', () => resp('value'))
  t.same(await link.ask(['GET', 'a']), { ok: true, answer: 'value' })
  t.equal(link.unanswered, 0)
  t.match(log.lines, [{ message: 'connected to the shared store' }])
})

t.test('a store that hangs: the question is answered in 50 ms, the next one at once', async t => {
  const store = await ScriptedStore.listen(t)
  const { link, opened, clock, log } = await linked(t, store)
  await opened
  store.answers.set('EVAL', () => 'hang')
  const asked = link.ask(['EVAL', 'x', '0'])
  await until(() => store.commands.some(([name]) => name === 'EVAL'))
  clock.advance(PATIENCE - 1)
  t.equal(link.state, 'here')
  clock.advance(1)
  t.same(await asked, { ok: false, because: 'away' })
  t.equal(link.state, 'slow')
  const before = store.commands.length
  t.same(await link.ask(['EVAL', 'x', '0']), { ok: false, because: 'away' }, 'without any time')
  t.equal(store.commands.length, before, 'and without a question')
  t.equal(link.unanswered, 2)
  clock.advance(LONGEST)
  await until(() => link.state === 'away')
  t.match(link.problem, /EVAL has had no answer for 2000 ms|PEXPIRE has had no answer/)
  t.equal(log.lines.filter(({ level }) => level === 'warn').length, 1, 'told once')
  store.answers.set('EVAL', () => ':1\r\n')
  clock.advance(100)
  await until(() => link.state === 'here')
  t.match(log.lines.at(-1), { message: 'the shared store is here again' })
})

t.test('a store that is late by less than 2 s is used again without a new connection', async t => {
  const store = await ScriptedStore.listen(t)
  const { link, opened, clock, log, arrivals } = await linked(t, store)
  await opened
  store.answers.set('EVAL', () => 'hang')
  const asked = link.ask(['EVAL', 'x', '0'])
  await until(() => store.commands.some(([name]) => name === 'EVAL'))
  clock.advance(PATIENCE)
  await asked
  t.equal(link.state, 'slow')
  for (const socket of store.sockets) socket.write(':1\r\n')
  await until(() => link.state === 'here')
  t.equal(arrivals.length, 1)
  t.equal(log.lines.length, 1)
})

t.test('what a node says that is of no use ends the connection, and is said', async t => {
  for (const text of [
    'LOADING Redis is loading the dataset in memory',
    'READONLY You can not write against a read only replica.',
    'MOVED 3999 127.0.0.1:6381',
    'MISCONF Redis is configured to save RDB snapshots, but it is not able to persist on disk.',
    'OOM command not allowed when used memory > maxmemory',
    'CLUSTERDOWN Hash slot not served',
  ]) {
    const store = await ScriptedStore.listen(t)
    store.answers.set('SET', () => error(text))
    const { link, opened, clock } = await linked(t, store)
    await opened
    t.equal(link.state, 'away', text)
    t.match(link.problem, text.split(' ', 1)[0] ?? '')
    store.answers.set('SET', () => '+OK\r\n')
    clock.advance(100)
    await until(() => link.state === 'here')
    store.answers.set('EVAL', () => error(text))
    t.same(await link.ask(['EVAL', 'x', '0']), { ok: false, because: 'refused' })
    await until(() => link.state === 'away')
  }
})

t.test('a command that the access list refuses is refused alone, and said once', async t => {
  const store = await ScriptedStore.listen(t)
  store.answers.set('LPUSH', () =>
    error("NOPERM this user has no permissions to run the 'lpush' command"),
  )
  const { link, opened, log } = await linked(t, store)
  await opened
  for (const _ of [1, 2, 3]) {
    t.same(await link.askLater(['LPUSH', 'a', 'b']), { ok: false, because: 'refused' })
  }
  t.equal(link.state, 'here')
  t.equal(log.lines.filter(({ level }) => level === 'warn').length, 1)
})

t.test('90: answers that are none, too many, or endless end the connection', async t => {
  for (const [what, answer] of [
    ['no RESP', 'HTTP/1.1 400 Bad Request\r\n\r\n'],
    ['more answers than questions', ':1\r\n:1\r\n:1\r\n'],
    ['9 MiB in one answer', resp('x'.repeat(9 * 1024 * 1024))],
    ['a list of 2 million elements', '*2000000\r\n'],
    ['the same in small lists', '*90000\r\n'.repeat(8)],
    ['9 MiB without an end', `$99999999\r\n${'x'.repeat(9 * 1024 * 1024)}`],
  ] as const) {
    const store = await ScriptedStore.listen(t)
    const { link, opened } = await linked(t, store)
    await opened
    store.answers.set('GET', () => answer)
    await link.askLater(['GET', 'a'])
    await until(() => link.state === 'away')
    t.ok(link.problem, `${what}: ${link.problem}`)
  }
})

t.test(
  'a store that refuses connections, closes them, or never answers is asked again and again',
  async t => {
    const store = await ScriptedStore.listen(t)
    store.refusing = true
    const { link, opened, clock, log } = await linked(t, store)
    await opened
    t.equal(link.state, 'away')
    t.same(await link.ask(['GET', 'a']), { ok: false, because: 'away' })
    const later = (condition: () => boolean) =>
      until(() => {
        clock.advance(10)
        return condition()
      })
    await later(() => store.refused >= 4)
    store.refusing = false
    store.answers.set('SET', () => 'hang')
    await later(() => store.commands.some(([name]) => name === 'SET'))
    clock.advance(LONGEST)
    store.answers.set('SET', () => '+OK\r\n')
    while (link.state !== 'here') {
      clock.advance(500)
      await new Promise(resolve => setImmediate(resolve))
    }
    t.equal(
      log.lines.filter(({ level }) => level === 'warn').length,
      1,
      'one warning for all attempts',
    )
  },
)

t.test('a password is sent and never told', async t => {
  const store = await ScriptedStore.listen(t)
  store.answers.set('AUTH', () =>
    error('WRONGPASS invalid username-password pair or user is disabled.'),
  )
  const clock = new ManualClock(0)
  const address = {
    ...plain,
    user: 'app',
    password: 'geheim-geheim',
    host: '127.0.0.1',
    port: store.port,
  }
  const failed: unknown = await connect(address, { clock, within: 2000 }).catch(
    (caught: unknown) => caught,
  )
  t.match(failed, /WRONGPASS/)
  t.notMatch(String(failed instanceof Error ? failed.stack : failed), /geheim/)
  t.same(store.commands[0], ['AUTH', 'app', 'geheim-geheim'])
  const echo = "ERR unknown command 'AUTH', with args beginning with: 'app' 'geheim-geheim'"
  store.answers.set('AUTH', () => error(echo))
  const again: unknown = await connect(address, { clock, within: 2000 }).catch(
    (caught: unknown) => caught,
  )
  t.match(String(again), /the answer repeats the password/)
  t.notMatch(`${again instanceof Error ? again.stack : ''}`, /geheim/)
})

t.test('sentinels: the first that knows the node is believed, others are passed over', async t => {
  const [node, lost, knowing] = await Promise.all([1, 2, 3].map(() => ScriptedStore.listen(t)))
  if (node === undefined || lost === undefined || knowing === undefined) return
  lost.answers.set('SENTINEL', () => '*-1\r\n')
  knowing.answers.set('SENTINEL', () => resp(['127.0.0.1', String(node.port)]))
  const config = {
    ...{ tls: false, host: 'mymaster', port: 6379, database: 2, user: undefined },
    ...{ password: undefined, sentinelPassword: undefined, certificates: undefined },
    ...({ onOutage: 'continue', instance: 'app' } as const),
    sentinels: [lost, knowing].map(({ port }) => ({ host: '127.0.0.1', port })),
  }
  const clock = new ManualClock(0)
  const connection = await dialStore(config, undefined, { clock, within: 2000 })
  t.teardown(() => connection.destroy(new Error('the test ends')))
  t.same(knowing.commands, [['SENTINEL', 'GET-MASTER-ADDR-BY-NAME', 'mymaster']])
  t.same(node.commands, [['SELECT', '2']])
})
