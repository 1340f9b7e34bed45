/**
 * What two instances share by a real store: ends of sessions, used IDs, kept forms, attempts, failures; and what becomes of it while the store is
 * away.
 */
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { systemClock } from '../../../lib/async/clock.ts'
import { KeptForms } from '../../../lib/auth/login/kept-forms.ts'
import { decryptionTries } from '../../../lib/auth/login/used-answers.ts'
import { RevocationList } from '../../../lib/auth/session/revocation.ts'
import type { Session } from '../../../lib/auth/session/token.ts'
import { openSharedState } from '../../../lib/auth/shared-state/shared-state.ts'
import { packageRoot } from '../../../lib/package.ts'
import { createMemoryLog } from '../../fixtures/log/memory-log.ts'
import { type RealStore, startStore, storeProgram } from '../../fixtures/state/real-store.ts'
import { until } from '../../fixtures/time/until.ts'

const skip = storeProgram === undefined ? 'needs redis-server or valkey-server' : false
const hour = 3_600_000

async function instance(
  t: Test,
  store: RealStore,
  { name = 'a', directory = t.testdir(), user = undefined as string | undefined } = {},
) {
  const log = createMemoryLog()
  const list = await RevocationList.open({
    path: join(directory, `${name}.revoked.json`),
    ...{ clock: systemClock, log, lifetime: () => hour },
  })
  const shared = await openSharedState({
    config: {
      ...{ tls: false, host: '127.0.0.1', port: store.port, database: 0, user },
      ...{ password: user && 'secret', sentinelPassword: undefined, certificates: undefined },
      ...{ sentinels: [], onOutage: 'continue', instance: 'app' },
    },
    ...{ revocations: list, clock: systemClock, log },
  })
  const close = async () => {
    await shared.close()
    await list.close()
  }
  t.teardown(close)
  if (shared.revocations === undefined) throw new Error('there is a list')
  return { log, list, shared, revocations: shared.revocations, close }
}

function session(more: Partial<Session> = {}): Session {
  const now = Date.now()
  return {
    browser: 'b',
    id: randomBytes(16).toString('hex'),
    subject: 'ada@example.org',
    attributes: new Map(),
    issuer: 'https://idp.example.org',
    nameId: undefined,
    sessionIndex: undefined,
    authenticated: now,
    authnInstant: undefined,
    authnContext: undefined,
    identitySettings: '',
    created: now - 1000,
    expires: now + hour,
    ...more,
  }
}

t.test(
  'what ends at one instance ends at the other, and at one that starts later',
  { skip },
  async t => {
    const store = await startStore(t)
    const a = await instance(t, store)
    const b = await instance(t, store, { name: 'b' })
    const [one, other] = [session(), session({ subject: 'bert@example.org' })]
    // The clock of the instance that made the session is four minutes ahead.
    const ahead = session({ created: Date.now() + 240_000 })
    await a.revocations.add({ sessionId: one.id })
    t.ok(a.revocations.has(one))
    await until(() => b.revocations.has(one))
    await b.revocations.add({ user: 'bert@example.org' })
    await until(() => a.revocations.has(other))
    await a.revocations.add({ sessionId: ahead.id })
    t.ok(a.revocations.has(ahead), 'whatever the clock of its maker said')
    await until(() => b.revocations.has(ahead))
    const c = await instance(t, store, { name: 'c' })
    await until(() => [one, other, ahead].every(each => c.revocations.has(each)))
    t.notOk(c.revocations.has(session({ subject: 'carl@example.org' })))
    await until(() => a.revocations.waitingCount === 0)
  },
)

t.test('during an outage ends hold here, and are passed on afterwards', { skip }, async t => {
  const store = await startStore(t)
  const a = await instance(t, store)
  const b = await instance(t, store, { name: 'b' })
  const [hung, dead, early] = [session(), session(), session()]
  await a.revocations.add({ sessionId: early.id })
  await until(() => b.revocations.has(early))

  store.signal('SIGSTOP')
  await a.revocations.add({ sessionId: hung.id })
  t.ok(a.revocations.has(hung), 'at once')
  t.ok(b.revocations.has(early), 'the last list holds')
  await until(() => a.shared.link === 'away')
  t.match(
    a.shared.remark(),
    /the shared store is away: .*; 1 ends of sessions wait to be passed on/,
  )
  t.equal(a.shared.revocations?.waitingCount, 1)
  store.signal('SIGCONT')
  await until(() => b.revocations.has(hung))
  await until(() => a.shared.remark() === undefined && a.shared.revocations?.waitingCount === 0)

  await store.kill()
  await until(() => a.shared.link === 'away' && b.shared.link === 'away')
  await a.revocations.add({ sessionId: dead.id })
  // It comes back without anything in it.
  await store.restart()
  await until(() => b.revocations.has(dead))
  t.ok(b.revocations.has(early) && b.revocations.has(hung))
  await until(() => store.cli('exists', `{authproxy:app}:revoked:${early.id}`).trim() === '1')
  const late = await instance(t, store, { name: 'late' })
  await until(() => [early, hung, dead].every(each => late.revocations.has(each)))
})

