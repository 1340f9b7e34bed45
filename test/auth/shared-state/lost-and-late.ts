/**
 * What must not be lost or grow when the store loses what it had, is behind, refuses for a moment, or when clocks of instances differ.
 */
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type Clock, systemClock } from '../../../lib/async/clock.ts'
import { openUsedIds, UsedAnswers } from '../../../lib/auth/login/used-answers.ts'
import { RevocationList } from '../../../lib/auth/session/revocation.ts'
import type { BrowserLogin } from '../../../lib/auth/session/sessions.ts'
import { storeNames } from '../../../lib/auth/shared-state/names.ts'
import { openSharedState, sharedForms } from '../../../lib/auth/shared-state/shared-state.ts'
import { createMemoryLog } from '../../fixtures/log/memory-log.ts'
import { startStore, storeProgram } from '../../fixtures/state/real-store.ts'
import { error, resp, ScriptedStore } from '../../fixtures/state/scripted-store.ts'
import { until } from '../../fixtures/time/until.ts'

const skip = storeProgram === undefined ? 'needs redis-server or valkey-server' : false
const minute = 60_000
const hour = 60 * minute
const T = '{authproxy:app}:'

async function instance(
  t: Test,
  store: { readonly port: number },
  { name = 'a', clock = systemClock, lifetime = hour } = {},
) {
  const log = createMemoryLog()
  const directory = t.testdir()
  const list = await RevocationList.open({
    ...{ path: join(directory, `${name}.revoked`), clock, log, lifetime: () => lifetime },
  })
  const shared = await openSharedState({
    config: {
      ...{ tls: false, host: '127.0.0.1', port: store.port, database: 0, user: undefined },
      ...{ password: undefined, sentinelPassword: undefined, certificates: undefined },
      ...{ sentinels: [], onOutage: 'continue', instance: 'app' },
    },
    ...{ revocations: list, clock, log },
  })
  const path = join(directory, `${name}.used`)
  const used = new UsedAnswers(await openUsedIds({ path, clock, log }), shared)
  t.teardown(async () => {
    await shared.close()
    await list.close()
    await used.close()
  })
  const { revocations } = shared
  if (revocations === undefined) throw new Error('there is a list')
  const use = (id: string, { alone = false, until = clock.now() + hour } = {}) =>
    used.use({ ids: [id, `request of ${id}`], until, ownListSuffices: alone })
  return { log, list, shared, revocations, use }
}

function id(): string {
  return randomBytes(16).toString('hex')
}

/** The clock of a machine that is ahead by this, or behind. */
function ahead(by: number): Clock {
  return { ...systemClock, now: () => systemClock.now() + by }
}

t.test(
  '89: a store that comes back empty knows the IDs that instances have used',
  { skip },
  async t => {
    const store = await startStore(t)
    const a = await instance(t, store)
    const b = await instance(t, store, { name: 'b' })
    t.equal(await a.use('before'), 'first')
    await store.kill()
    await until(() => a.shared.link === 'away' && b.shared.link === 'away')
    t.equal(await a.use('meanwhile', { alone: true }), 'first')
    await store.restart()
    const key = storeNames('app').used
    await until(
      () =>
        store
          .cli('keys', `${key('*')}`)
          .trim()
          .split('\n').length === 4,
    )
    await until(() => b.shared.link === 'here')
    for (const each of ['before', 'meanwhile']) t.equal(await b.use(each), 'again', each)
  },
)

t.test('89: a store that was emptied under its connections is filled again', { skip }, async t => {
  const store = await startStore(t)
  const a = await instance(t, store)
  const b = await instance(t, store, { name: 'b' })
  const ended = id()
  await a.revocations.add({ sessionId: ended })
  t.equal(await a.use('one'), 'first')
  await until(() => a.revocations.waitingCount === 0)
  store.cli('flushall')
  const keys = `${storeNames('app').used('*')} ${storeNames('app').revoked(ended)}`.split(' ')
  const count = () =>
    keys.flatMap(key => store.cli('keys', key).trim().split('\n').filter(Boolean)).length
  await until(() => count() === 3)
  await until(() => store.cli('keys', `${T}probe:*`).trim().split('\n').length === 2)
  await until(() => b.shared.link === 'here')
  t.equal(await b.use('one'), 'again')
})

