/**
 * Leases and the pointers of suites: of several nodes one has each, by the conditional writes of the store; engines without those; clocks that
 * differ; and objects in use, which are renewed before they lapse.
 */
import { hash } from 'node:crypto'
import t from 'tap'
import { day, hour } from '../../../lib/async/clock.ts'
import type { Lease, SuiteRecord } from '../../../lib/cache/shared/shared-store.ts'
import { parseUri } from '../../../lib/http/message/target.ts'
import { openNode, type SharingNode } from '../../fixtures/bucket/node.ts'
import { ObjectStore } from '../../fixtures/bucket/object-store.ts'
import { until } from '../../fixtures/http/origin-client.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const key = 'http://archive.example.org/debian/pool/main/f/foo_1_all.deb'
const lease = `leases/${hash('sha256', key)}`

function peerUrl(text: string) {
  const uri = parseUri(text)
  if ('problem' in uri) throw new Error(uri.problem)
  return { peerUrl: uri }
}

const one = peerUrl('http://node1.example.org:3142')
const two = peerUrl('http://node2.example.org:3142')

function release(held: Lease): void {
  if (held.kind === 'held') held.release()
}

t.test(
  'of ten nodes that ask at once one has the lease, and the others learn from whom to read',
  async t => {
    const clock = new ManualClock(Date.now())
    const store = await ObjectStore.listen(t, () => clock.now())
    const nodes = await Promise.all(
      Array.from({ length: 10 }, (_, i) => {
        const settings = peerUrl(`http://node${i}.example.org:3142`)
        return openNode(t, store, { clock, settings, directory: t.testdir({}) })
      }),
    )
    const leases = await Promise.all(nodes.map(node => node.shared.lease(key)))
    const holder = leases.findIndex(({ kind }) => kind === 'held')
    t.equal(leases.filter(({ kind }) => kind === 'held').length, 1)
    for (const other of leases) {
      if (other.kind !== 'taken') continue
      t.equal(other.peer?.host, `node${holder}.example.org`)
      t.ok(other.left > 0 && other.left <= 10_000)
    }
    for (const held of leases) release(held)
    await store.until(() => !store.objects.has(lease))
    t.equal((await nodes[3]?.shared.lease(key))?.kind, 'held', 'it is free again')
  },
)

t.test('a lease lasts while its holder renews it, and lapses when the holder is dead', async t => {
  const clock = new ManualClock(Date.now())
  const store = await ObjectStore.listen(t, () => clock.now())
  const a = await openNode(t, store, { clock, settings: one })
  const b = await openNode(t, store, { clock, settings: two })
  t.equal((await a.shared.lease(key)).kind, 'held')
  const renewed = () => a.shared.state.requests.get('put')?.get('done') ?? 0
  for (let i = 0; i < 10; i += 1) {
    const before = renewed()
    clock.advance(3000)
    await until(() => renewed() > before)
    await new Promise(resolve => setImmediate(resolve))
  }
  t.equal((await b.shared.lease(key)).kind, 'taken', 'after half a minute it is renewed still')
  // The store hears nothing of its holder any more.
  store.fault = 'unavailable'
  clock.advance(3000)
  await until(() => a.shared.state.unwritable !== undefined)
  await a.close()
  store.fault = undefined
  clock.advance(7000)
  const taken = await b.shared.lease(key)
  t.equal(taken.kind, 'held', 'it has lapsed and is taken over')
})

t.test('a node that was killed and started again takes over its own leases at once', async t => {
  const clock = new ManualClock(Date.now())
  const store = await ObjectStore.listen(t, () => clock.now())
  const a = await openNode(t, store, { clock, settings: one })
  t.equal((await a.shared.lease(key)).kind, 'held')
  t.equal((await a.shared.lease(key)).kind, 'none', 'a node that has it already fetches')
  const again = await openNode(t, store, { clock, settings: one })
  t.equal((await again.shared.lease(key)).kind, 'held')
})

t.test('a lease is let go of when what was fetched is in the bucket', async t => {
  const store = await ObjectStore.listen(t)
  const a = await openNode(t, store)
  const held = await a.shared.lease(key)
  a.stored.set(key, 'content')
  void a.shared.offer(a.entryOf(key))
  release(held)
  release(held)
  await store.until(() => store.seen('DELETE', lease).length > 0)
  const order = store.requests.map(({ method, name }) => `${method} ${name.replace(/\/.*/, '')}`)
  t.ok(order.lastIndexOf('PUT entries') < order.lastIndexOf('DELETE leases'))
  t.equal(store.seen('DELETE', lease).length, 1)
})

