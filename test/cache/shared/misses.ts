/**
 * Misses of several nodes with one bucket: what another node has stored or is fetching is taken from there, held to its digest, and a bucket
 * that is away, hangs or is wrong costs clients nothing but time.
 */
import { createHash } from 'node:crypto'
import t, { type Test } from 'tap'
import { type Nodes, startNodes } from '../../fixtures/bucket/nodes.ts'
import type { TestCache } from '../../fixtures/cache/cache.ts'
import { file, reply } from '../../fixtures/http/scripted-origin.ts'
import { Gate } from '../../fixtures/time/gate.ts'

const content = Buffer.alloc(200_000, 'the quick brown fox ')
const sha256 = createHash('sha256').update(content).digest('hex')
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

t.test('nodes that want a file at the same time fetch it once', async t => {
  const all = await startNodes(t, { count: 3 })
  const gate = new Gate()
  all.origin.at(path, file({ content, etag: '"1"', pauses: [{ at: 100_000, gate }] }))
  const asking = all.nodes.map(({ cache }) => cache.get(all.origin.url(path)))
  await all.origin.arrived(path)
  await first(all).until(
    () => all.bucket.asked.filter(what => what.startsWith('lease')).length >= 3,
  )
  gate.open()
  for (const answer of await Promise.all(asking)) t.ok(answer.content.equals(content))
  t.equal(all.origin.seen(path).length, 1)
})