t.test('89: what is used while the store is slow alone is told to it at once', async t => {
  const store = await ScriptedStore.listen(t)
  const readers = pacedReader(store)
  const a = await instance(t, store)
  await until(() => readers.length > 0)
  for (const name of ['EVAL', 'PEXPIRE']) store.answers.set(name, () => 'hang')
  void a.use('first', { alone: true })
  await until(() => a.shared.link === 'slow')
  const before = store.commands.length
  t.equal(await a.use('second', { alone: true }), 'first')
  const evals = () => store.commands.slice(before).filter(([name]) => name === 'EVAL')
  await until(() => evals().length >= 1)
  t.equal(connects(store), 1, 'without a new connection')
})

t.test('89: an ID is kept for an instance whose clock is behind', { skip }, async t => {
  const store = await startStore(t)
  const a = await instance(t, store)
  const b = await instance(t, store, { name: 'b', clock: ahead(-2 * minute) })
  const end = Date.now() - 1
  t.equal(await a.use('late', { until: end }), 'first')
  t.equal(await b.use('late', { until: end }), 'again')
})

t.test(
  'counts of attempts: those of nothing go, and the number of all is bounded',
  { skip },
  async t => {
    const store = await startStore(t)
    const { shared } = await instance(t, store)
    const counts = () =>
      Number(store.cli('eval', "return #redis.call('KEYS', ARGV[1])", '0', `${T}tries:*`))
    t.same(await shared.countTries(['honest'], 1), [1])
    t.same(await shared.countTries(['honest'], -1), [0])
    t.equal(counts(), 0, 'an honest login leaves none')
    t.same(await shared.countTries(['gone'], -1), [-1])
    t.equal(counts(), 0, 'nor does a count that was forgotten')
    for (let at = 0; at < 52; at += 1) {
      const keys = Array.from({ length: 1000 }, (_, index) => `${at} ${index}`)
      await shared.countTries(keys, 1)
    }
    t.equal(counts(), 50_000)
    t.same(await shared.countTries(['51 999', '0 0'], 1), [2, 1], 'the oldest is forgotten')
    t.equal(store.cli('llen', `${T}counts`).trim(), '50000')
  },
)

t.test(
  'a login at an instance whose clock is ahead does not hide the next one at a third',
  { skip },
  async t => {
    const store = await startStore(t)
    const here = await instance(t, store)
    const noted: BrowserLogin[] = []
    here.revocations.whenLoggedIn(login => noted.push(login))
    const fast = await instance(t, store, { name: 'b', clock: ahead(10 * minute) })
    const [browser, user] = ['b'.repeat(22), 'u'.repeat(43)]
    const login = { browser, user, id: id(), created: Date.now() + 10 * minute }
    await until(() => {
      fast.revocations.tellLogin(login)
      return noted.length > 0
    })
    t.ok((noted[0]?.created ?? Number.POSITIVE_INFINITY) <= Date.now(), 'by the clock here')
    t.equal(noted[0]?.id, login.id)
  },
)

t.test('every key lapses', { skip }, async t => {
  const store = await startStore(t)
  const { shared, revocations, use } = await instance(t, store)
  await revocations.add({ sessionId: id() })
  await use('one')
  await shared.countTries(['some'], 1)
  shared.keepFailure({
    ...{
      id: 'ABCD',
      at: Date.now(),
      category: 'saml',
      code: 'replay',
      status: 403,
      title: 'Refused',
    },
    ...{ client: '192.0.2.1', method: 'POST', path: '/saml/acs', facts: {}, findings: [] },
    sender: 'login',
  })
  await shared.forms.put(
    'form',
    { owner: 'o', target: '/', network: 'n', contentType: 'text/plain', sealed: 's' },
    hour,
  )
  await until(() => store.cli('exists', `${T}failures:login`).trim() === '1')
  const lasting = store
    .cli('keys', '*')
    .trim()
    .split('\n')
    .filter(key => store.cli('pttl', key).trim() === '-1')
  t.same(lasting, [`${T}revocations`], 'but the stream, which is short')
})

t.test(
  'the end of a session is not kept shorter by an instance with a shorter lifetime',
  { skip },
  async t => {
    const store = await startStore(t)
    const long = await instance(t, store, { lifetime: 10 * hour })
    const user = { user: 'ada@example.org' }
    await long.revocations.add(user)
    await until(() => long.revocations.waitingCount === 0)
    const other = await instance(t, store, { name: 'other' })
    await until(() => other.list.entries.size === 1)
    const [key = ''] = store.cli('keys', `${T}revoked:*`).trim().split('\n')
    // A message of it has not reached the other instance yet.
    store.cli('set', key, `${Date.now() - 1000} ${Date.now() + 20 * hour}`)
    await other.revocations.add(user)
    await until(() => other.revocations.waitingCount === 0)
    t.ok(Number(store.cli('pttl', key)) > 19 * hour)
  },
)

