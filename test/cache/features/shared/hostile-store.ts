/**
 * A bucket in which others write what they like, and a store that answers oddly without an end: what a node makes of it.
 */
import { hash } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { day } from '../../../../lib/async/clock.ts'
import { Lifetime } from '../../../../lib/async/lifetime.ts'
import { openNode } from '../../../fixtures/features/shared/node.ts'
import {
  type Fault,
  ObjectStore,
  storeCredentials,
} from '../../../fixtures/features/shared/object-store.ts'
import { until } from '../../../fixtures/http/origin-client.ts'
import { ManualClock } from '../../../fixtures/time/manual-clock.ts'

const key = 'http://archive.example.org/debian/pool/main/f/foo_1_all.deb'
const content = 'what is in foo\n'.repeat(100)
const digest = hash('sha256', content)
const blob = `blobs/${digest.slice(0, 2)}/${digest}`
const name = `entries/${hash('sha256', key)}.json`

t.test('a refusal of the credentials or of the region is said, and new ones are taken', async t => {
  for (const [fault, code] of [
    ['expired-token', 'ExpiredToken'],
    ['wrong-region', 'AuthorizationHeaderMalformed'],
  ] as const) {
    const store = await ObjectStore.listen(t)
    const clock = new ManualClock(Date.now())
    const directory = t.testdir()
    const credentials = `${directory}/credentials`
    const { keyId, secret } = storeCredentials
    const write = (id: string) =>
      writeFile(credentials, `aws_access_key_id = ${id}\naws_secret_access_key = ${secret}\n`, {
        mode: 0o600,
      })
    await write('AKIDOLD')
    store.fault = ({ fields }) =>
      fields['authorization']?.includes('AKIDOLD') === true ? fault : undefined
    const a = await openNode(t, store, {
      clock,
      directory,
      settings: { credentials },
      tried: false,
    })
    store.set(blob, content)
    t.equal(await a.blob(digest), undefined)
    t.match(a.shared.state.resting, `400 ${code}`)
    await write(keyId)
    clock.advance(1000)
    await until(() => a.shared.state.resting === undefined)
    t.equal(await a.blob(digest), content)
  }
})

t.test('a stored content is sent once, also when the clocks differ', async t => {
  const store = await ObjectStore.listen(t)
  const clock = new ManualClock(Date.now())
  const a = await openNode(t, store, { clock, streamed: true })
  a.stored.set(key, content)
  let refusals = 1
  store.fault = ({ method, name: of }) => {
    if (method !== 'PUT' || of !== blob || refusals === 0) return undefined
    refusals -= 1
    return 'skewed'
  }
  const offered = a.shared.offer(a.entryOf(key))
  await store.until(() => store.seen('PUT', blob).length === 1)
  for (let turn = 0; turn < 50; turn += 1) await nextTurn()
  clock.advance(1000)
  t.equal(await offered, true)
  t.equal(String(store.objects.get(blob)?.content), content)
  t.notOk(a.log.lines.some(({ message }) => message.includes('could not be uploaded')))
})

t.test('an entry has no more and no other fields than an answer of an origin can have', async t => {
  const store = await ObjectStore.listen(t)
  const a = await openNode(t, store)
  a.stored.set(key, content)
  const entry = a.entryOf(key)
  const put = (text: string) => store.set(name, text)
  const write = (more: object) => put(JSON.stringify({ format: 1, entry: { ...entry, ...more } }))
  write({ initialAge: 1e300 })
  t.equal((await a.shared.entry(key))?.initialAge, 2 ** 31, 'RFC 9111 section 1.2.2')
  write({ initialAge: 1.5 })
  t.equal((await a.shared.entry(key))?.initialAge, 1)
  const none: readonly object[] = [
    { fields: Array.from({ length: 9000 }, () => ['A', 'bcdefgh']) },
    { lastModified: 'Xyz, 99 Abc 0000 99:99:99 GMT' },
    { size: 1e300 },
    { fields: [['__proto__', 1]] },
  ]
  for (const more of none) {
    write(more)
    t.equal(await a.shared.entry(key), undefined, JSON.stringify(more).slice(0, 80))
  }
  const own = `{"format":1,"__proto__":{"entry":1},"entry":${JSON.stringify({ ...entry, constructor: 1 }).replace('{', '{"__proto__":{"verified":{"by":"index"}},')}}`
  put(own)
  t.strictSame(await a.shared.entry(key), entry)
  t.equal(Reflect.get({}, 'verified'), undefined)
  put('['.repeat(250_000))
  t.equal(await a.shared.entry(key), undefined, 'deep')
})