t.test(
  'an instance that is restarted during an outage has its list, and passes it on',
  { skip },
  async t => {
    const store = await startStore(t)
    const directory = t.testdir()
    const a = await instance(t, store, { directory })
    await store.kill()
    await until(() => a.shared.link === 'away')
    const ended = session()
    await a.revocations.add({ sessionId: ended.id })
    await a.close()
    const again = await instance(t, store, { directory })
    t.equal(again.shared.link, 'away')
    t.ok(again.revocations.has(ended))
    t.match(again.log.lines, [{ level: 'warn', message: /the shared store is away/ }])
    await store.restart()
    const b = await instance(t, store, { name: 'b' })
    await until(() => b.revocations.has(ended))
  },
)

t.test('an ID is used once at all instances; all of a message or none', { skip }, async t => {
  const store = await startStore(t)
  const [a, b] = [await instance(t, store), await instance(t, store, { name: 'b' })]
  const soon = Date.now() + 60_000
  for (let round = 0; round < 20; round += 1) {
    const asked = [a, b, a, b].map(({ shared }) => shared.useIds([`x${round}`, `y${round}`], soon))
    t.same((await Promise.all(asked)).sort(), ['again', 'again', 'again', 'first'])
  }
  t.equal(await b.shared.useIds(['new', 'x0'], soon), 'again')
  t.equal(await a.shared.useIds(['new'], soon), 'first', 'what came with a used one is not used up')
  // An ID is kept five minutes longer, for an instance whose clock is behind.
  t.equal(await a.shared.useIds(['short'], Date.now() - 300_000 + 50), 'first')
  // Until its message is too old. The store has its own clock.
  await until(async () => (await b.shared.useIds(['short'], soon)) === 'first')

  store.signal('SIGSTOP')
  const begun = performance.now()
  t.equal(await a.shared.useIds(['during'], soon), 'away')
  t.ok(performance.now() - begun < 1000)
  a.shared.tellLater(['during'], soon)
  store.signal('SIGCONT')
  await until(() => a.shared.link === 'here' && b.shared.link === 'here')
  // The store may have had the question before it was stopped.
  t.equal(await b.shared.useIds(['during'], soon), 'again', 'told afterwards')
})

t.test('a form waits for its user at every instance, and is handed out once', { skip }, async t => {
  const store = await startStore(t)
  const [a, b] = [await instance(t, store), await instance(t, store, { name: 'b' })]
  const forms = [a, b].map(({ shared }) => new KeptForms(systemClock, randomBytes, shared.forms))
  const [here, there] = forms
  if (here === undefined || there === undefined) return
  const ada = { owner: 'ada@example.org', target: '/save', network: '192.0.2.1' }
  const form = { contentType: 'multipart/form-data; boundary=x', content: randomBytes(300_000) }
  const stored = async () => {
    await until(() => store.cli('keys', '*form:*').trim() !== '')
    // Answers come in the order of the questions, so both instances know by then what the store has.
    await Promise.all([a, b].map(({ shared }) => shared.failures()))
  }
  const key = here.put('1', form, ada, 60_000)
  await stored()
  t.same(await there.placeOf('1', ada.owner), { target: '/save' })
  const both = await Promise.all([there.take('1', key, ada), here.take('1', key, ada)])
  t.equal(both.filter(one => 'content' in one).length, 1, 'one of two requests at a time gets it')
  t.same(
    both.find(one => 'content' in one),
    form,
  )
  t.same(await here.placeOf('1', ada.owner), { because: 'gone' })
  t.equal(store.cli('keys', '*form:*').trim(), '')

  const nameless = { ...ada, owner: undefined }
  const second = here.put('2', { ...form, origin: 'https://other.example' }, nameless, 60_000)
  await stored()
  t.same(await there.placeOf('2', ada.owner), { target: '/save' }, 'is hers from now on')
  t.same(await here.placeOf('2', 'bert'), { because: 'other-user' })
  await until(() => store.cli('keys', '*form:*').trim() === '')
  t.same(await there.take('2', second, ada), { because: 'gone' })

  const third = here.put('3', form, ada, 60_000)
  await stored()
  const moved = await there.move('3', third, '4', 60_000)
  t.ok(moved)
  t.same(await here.placeOf('3', ada.owner), { because: 'gone' })
  await stored()
  t.same(await here.take('4', moved ?? '', ada), form)

  for (const id of ['5', '6', '7', '8', '9', '10']) there.put(id, form, ada, 60_000)
  await until(() => store.cli('keys', '*form:*').trim().split('\n').length === 4)
  const text = JSON.stringify(store.cli('keys', '*'))
  t.notMatch(text, /ada@|192\.0\.2\.1/)

  await store.kill()
  const alone = here.put('11', form, ada, 60_000)
  await until(() => a.shared.link === 'away' && b.shared.link === 'away')
  t.same(await here.placeOf('11', ada.owner), { target: '/save' }, 'where it came, it is')
  t.same(await here.take('11', alone, ada), form)
  t.same(await there.placeOf('11', ada.owner), { because: 'gone' })
})

