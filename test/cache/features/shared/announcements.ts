/**
 * What a node puts into the bucket before it points to a Release file, over sockets to a store in memory; and pointers that name something else.
 */
import { hash } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { systemClock } from '../../../../lib/async/clock.ts'
import { Pointers } from '../../../../lib/cache/features/shared/suites/pointers.ts'
import { readCredentials } from '../../../../lib/cache/fetch/origin-credentials.ts'
import type { Entry } from '../../../../lib/cache/store/entry.ts'
import type { Suite } from '../../../../lib/cache/suites/suite.ts'
import { openNode, type SharingNode } from '../../../fixtures/features/shared/node.ts'
import { ObjectStore } from '../../../fixtures/features/shared/object-store.ts'
import { until } from '../../../fixtures/http/origin-client.ts'
import { createMemoryLog } from '../../../fixtures/log/memory-log.ts'
import { ManualClock } from '../../../fixtures/time/manual-clock.ts'

const at = 'http://archive.example.org/debian/dists/stable'
const key = `${at}/InRelease`

function pointersOf({ shared, stored, entryOf }: SharingNode, clock = systemClock) {
  const log = createMemoryLog()
  const get = async (wanted: string) => (stored.has(wanted) ? entryOf(wanted) : undefined)
  const suite = {} as Suite
  const pointers = new Pointers({
    live: { of: () => suite },
    ...{ shared, clock, log, node: 'a', store: { get } },
    rules: () => ({ confinements: [] }),
    credentials: () => readCredentials([], {}),
  })
  return { pointers, log }
}

function blobOf(content: string): string {
  const digest = hash('sha256', content)
  return `blobs/${digest.slice(0, 2)}/${digest}`
}

/** A Release file that has arrived, and does not stand under its own name yet. */
function arrived({ stored, entryOf }: SharingNode, content: string): Entry {
  stored.set(`${key}#incoming`, content)
  return { ...entryOf(`${key}#incoming`), key }
}

t.test('a pointer names a Release file that is in the bucket by then', async t => {
  const store = await ObjectStore.listen(t)
  const a = await openNode(t, store)
  const { pointers } = pointersOf(a)
  a.stored.set(key, 'old')
  await a.shared.offer(a.entryOf(key))
  await pointers.announce(at, [arrived(a, 'new')], 2000)
  t.equal(String(store.objects.get(blobOf('new'))?.content), 'new')
  const order = store.requests.map(({ method, name }) => `${method} ${name}`)
  const pointed = order.findIndex(one => one.startsWith('PUT suites/'))
  t.ok(pointed > order.indexOf(`PUT ${blobOf('new')}`))
  t.match((await pointers.of(at))?.release, [{ digest: hash('sha256', 'new') }])
})

t.test('a store that takes nothing holds no update up; it points to it later', async t => {
  for (const [fault, resting] of [
    ['full', false],
    ['unavailable', true],
  ] as const) {
    const store = await ObjectStore.listen(t)
    const clock = new ManualClock(Date.now())
    const a = await openNode(t, store, { clock })
    const { pointers } = pointersOf(a, clock)
    store.fault = fault
    a.stored.set('http://archive.example.org/f', 'f')
    void a.shared.offer(a.entryOf('http://archive.example.org/f'))
    await until(() => a.shared.state.unwritable !== undefined)
    if (resting) await a.shared.entry(key)
    let announced = false
    void pointers.announce(at, [arrived(a, 'new')], 2000).then(() => {
      announced = true
    })
    for (let turn = 0; turn < 20; turn += 1) await nextTurn()
    t.ok(announced, fault)
    store.fault = undefined
    clock.advance(1000)
    await store.until(() => store.seen('PUT', 'suites/').some(({ status }) => status === 200))
    t.ok(store.objects.has(blobOf('new')))
  }
})

t.test('nothing points to a Release file that could not be uploaded', async t => {
  const store = await ObjectStore.listen(t)
  const a = await openNode(t, store)
  const { pointers } = pointersOf(a)
  store.fault = ({ method, name }) =>
    method === 'PUT' && name.startsWith('blobs/') ? 'too-large' : undefined
  await pointers.announce(at, [arrived(a, 'new')], 2000)
  await until(() => a.shared.state.uploads.dropped > 0)
  await nextTurn()
  t.equal(store.seen('PUT', 'suites/').length, 0)
})

t.test('a pointer to a file of another suite is none, and is replaced', async t => {
  const store = await ObjectStore.listen(t)
  const a = await openNode(t, store)
  const { pointers, log } = pointersOf(a)
  const other = 'http://other.example.org/secret/dists/stable/InRelease'
  const release = [{ ...a.entryOf(key), key: other }]
  const record = { format: 1, release, date: 9000, adopted: 9000, node: 'x' }
  const name = `suites/${hash('sha256', hash('sha256', at))}.json`
  store.set(name, JSON.stringify(record))
  t.equal(await pointers.of(at), undefined)
  t.equal(await pointers.of(at), undefined)
  t.equal(log.lines.filter(({ level }) => level === 'warn').length, 1, 'it is said once')
  a.stored.set(key, 'mine')
  await pointers.announce(at, [a.entryOf(key)], 2000)
  t.match((await pointers.of(at))?.release, [{ key, digest: hash('sha256', 'mine') }])
})

t.test('a store that takes no newer pointer, although it took conditions at the start', async t => {
  const store = await ObjectStore.listen(t)
  const a = await openNode(t, store)
  const { pointers, log } = pointersOf(a)
  await pointers.announce(at, [arrived(a, 'old')], 1000)
  store.conditional = 'never'
  await pointers.announce(at, [arrived(a, 'new')], 2000)
  t.match((await pointers.of(at))?.release, [{ digest: hash('sha256', 'old') }])
  const said = log.lines.filter(({ message }) => message.includes('did not take'))
  t.match(said, [{ level: 'warn', facts: { suite: at } }])
})
