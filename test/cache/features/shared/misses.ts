/**
 * Misses of several nodes with one bucket: what another node has stored is taken from there, held to its digest, and a bucket that is away,
 * hangs, is slow or is wrong costs clients nothing but time.
 */
import { createHash } from 'node:crypto'
import t, { type Test } from 'tap'
import { releaseOf } from '../../../fixtures/archive/tiny-archive.ts'
import type { TestCache } from '../../../fixtures/cache/cache.ts'
import { type Nodes, startNodes } from '../../../fixtures/features/shared/nodes.ts'
import { file, reply } from '../../../fixtures/http/scripted-origin.ts'
import { Gate } from '../../../fixtures/time/gate.ts'

const content = Buffer.alloc(200_000, 'the quick brown fox ')
const sha256 = createHash('sha256').update(content).digest('hex')
const sha512 = createHash('sha512').update(content).digest('hex')
const path = `/debian/dists/stable/main/binary-amd64/by-hash/SHA256/${sha256}`
const plain = '/debian/pool/main/h/hello_1_all.deb'
const good = file({ content, etag: '"1"' })

/** Two nodes, and the first has a file that the origin has no more. */
async function oneHas(t: Test, where: string, count = 2): Promise<Nodes> {
  const all = await startNodes(t, { count })
  all.origin.at(where, good)
  await first(all).warm(all.origin.url(where))
  await until(all, () => all.bucket.entries.has(all.origin.url(where)))
  all.origin.at(where, reply({ status: 503 }))
  return all
}

function first({ nodes }: Nodes): TestCache {
  return at(nodes, 0)
}

function at(nodes: Nodes['nodes'], i: number): TestCache {
  const node = nodes[i]
  if (node === undefined) throw new Error('no such node')
  return node.cache
}

async function until({ nodes }: Nodes, condition: () => boolean): Promise<void> {
  await at(nodes, 0).until(condition)
}

for (const where of [path, plain]) {
  t.test(
    `what a node has stored, another gives without the origin: ${where.slice(0, 20)}`,
    async t => {
      const all = await oneHas(t, where)
      const before = await first(all).get(all.origin.url(where))
      const answer = await at(all.nodes, 1).warm(all.origin.url(where))
      t.equal(answer.status, 200)
      t.ok(answer.content.equals(content))
      t.equal(all.origin.seen(where).length, 1)
      t.equal(
        answer.fields.get('Last-Modified'),
        before.fields.get('Last-Modified'),
        'one validator',
      )
      t.equal(answer.fields.get('ETag'), before.fields.get('ETag'))
      const again = await at(all.nodes, 1).get(all.origin.url(where))
      t.equal(again.fields.get('X-Cache'), 'HIT', 'the hit path is the local store')
    },
  )

  t.test(`a flipped bit in the bucket reaches no client: ${where.slice(0, 20)}`, async t => {
    const all = await oneHas(t, where)
    all.origin.at(where, good)
    all.bucket.flip(sha256)
    const answer = await at(all.nodes, 1).warm(all.origin.url(where))
    t.ok(answer.content.equals(content), 'the origin is asked, and the client does not notice')
    t.strictSame(all.bucket.wrong, [sha256])
    await until(all, () => all.bucket.blobs.get(sha256)?.equals(content) === true)
    t.pass('the right content is offered in its place')
  })
}

t.test('a bucket that hangs costs a miss two seconds, and nothing is lost', async t => {
  const all = await startNodes(t, { count: 1 })
  all.origin.at(path, good)
  all.bucket.mood = 'hangs'
  const begun = all.clock.elapsed()
  const asking = first(all).get(all.origin.url(path))
  await first(all).until(() => all.origin.seen(path).length === 1)
  t.ok(all.clock.elapsed() - begun < 2500)
  t.ok((await asking).content.equals(content))
})

t.test('a bucket that is away is no reason to wait', async t => {
  const all = await startNodes(t, { count: 1 })
  all.origin.at(path, good)
  all.bucket.mood = 'away'
  t.ok((await first(all).warm(all.origin.url(path))).content.equals(content))
})