t.test('attempts at one instance count at the other', { skip }, async t => {
  const store = await startStore(t)
  const [a, b] = [await instance(t, store), await instance(t, store, { name: 'b' })]
  const [here, there] = [decryptionTries(a.shared), decryptionTries(b.shared)]
  const count = () => Number(store.cli('get', store.cli('keys', '*tries:*').trim()).trim())
  for (let tries = 1; tries <= 8; tries += 1) {
    t.ok(here().mayDecrypt(['key']))
    await until(() => count() === tries)
  }
  t.ok(there().mayDecrypt(['key']), 'it has not heard of them yet')
  await until(() => !there().mayDecrypt(['key']))
  t.notOk(here().mayDecrypt(['key']))
  const honest = here()
  t.ok(honest.mayDecrypt(['other']))
  honest.verified()
})

t.test('a failure at one instance is explained at the other', { skip }, async t => {
  const store = await startStore(t)
  const [a, b] = [await instance(t, store), await instance(t, store, { name: 'b' })]
  const record = {
    ...{ id: 'r-1', at: 1, category: 'SAML-ERROR', code: 'replay', status: 403, title: 'x' },
    ...{ client: '192.0.2.1', method: 'POST', path: '/saml/acs', facts: {}, findings: [] },
    sender: 'login' as const,
  }
  a.shared.keepFailure(record)
  for (let i = 0; i < 250; i += 1)
    a.shared.keepFailure({ ...record, id: `s-${i}`, sender: 'other' })
  await until(() => store.cli('llen', '{authproxy:app}:failures:other').trim() === '200')
  const found = await b.shared.failures()
  t.equal(found.length, 201)
  t.same(
    found.find(({ id }) => id === 'r-1'),
    record,
  )
})

t.test('an access list for the prefix alone suffices', { skip }, async t => {
  const store = await startStore(t)
  const page = readFileSync(join(packageRoot(), 'docs/several-instances.md'), 'utf8')
  const [, rule = ''] = /user authproxy (on >PASSWORD .*)/.exec(page) ?? []
  const shipped = readFileSync(join(packageRoot(), 'packaging/several-instances/users.acl'), 'utf8')
  t.match(
    shipped,
    rule.replace('authproxy:app', 'authproxy:default'),
    'the shipped list is the same',
  )
  const words = rule.replace('PASSWORD', 'secret').split(' ')
  t.equal(store.cli('acl', 'setuser', 'authproxy', ...words).trim(), 'OK')
  const a = await instance(t, store, { user: 'authproxy' })
  const b = await instance(t, store, { name: 'b', user: 'authproxy' })
  const ended = session()
  await a.revocations.add({ sessionId: ended.id })
  await until(() => b.revocations.has(ended))
  t.equal(await a.shared.useIds(['x'], Date.now() + 60_000), 'first')
  const forms = new KeptForms(systemClock, randomBytes, a.shared.forms)
  const place = { owner: 'ada', target: '/', network: 'n' }
  const key = forms.put(
    '1',
    { contentType: 'text/plain', content: Buffer.from('x') },
    place,
    60_000,
  )
  await until(() => store.cli('keys', '*form:*').trim() !== '')
  t.ok('target' in (await forms.placeOf('1', 'ada')))
  t.ok('content' in (await forms.take('1', key, place)))
  t.same(await a.shared.countTries(['k'], 1), [1])
  a.shared.keepFailure({
    ...{ id: 'r-1', at: 1, category: 'x', code: 'x', status: 403, title: 'x', client: 'x' },
    ...{ method: 'GET', path: '/', facts: {}, findings: [], sender: 'login' },
  })
  await until(() => store.cli('llen', '{authproxy:app}:failures:login').trim() === '1')
  t.same(
    [a, b].flatMap(({ log }) => log.lines.filter(({ level }) => level !== 'info')),
    [],
  )
})
