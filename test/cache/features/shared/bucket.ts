/**
 * What a node asks of the bucket and gets from it, over sockets to a store in memory: contents, entries, uploads, and stores that fail or
 * send what nobody asked for.
 */
import { hash } from 'node:crypto'
import t from 'tap'
import { Lifetime } from '../../../../lib/async/lifetime.ts'
import { openNode } from '../../../fixtures/features/shared/node.ts'
import { type Fault, ObjectStore } from '../../../fixtures/features/shared/object-store.ts'
import { until } from '../../../fixtures/http/origin-client.ts'
import { ManualClock } from '../../../fixtures/time/manual-clock.ts'

const key = 'http://archive.example.org/debian/pool/main/f/foo_1_all.deb'
const content = 'what is in foo\n'.repeat(100)
const digest = hash('sha256', content)
const blob = `blobs/${digest.slice(0, 2)}/${digest}`

t.test(
  'what one node offers another one gets, byte for byte and with one Last-Modified',
  async t => {
    const store = await ObjectStore.listen(t)
    const [a, b] = [await openNode(t, store), await openNode(t, store)]
    a.stored.set(key, content)
    const entry = a.entryOf(key)
    t.equal(await b.blob(digest), undefined, 'nothing is there before')
    t.equal(await b.shared.entry(key), undefined)
    await a.shared.offer(entry)
    t.equal(await b.blob(digest), content)
    t.strictSame(await b.shared.entry(key), entry)
    const lifetime = new Lifetime()
    t.equal(await b.shared.blob(digest, { lifetime, size: 3 }), undefined, 'of another size')
    t.equal(await b.shared.blob('../../etc/passwd', { lifetime }), undefined, 'no digest')
    const uploads = { waiting: 0, done: 1, dropped: 0 }
    t.match(a.shared.state, { uploads, conditionalWrites: 'on' })
    t.strictSame([...store.objects.keys()].map(name => name.replace(/\/.*/, '')).sort(), [
      'blobs',
      'entries',
    ])
  },
)

t.test(
  'a second upload sends no content that is there, and keeps the Last-Modified of the first',
  async t => {
    const store = await ObjectStore.listen(t)
    const [a, b] = [await openNode(t, store), await openNode(t, store)]
    a.stored.set(key, content)
    b.stored.set(key, content)
    await a.shared.offer(a.entryOf(key))
    await b.shared.offer(
      b.entryOf(key, { lastModified: 'Mon, 07 Nov 1994 08:49:37 GMT', stored: 5000 }),
    )
    t.equal(store.seen('PUT', 'blobs/').length, 1)
    t.match(await a.shared.entry(key), { lastModified: 'Sun, 06 Nov 1994 08:49:37 GMT' })
    // Other content under the same key: the younger one counts.
    b.stored.set(key, 'newer')
    await b.shared.offer(b.entryOf(key, { stored: 6000 }))
    t.match(await a.shared.entry(key), { digest: hash('sha256', 'newer') })
    await a.shared.offer(a.entryOf(key))
    t.match(await a.shared.entry(key), { digest: hash('sha256', 'newer') }, 'an older one does not')
  },
)

t.test('a content of another size under a digest is replaced by an upload', async t => {
  const store = await ObjectStore.listen(t)
  const a = await openNode(t, store)
  store.set(blob, 'half of it')
  a.stored.set(key, content)
  await a.shared.offer(a.entryOf(key))
  t.equal(String(store.objects.get(blob)?.content), content)
})

t.test('files that are not to be shared are not offered', async t => {
  const store = await ObjectStore.listen(t)
  const a = await openNode(t, store)
  a.stored.set('http://a.example.org/confined/f', content)
  await a.shared.offer(a.entryOf('http://a.example.org/confined/f'))
  t.equal(store.objects.size, 0)
})

t.test('wrong bytes are removed and counted', async t => {
  const store = await ObjectStore.listen(t)
  const a = await openNode(t, store)
  store.set(blob, 'something else')
  a.shared.wrong(digest)
  await store.until(() => !store.objects.has(blob))
  t.equal(a.shared.state.wrong, 1)
  t.match(a.log.lines.at(-1), { level: 'warn', facts: { digest } })
})

t.test('what stands in the bucket and is no entry of the key is none', async t => {
  const store = await ObjectStore.listen(t)
  const a = await openNode(t, store)
  a.stored.set(key, content)
  const entry = a.entryOf(key)
  const name = `entries/${hash('sha256', key)}.json`
  const rows: ReadonlyArray<readonly [string, unknown]> = [
    ['no JSON', '{"format":1,'],
    ['another format', JSON.stringify({ format: 2, entry })],
    ['of another key', JSON.stringify({ format: 1, entry: { ...entry, key: `${key}2` } })],
    [
      'with a field of two lines',
      JSON.stringify({ format: 1, entry: { ...entry, fields: [['A', 'b\r\nC: d']] } }),
    ],
    ['a list', '[]'],
    ['too long', JSON.stringify({ format: 1, entry, more: 'x'.repeat(300_000) })],
  ]
  for (const [what, text] of rows) {
    store.set(name, String(text))
    t.equal(await a.shared.entry(key), undefined, what)
  }
  store.set(name, JSON.stringify({ format: 1, entry, later: 'versions may say more' }))
  t.strictSame(await a.shared.entry(key), entry)
})