t.test('what stands in a lease and is none, or lasts for ever, is taken over', async t => {
  const store = await ObjectStore.listen(t)
  const a = await openNode(t, store)
  const rows: ReadonlyArray<readonly [string, string]> = [
    ['no JSON', 'x'],
    ['another format', JSON.stringify({ format: 9, node: 'x', id: 'x', until: Date.now() + 5000 })],
    ['for ever', JSON.stringify({ format: 1, node: 'x', id: 'x', until: Date.now() + 60_000 })],
    ['lapsed', JSON.stringify({ format: 1, node: 'x', id: 'x', until: Date.now() - 1 })],
  ]
  for (const [what, text] of rows) {
    store.set(lease, text)
    const held = await a.shared.lease(key)
    t.equal(held.kind, 'held', what)
    release(held)
    await store.until(() => !store.objects.has(lease))
  }
  const peers = ['file:///etc', 'http://u:p@node.example.org/', 'http://node.example.org/x', 7]
  for (const peer of peers) {
    const record = { format: 1, node: 'x', id: 'x', until: Date.now() + 5000, peer }
    store.set(lease, JSON.stringify(record))
    t.match(await a.shared.lease(key), { kind: 'taken', peer: undefined }, String(peer))
  }
})

t.test('ten minutes between the clocks of nodes are no matter', async t => {
  const store = await ObjectStore.listen(t)
  const late = new ManualClock(Date.now() - 600_000)
  const a = await openNode(t, store, { settings: one })
  const b = await openNode(t, store, { settings: two, clock: late })
  t.equal((await a.shared.lease(key)).kind, 'held')
  t.equal((await b.shared.lease(key)).kind, 'taken')
  const other = `${key}2`
  t.equal((await b.shared.lease(other)).kind, 'held')
  t.equal((await a.shared.lease(other)).kind, 'taken')
})

t.test('an engine without conditional writes has no leases; that is said once', async t => {
  for (const conditional of ['refused', 'ignored'] as const) {
    const clock = new ManualClock(Date.now())
    const store = await ObjectStore.listen(t)
    store.conditional = conditional
    const a = await openNode(t, store, { clock })
    t.equal(a.shared.state.leases, 'off')
    t.strictSame(await a.shared.lease(key), { kind: 'none' })
    // It is tried again when it has failed, and what is known is not said again.
    store.fault = 'unavailable'
    a.stored.set(key, 'content')
    const offered = a.shared.offer(a.entryOf(key))
    await until(() => a.shared.state.resting !== undefined)
    store.fault = undefined
    clock.advance(1000)
    await offered
    const said = a.log.lines.filter(({ message }) => message.includes('conditional writes'))
    t.equal(said.length, 1)
    t.equal(await a.blob(hash('sha256', 'content')), 'content', 'contents are shared all the same')
  }
})

const generation = (date: number, node: string): SuiteRecord => ({
  release: [
    {
      key: 'http://archive.example.org/debian/dists/stable/InRelease',
      fields: [],
      digest: hash('sha256', String(date)),
      size: 3,
      lastModified: 'Sun, 06 Nov 1994 08:49:37 GMT',
      stored: date,
      validated: date,
      initialAge: 0,
    },
  ],
  date,
  adopted: date + 1,
  node,
})

t.test('a pointer is swapped by one node, and the other learns that it has lost', async t => {
  for (const conditional of ['works', 'refused'] as const) {
    const clock = new ManualClock(Date.now())
    const store = await ObjectStore.listen(t)
    store.conditional = conditional
    const a = await openNode(t, store, { clock })
    const b = await openNode(t, store, { clock })
    t.equal(await a.shared.suite('stable'), undefined)
    t.equal(await a.shared.swap('stable', undefined, generation(1, 'a')), 'swapped')
    t.equal(await b.shared.swap('stable', undefined, generation(2, 'b')), 'lost')
    const seen = await b.shared.suite('stable')
    t.match(seen, { date: 1, node: 'a' })
    t.equal(await b.shared.swap('stable', seen, generation(2, 'b')), 'swapped')
    t.match(await a.shared.suite('stable'), { date: 1 }, 'it is remembered for a second')
    t.match(await a.shared.suite('stable', { fresh: true }), { date: 2 })
    const count = store.requests.length
    t.match(await a.shared.suite('stable'), { date: 2 })
    t.equal(store.requests.length, count)
    clock.advance(1000)
    t.match(await a.shared.suite('stable'), { date: 2, node: 'b' })
    t.equal(store.requests.at(-1)?.status, 304, 'an unchanged one is not sent again')
    const [old, now] = [seen, await a.shared.suite('stable')]
    t.equal(await a.shared.swap('stable', old, generation(3, 'a')), 'lost')
    t.equal(await a.shared.swap('stable', now, generation(3, 'a')), 'swapped')
  }
})