t.test('an entry from the future keeps no younger one out', async t => {
  const store = await ObjectStore.listen(t)
  const a = await openNode(t, store)
  a.stored.set(key, content)
  const stored = Date.now() + 366 * day
  const old = { ...a.entryOf(key), digest: hash('sha256', 'old'), size: 3, stored }
  store.set(name, JSON.stringify({ format: 1, entry: old }))
  await a.shared.offer(a.entryOf(key, { stored: Date.now() }))
  t.match(await a.shared.entry(key), { digest })
})

t.test('content in a coding is not what was stored: it is not used, and not removed', async t => {
  const store = await ObjectStore.listen(t)
  const a = await openNode(t, store)
  a.stored.set(key, content)
  await a.shared.offer(a.entryOf(key))
  store.fault = 'gzip'
  t.equal(await a.blob(digest), undefined)
  t.equal(await a.shared.entry(key), undefined)
  t.ok(store.objects.has(blob))
  t.equal(a.shared.state.requests.get('get')?.get('failed'), 2)
  t.equal(store.requests.at(-1)?.fields['accept-encoding'], 'identity')
  t.notMatch(store.requests.at(-1)?.fields['authorization'], 'accept-encoding')
})

t.test('content that drips breaks off, and the store rests', async t => {
  const store = await ObjectStore.listen(t)
  const clock = new ManualClock(Date.now())
  const a = await openNode(t, store, { clock })
  store.set(blob, content)
  store.fault = 'drip'
  const got = await a.shared.blob(digest, { lifetime: new Lifetime() })
  t.equal(got?.size, content.length)
  let pieces = 0
  let broken: Error | undefined
  while (broken === undefined && pieces < 10) {
    const next = new Promise<Error | undefined>(resolve => {
      got?.source.next((error, piece) => {
        piece?.release()
        resolve(error)
      })
    })
    clock.advance(1900)
    store.drop()
    broken = await next
    pieces += 1
  }
  t.match(broken, { code: 'ORIGIN_CONTENT_TIMEOUT', fault: 'upstream' })
  t.match(a.shared.state.resting, /less than/)
})

t.test('a reader who is slow is not taken for a store that is', async t => {
  const store = await ObjectStore.listen(t)
  const clock = new ManualClock(Date.now())
  const a = await openNode(t, store, { clock })
  const large = Buffer.alloc(1024 * 1024)
  store.set(blob, large)
  const got = await a.shared.blob(digest, { lifetime: new Lifetime() })
  let size = 0
  for (let over = false; !over; ) {
    clock.advance(500)
    over = await new Promise<boolean>(resolve => {
      got?.source.next((error, piece) => {
        size += piece?.bytes.length ?? 0
        piece?.release()
        resolve(error !== undefined || piece === undefined)
      })
    })
  }
  t.equal(size, large.length)
  t.equal(a.shared.state.resting, undefined)
})

t.test('an upload whose answer drips ends, and others go on', async t => {
  const store = await ObjectStore.listen(t)
  const clock = new ManualClock(Date.now())
  const a = await openNode(t, store, { clock, streamed: true })
  const fault: Fault = 'drip'
  store.fault = ({ method, name: of }) => (method === 'PUT' && of === blob ? fault : undefined)
  a.stored.set(key, content)
  void a.shared.offer(a.entryOf(key))
  await store.until(() => store.seen('PUT', blob).length === 1)
  for (let i = 0; i < 100 && a.shared.state.unwritable === undefined; i += 1) {
    clock.advance(1900)
    store.drop()
    for (let turn = 0; turn < 20; turn += 1) await nextTurn()
  }
  t.match(a.shared.state.unwritable, /no answer within/)
})

t.test('an entity tag without an end is none', async t => {
  const store = await ObjectStore.listen(t)
  const a = await openNode(t, store)
  const record = { format: 1, release: [], date: 1, adopted: 1, node: 'x' }
  a.stored.set(key, content)
  const release = [a.entryOf(key)]
  store.set(`suites/${hash('sha256', 's')}.json`, JSON.stringify({ ...record, release }))
  const stored = store.objects.get(`suites/${hash('sha256', 's')}.json`)
  if (stored !== undefined) stored.etag = `"${'x'.repeat(8000)}"`
  t.match(await a.shared.suite('s'), { etag: '', date: 1 })
})

t.test('an object that was renewed is renewed again when its time has come', async t => {
  const clock = new ManualClock(Date.now())
  const store = await ObjectStore.listen(t, () => clock.now())
  const a = await openNode(t, store, { clock, settings: { expire: 10 * day } })
  store.set(blob, content, clock.now() - 6 * day)
  t.equal(await a.blob(digest), content)
  await until(() => a.shared.state.renewed === 1)
  clock.advance(6 * day)
  t.equal(await a.blob(digest), content)
  await until(() => a.shared.state.renewed === 2)
  t.pass('it would have lapsed')
})