t.test(
  'a store that fails in whatever way costs no more than its time, and then nothing',
  async t => {
    const faults: readonly Fault[] = [
      ...(['close', 'hang', 'unavailable', 'no-bucket', 'redirect', 'huge-error'] as const),
      ...(['endless', 'error-within', 'denied'] as const),
    ]
    for (const fault of faults) {
      await t.test(fault, async t => {
        const store = await ObjectStore.listen(t)
        const clock = new ManualClock(Date.now())
        const a = await openNode(t, store, { clock })
        store.set(blob, content)
        store.fault = fault
        const before = store.requests.length
        const asked = a.shared.entry(key)
        await store.until(() => store.requests.length > before)
        if (fault === 'hang') clock.advance(2000)
        t.equal(await asked, undefined)
        const lets = ['denied', 'huge-error', 'error-within', 'endless'].includes(fault)
        // A store that does not let us list says 403 of what is not there; what is no entry says nothing of the store.
        t.equal(a.shared.state.resting === undefined, lets, a.shared.state.resting ?? 'answers')
        if (lets) return
        const count = store.requests.length
        t.equal(await a.shared.entry(key), undefined)
        t.equal(await a.blob(digest), undefined)
        t.equal(await a.shared.suite('x'), undefined)
        t.equal(store.requests.length, count, 'and is not asked while it rests')
        store.fault = undefined
        clock.advance(1000)
        await until(() => a.shared.state.resting === undefined)
        t.equal(await a.blob(digest), content, 'it is back')
      })
    }
  },
)

t.test('a store that is stopped and started again', async t => {
  const store = await ObjectStore.listen(t)
  const clock = new ManualClock(Date.now())
  const a = await openNode(t, store, { clock })
  store.set(blob, content)
  await store.stop()
  t.equal(await a.blob(digest), undefined)
  t.match(a.shared.state.resting, /no connection/)
  for (const rest of [1000, 2000]) {
    clock.advance(rest)
    await until(() => (a.shared.state.requests.get('get')?.get('away') ?? 0) >= rest / 1000 + 1)
  }
  await store.start()
  clock.advance(3999)
  t.ok(a.shared.state.resting, 'it rests twice as long each time')
  clock.advance(1)
  await until(() => a.shared.state.resting === undefined)
  t.equal(await a.blob(digest), content)
  t.match(
    a.log.lines.filter(({ message }) => message.startsWith('the shared store')),
    [{ level: 'warn', facts: { store: store.url } }, { level: 'info' }],
  )
})

t.test('content that stops or ends early breaks off, and the store rests', async t => {
  for (const fault of ['stall', 'cut'] as const) {
    const store = await ObjectStore.listen(t)
    const clock = new ManualClock(Date.now())
    const a = await openNode(t, store, { clock })
    store.set(blob, content)
    store.fault = fault
    const lifetime = new Lifetime()
    const got = await a.shared.blob(digest, { lifetime })
    t.equal(got?.size, content.length)
    const read = new Promise<Error | undefined>(resolve => {
      const next = (): void =>
        got?.source.next((error, piece) => {
          piece?.release()
          if (error !== undefined || piece === undefined) resolve(error)
          else next()
          if (fault === 'stall') clock.advance(2000)
        })
      next()
    })
    t.match(await read, { code: fault === 'stall' ? 'ORIGIN_CONTENT_TIMEOUT' : 'ORIGIN_TRUNCATED' })
    t.ok(a.shared.state.resting, fault)
  }
})

t.test('a reader who leaves says nothing of the store', async t => {
  const store = await ObjectStore.listen(t)
  const a = await openNode(t, store)
  store.set(blob, Buffer.alloc(4 * 1024 * 1024))
  const lifetime = new Lifetime()
  const got = await a.shared.blob(digest, { lifetime })
  const broken = new Promise(resolve => got?.source.next((_, piece) => resolve(piece?.release())))
  await broken
  lifetime.end(new Error('the client has gone'))
  await new Promise(resolve => got?.source.next(error => resolve(error)))
  t.equal(a.shared.state.resting, undefined)
})