t.test('what stands in a pointer and is none is no pointer, and is replaced', async t => {
  const store = await ObjectStore.listen(t)
  const a = await openNode(t, store)
  const name = `suites/${hash('sha256', 'stable')}.json`
  const good = generation(1, 'a')
  const rows: readonly unknown[] = [
    'x',
    { format: 1, ...good, release: [] },
    { format: 1, ...good, release: Array.from({ length: 4 }, () => good.release[0]) },
    { format: 1, ...good, release: [{ ...good.release[0], digest: '../x' }] },
    { format: 1, ...good, date: -1 },
    { format: 1, ...good, date: '1' },
    { format: 1, ...good, node: undefined },
  ]
  for (const row of rows) {
    store.set(name, JSON.stringify(row))
    t.equal(await a.shared.suite('stable', { fresh: true }), undefined, JSON.stringify(row))
    t.equal(await a.shared.swap('stable', undefined, good), 'swapped')
  }
})

t.test('a store that hangs in the middle of a lease or a swap takes two seconds', async t => {
  const clock = new ManualClock(Date.now())
  const store = await ObjectStore.listen(t)
  const a = await openNode(t, store, { clock })
  store.fault = ({ method }) => (method === 'PUT' ? 'hang' : undefined)
  const asked = [a.shared.lease(key), a.shared.swap('stable', undefined, generation(1, 'a'))]
  await store.until(
    () => store.seen('PUT', 'leases/').length + store.seen('PUT', 'suites/').length >= 2,
  )
  clock.advance(2000)
  t.strictSame(await Promise.all(asked), [{ kind: 'none' }, 'away'])
  t.ok(a.shared.state.unwritable)
  t.equal(a.shared.state.resting, undefined, 'what is there is read on')
})

t.test('an object that is read when half of its time is over is copied onto itself', async t => {
  const store = await ObjectStore.listen(t)
  const a = await openNode(t, store, { settings: { expire: 10 * day } })
  const digest = hash('sha256', 'content')
  const blob = `blobs/${digest.slice(0, 2)}/${digest}`
  store.set(blob, 'content', Date.now() - 4 * day)
  t.equal(await a.blob(digest), 'content')
  store.set(blob, 'content', Date.now() - 6 * day)
  t.equal(await a.blob(digest), 'content')
  await until(() => a.shared.state.renewed === 1)
  t.equal(store.seen('PUT', 'blobs/').length, 1)
  t.ok((store.objects.get(blob)?.modified ?? 0) > Date.now() - hour)
  t.equal(String(store.objects.get(blob)?.content), 'content')
})

t.test(
  'contents that clients of a node use are renewed, and offered again when they are gone',
  async t => {
    const clock = new ManualClock(Date.now())
    const store = await ObjectStore.listen(t, () => clock.now())
    const stored = new Map(
      Array.from({ length: 20 }, (_, i) => [`http://a.example.org/${i}`, `${i}`]),
    )
    stored.set('http://a.example.org/confined/f', 'confined')
    const a = await openNode(t, store, { clock, stored, settings: { expire: 16 * day } })
    const keys = [...stored.keys()]
    const blobOf = (key: string) => {
      const digest = hash('sha256', stored.get(key) ?? '')
      return `blobs/${digest.slice(0, 2)}/${digest}`
    }
    const [unused = '', lost = ''] = keys
    for (const key of keys.slice(0, 20)) await a.shared.offer(a.entryOf(key))
    // Before the time passes: the first round begins within it, and asks who was used by its own time.
    a.lastUsed.set(unused, clock.now() - 9 * day)
    clock.advance(9 * day)
    store.objects.delete(blobOf(lost))
    // A quarter of the time: sixteen parts of it, each with pauses of 5 seconds.
    for (let part = 0; part < 17; part += 1) {
      clock.advance(6 * hour - 60_000)
      for (let i = 0; i < 12; i += 1) {
        clock.advance(5000)
        await answered(a, store)
      }
    }
    const old = keys.slice(2, 20).filter(key => !isYoung(store, blobOf(key), clock))
    t.strictSame(old, [])
    t.ok(!isYoung(store, blobOf(unused), clock), 'what no client uses lapses')
    t.ok(store.objects.has(blobOf(lost)))
    t.notOk(store.requests.some(({ name }) => name === blobOf('http://a.example.org/confined/f')))
  },
)

function isYoung(store: ObjectStore, name: string, clock: ManualClock): boolean {
  return (store.objects.get(name)?.modified ?? 0) > clock.now() - 5 * day
}

/** Lets the loop turn until each request has its answer, and none comes. */
async function answered({ shared }: SharingNode, store: ObjectStore): Promise<void> {
  const answers = () => {
    const counts = [...shared.state.requests.values()].flatMap(of => [...of.values()])
    return counts.reduce((sum, count) => sum + count, 0)
  }
  for (let quiet = 0; quiet < 20; quiet += 1) {
    const before = store.requests.length
    await new Promise(resolve => setImmediate(resolve))
    if (answers() < store.requests.length || store.requests.length > before) quiet = 0
  }
}