t.test('a bucket that lives and is slow costs a miss two seconds in all', async t => {
  const index = `/debian/dists/stable/main/binary-amd64/by-hash/SHA512/${sha512}`
  const release = '/debian/dists/stable/InRelease'
  const rows = [
    [path, good, [1300]],
    [release, file({ content: releaseOf([]) }), [1300]],
    // The digest of the content stands in the entry, so two questions are asked one after the other.
    [index, good, [1300, 700]],
    [plain, good, [1300, 700]],
  ] as const
  for (const [where, answer, waits] of rows) {
    const all = waits.length > 1 ? await oneHas(t, where) : await startNodes(t, { count: 2 })
    all.origin.at(where, answer)
    const { length: before } = all.origin.seen(where)
    all.bucket.latency = 1300
    const asking = at(all.nodes, 1).get(all.origin.url(where))
    for (const wait of waits) await passes(all, wait)
    await still(all, () => all.origin.seen(where).length > before)
    t.pass(where)
    await until(all, () => all.bucket.pending === 0)
    t.equal((await asking).status, 200)
  }
})

t.test('a stale entry that the origin confirms costs no more, with a slow bucket', async t => {
  const all = await startNodes(t, { count: 2, settings: { freshness: { floor: '0s' } } })
  all.origin.at(plain, good)
  const url = all.origin.url(plain)
  await first(all).warm(url)
  await until(all, () => all.bucket.entries.has(url))
  all.bucket.latency = 1300
  const asking = at(all.nodes, 1).get(url, { 'Cache-Control': 'max-age=0' })
  await passes(all, 1300)
  await still(all, () => all.origin.seen(plain).length === 2)
  await passes(all, 700)
  await still(all, () => all.origin.seen(plain).length === 3)
  t.ok((await asking).content.equals(content))
})

/** Lets time pass once the bucket was asked. */
async function passes(all: Nodes, time: number): Promise<void> {
  await still(all, () => all.bucket.pending > 0)
  all.clock.advance(time)
}

/** Waits while no time passes. */
async function still({ nodes }: Nodes, condition: () => boolean): Promise<void> {
  await at(nodes, 0).until(condition, () => false)
}

for (const more of ['', ' longer']) {
  const name = `with SHA-512 alone the content of before in the bucket is not taken for wrong${more}`
  t.test(name, async t => {
    const index = (week: string) => Buffer.from(`Package: p\nVersion: ${week}\n`)
    const [old, now] = [index('1'), index(`2${more}`)]
    const dated = (day: number) => `${day} Mar 2025 00:00:00 UTC`
    const releases = [
      releaseOf([['main/binary-all/Packages', old]], ['SHA512'], dated(10)),
      releaseOf([['main/binary-all/Packages', now]], ['SHA512'], dated(11)),
    ]
    const all = await startNodes(t, { count: 2, settings: { freshness: { floor: '0s' } } })
    const [suite, packages] = [
      '/debian/dists/stable/InRelease',
      '/debian/dists/stable/main/binary-all/Packages',
    ]
    all.origin.at(suite, file({ content: releases[0] ?? '' }))
    all.origin.at(packages, file({ content: old }))
    for (const where of [suite, packages]) await first(all).warm(all.origin.url(where))
    await until(all, () => all.bucket.entries.has(all.origin.url(packages)))
    all.origin.at(suite, file({ content: releases[1] ?? '' }))
    all.origin.at(packages, file({ content: now }))
    const node = at(all.nodes, 1)
    // This node knows the newer Release file alone.
    all.bucket.suites.clear()
    t.equal((await node.warm(all.origin.url(suite))).text, String(releases[1]))
    const before = await node.warm(all.origin.url(packages))
    t.equal(before.text, String(now))
    t.strictSame(all.bucket.wrong, [], 'the bucket is right')
    t.ok(all.bucket.blobs.has(createHash('sha256').update(old).digest('hex')))
  })
}

t.test('nodes that want a file at the same time do not wait for each other', async t => {
  const all = await startNodes(t, { count: 3 })
  const gate = new Gate()
  all.origin.at(path, file({ content, etag: '"1"', pauses: [{ at: 100_000, gate }] }))
  const asking = all.nodes.map(({ cache }) => cache.get(all.origin.url(path)))
  await first(all).until(() => all.origin.seen(path).length === 3)
  gate.open()
  for (const answer of await Promise.all(asking)) t.ok(answer.content.equals(content))
})