t.test('a full store still gives what it has; uploads wait and go on', async t => {
  for (const fault of ['full', 'quota'] as const) {
    const store = await ObjectStore.listen(t)
    const clock = new ManualClock(Date.now())
    const a = await openNode(t, store, { clock })
    store.set(`blobs/aa/${'a'.repeat(64)}`, 'old')
    store.fault = fault
    a.stored.set(key, content)
    const offered = a.shared.offer(a.entryOf(key))
    await until(() => a.shared.state.unwritable !== undefined)
    t.equal(await a.blob('a'.repeat(64)), 'old')
    t.equal(a.shared.state.uploads.waiting, 1)
    store.fault = undefined
    clock.advance(1000)
    await offered
    t.match(a.shared.state, { unwritable: undefined, uploads: { waiting: 0, done: 1, dropped: 0 } })
    t.equal(String(store.objects.get(blob)?.content), content)
  }
})

t.test('a file that one request cannot take is given up, and the others go on', async t => {
  const store = await ObjectStore.listen(t)
  const a = await openNode(t, store)
  const other = 'http://archive.example.org/other'
  a.stored.set(key, content)
  a.stored.set(other, 'other')
  store.fault = ({ method, name }) => (method === 'PUT' && name === blob ? 'too-large' : undefined)
  const offered = a.shared.offer(a.entryOf(key))
  await a.shared.offer(a.entryOf(other))
  await offered
  t.match(a.shared.state, { unwritable: undefined, uploads: { waiting: 0, done: 1, dropped: 1 } })
  t.equal(store.seen('PUT', blob).length, 3)
})

t.test('ten minutes between the clocks are no matter, with Date or after a refusal', async t => {
  for (const skew of [-600_000, 3_600_000, -86_400_000]) {
    const store = await ObjectStore.listen(t)
    store.skew = skew
    const a = await openNode(t, store)
    a.stored.set(key, content)
    await a.shared.offer(a.entryOf(key))
    t.equal(await a.blob(digest), content)
    t.ok(Math.abs(a.shared.state.ahead - skew) < 3000, String(a.shared.state.ahead))
    t.equal(a.shared.state.resting, undefined)
  }
})

t.test('answers without Date, ETag and Last-Modified are answers', async t => {
  const store = await ObjectStore.listen(t)
  store.fault = 'bare'
  const a = await openNode(t, store)
  a.stored.set(key, content)
  await a.shared.offer(a.entryOf(key))
  t.equal(await a.blob(digest), content)
  t.equal(a.shared.state.conditionalWrites, 'off', 'a version without a name cannot be a condition')
})

t.test('no secret is in the log or in what is known of the store', async t => {
  const store = await ObjectStore.listen(t)
  const environment = {
    AWS_ACCESS_KEY_ID: 'AKIDWRONG',
    AWS_SECRET_ACCESS_KEY: 'a-secret-nobody-may-read',
    AWS_SESSION_TOKEN: 'a-token-nobody-may-read',
  }
  const a = await openNode(t, store, { environment, tried: false })
  await until(() => a.shared.state.unwritable !== undefined)
  t.match(a.shared.state.unwritable, /403 InvalidAccessKeyId/)
  await a.blob(digest)
  t.match(a.shared.state.resting, /403 InvalidAccessKeyId/)
  const said = JSON.stringify([a.log.lines, { ...a.shared.state, requests: undefined }])
  t.notMatch(said, /nobody-may-read/)
  t.notMatch(said, /Signature=/)
})

t.test('what may not be shared any more when its turn comes is not uploaded', async t => {
  const store = await ObjectStore.listen(t)
  const clock = new ManualClock(Date.now())
  let shares = true
  const a = await openNode(t, store, { clock, shares: of => shares || of !== key })
  store.fault = ({ method }) => (method === 'PUT' ? 'unavailable' : undefined)
  a.stored.set(key, content)
  void a.shared.offer(a.entryOf(key))
  await until(() => a.shared.state.unwritable !== undefined)
  store.fault = undefined
  // In between the operator has given the archive `clients`.
  shares = false
  const other = 'http://archive.example.org/other'
  a.stored.set(other, 'other')
  const offered = a.shared.offer(a.entryOf(other))
  clock.advance(1000)
  await offered
  await until(() => a.shared.state.uploads.waiting === 0)
  t.notOk(store.objects.has(blob))
  t.notOk([...store.objects.keys()].includes(`entries/${hash('sha256', key)}.json`))
})

t.test('a file above 5 GiB is not sent, whoever offers it, and the log says so', async t => {
  const store = await ObjectStore.listen(t)
  const a = await openNode(t, store)
  const size = 5 * 1024 ** 3 + 1
  a.stored.set(key, content)
  const entry = a.entryOf(key, { size })
  await a.shared.offer(entry)
  t.equal(store.seen('HEAD', 'blobs/').length + store.seen('PUT', 'blobs/').length, 0)
  t.match(
    a.log.lines.filter(({ message }) => message.includes('5 GiB')),
    [{ level: 'info', facts: { key, size } }],
  )
})
