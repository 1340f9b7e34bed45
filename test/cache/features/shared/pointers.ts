/**
 * The pointers of suites: of several nodes that write one, each but the first notices it, by the conditional writes of the store. Engines
 * without those, and objects in use, which are renewed before they lapse.
 */
import { hash } from 'node:crypto'
import t from 'tap'
import { day, hour } from '../../../../lib/async/clock.ts'
import { sharedText } from '../../../../lib/cache/features/shared/report.ts'
import type { SuiteRecord } from '../../../../lib/cache/features/shared/shared-store.ts'
import { openNode, type SharingNode } from '../../../fixtures/features/shared/node.ts'
import { ObjectStore } from '../../../fixtures/features/shared/object-store.ts'
import { until } from '../../../fixtures/http/origin-client.ts'
import { ManualClock } from '../../../fixtures/time/manual-clock.ts'

const key = 'http://archive.example.org/debian/pool/main/f/foo_1_all.deb'
t.test('an engine without conditional writes; that is said once', async t => {
  const rows = [
    ['refused', /refuses conditional writes/],
    ['ignored', /ignores conditions/],
    ['never', /refuses a version that it returned itself/],
  ] as const
  for (const [conditional, because] of rows) {
    const clock = new ManualClock(Date.now())
    const store = await ObjectStore.listen(t)
    store.conditional = conditional
    const a = await openNode(t, store, { clock })
    t.equal(a.shared.state.conditionalWrites, 'off')
    t.match(sharedText(a.shared.state), /no conditional writes/)
    // It is tried again when it has failed, and what is known is not said again.
    store.fault = 'unavailable'
    a.stored.set(key, 'content')
    const offered = a.shared.offer(a.entryOf(key))
    await until(() => a.shared.state.resting !== undefined)
    store.fault = undefined
    clock.advance(1000)
    await offered
    const said = a.log.lines.filter(({ message }) => message.includes('conditional writes'))
    t.match(said, [{ level: 'warn', facts: { because } }])
    t.equal(said.length, 1)
    t.equal(await a.blob(hash('sha256', 'content')), 'content', 'contents are shared all the same')
  }
})

t.test('an engine that takes the right version without quotes only, as Ceph RGW', async t => {
  const clock = new ManualClock(Date.now())
  const store = await ObjectStore.listen(t)
  store.conditional = 'bare'
  const a = await openNode(t, store, { clock })
  t.equal(a.shared.state.conditionalWrites, 'on')
  t.equal(await a.shared.swap('stable', undefined, generation(1, 'a')), 'swapped')
  const first = await a.shared.suite('stable')
  t.equal(await a.shared.swap('stable', first, generation(2, 'a')), 'swapped')
  t.equal(await a.shared.swap('stable', first, generation(3, 'a')), 'lost')
  const name = `entries/${hash('sha256', key)}.json`
  for (const content of ['old', 'new']) {
    a.stored.set(key, content)
    await a.shared.offer(a.entryOf(key))
    t.equal((await a.shared.entry(key))?.digest, hash('sha256', content), content)
  }
  t.ok(store.seen('PUT', name).some(({ fields }) => fields['if-match'] !== undefined))
  // The trial after a failure finds the same.
  store.fault = 'unavailable'
  a.stored.set(`${key}2`, 'content')
  const offered = a.shared.offer(a.entryOf(`${key}2`))
  await until(() => a.shared.state.resting !== undefined)
  store.fault = undefined
  clock.advance(1000)
  await offered
  t.equal(a.shared.state.conditionalWrites, 'on')
  const second = await a.shared.suite('stable', { fresh: true })
  t.equal(await a.shared.swap('stable', second, generation(3, 'a')), 'swapped')
  t.strictSame(
    store.seen('DELETE').filter(({ fields }) => fields['if-match'] !== undefined),
    [],
  )
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

t.test('a store that hangs in the middle of a swap takes two seconds', async t => {
  const clock = new ManualClock(Date.now())
  const store = await ObjectStore.listen(t)
  const a = await openNode(t, store, { clock })
  store.fault = ({ method }) => (method === 'PUT' ? 'hang' : undefined)
  const swapping = a.shared.swap('stable', undefined, generation(1, 'a'))
  await store.until(() => store.seen('PUT', 'suites/').length === 1)
  clock.advance(2000)
  t.equal(await swapping, 'away')
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