t.test(
  'a second end does not set the first one back, which came from a clock that is ahead',
  { skip },
  async t => {
    const store = await startStore(t)
    const clock = ahead(4 * minute)
    const b = await instance(t, store, { name: 'b', clock })
    const a = await instance(t, store)
    await b.revocations.add({ user: 'ada@example.org' })
    await until(() => a.list.entries.size === 1)
    const [before] = [...a.list.entries.values()].map(entry => entry.before)
    await a.revocations.add({ user: 'ada@example.org' })
    t.same(
      [...a.list.entries.values()].map(entry => entry.before),
      [before],
    )
  },
)

t.test(
  'an end that the store refuses for a moment is passed on without a new connection',
  async t => {
    const store = await ScriptedStore.listen(t)
    store.answers.set('XREAD', () => '*-1\r\n')
    const readers = pacedReader(store)
    const a = await instance(t, store)
    await until(() => readers.length > 0)
    store.answers.set('EVAL', () => error('NOPERM this user has no permissions'))
    const one = id()
    await a.revocations.add({ sessionId: one })
    await until(() => a.log.lines.some(({ level }) => level === 'warn'))
    t.equal(a.shared.revocations?.waitingCount, 1)
    store.answers.set('EVAL', () => ':1\r\n')
    for (const answer of readers.splice(0)) answer('*-1\r\n')
    await until(() => a.shared.revocations?.waitingCount === 0)
    t.equal(connects(store), 1)
  },
)

t.test('a reader that the stream was shortened past reads the keys again', async t => {
  const store = await ScriptedStore.listen(t)
  const readers = pacedReader(store)
  const a = await instance(t, store)
  await until(() => readers.length > 0)
  const [lost, now] = [id(), Date.now()]
  store.answers.set('SCAN', () => resp(['0', [`${T}revoked:${lost}`]]))
  store.answers.set('MGET', () => resp([`${now} ${now + hour}`]))
  const messages = Array.from({ length: 100 }, (_, index) => [
    `5-${index}`,
    ['e', `${id()} ${now} ${now + hour}`],
  ])
  for (const answer of readers.splice(0)) answer(resp([[`${T}revocations`, messages]]))
  await until(() => a.list.entries.has(lost))
  t.equal(a.list.entries.size, 101)
  t.equal(connects(store), 1)
})

t.test('forms that a slow store has not taken do not pile up', async t => {
  const answers: Array<() => void> = []
  const asked = { ok: true, answer: 1 } as const
  const link = {
    ask: async () => asked,
    askLater: () => new Promise<typeof asked>(resolve => answers.push(() => resolve(asked))),
  }
  const forms = sharedForms(link, storeNames('app'))
  const sealed = 's'.repeat(2 * 1024 * 1024)
  const form = { owner: 'o', target: '/', network: 'n', contentType: 'text/plain', sealed }
  const put = () => forms.put(id(), form, hour)
  const first = [put(), put()]
  t.equal(await put(), false, 'it stays with this instance')
  for (const answer of answers.splice(0)) answer()
  t.same(await Promise.all(first), [true, true])
  const next = put()
  for (const answer of answers.splice(0)) answer()
  t.equal(await next, true)
})

/** Each connection writes its probe once. */
function connects(store: ScriptedStore): number {
  return store.commands.filter(([name]) => name === 'SET').length
}

/** Leaves XREAD without an answer; what answers it. */
function pacedReader(store: ScriptedStore): Array<(answer: string) => void> {
  const readers: Array<(answer: string) => void> = []
  store.answers.set('XREAD', () => {
    const reader = [...store.sockets].at(-1)
    readers.push(answer => void reader?.write(answer))
    return 'hang'
  })
  return readers
}

t.test('a connection that is lost as soon as it is made is made ever more seldom', async t => {
  const store = await ScriptedStore.listen(t)
  store.answers.set('SCAN', () => error('NOPERM this user has no permissions'))
  const { shared } = await instance(t, store)
  const begun = Date.now()
  const scans = () => store.commands.filter(([name]) => name === 'SCAN').length
  await until(() => scans() >= 3)
  t.ok(Date.now() - begun >= 250, 'it pauses 100 ms, then 200')
  await until(() => shared.remark() !== undefined)
})
