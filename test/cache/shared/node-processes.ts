/**
 * Nodes as processes, with a bucket by the protocol of S3: one fetch of each file, a node that is killed, one that is empty.
 */
import { createHash } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { day } from '../../../lib/async/clock.ts'
import { releaseOf } from '../../fixtures/archive/tiny-archive.ts'
import { getBy, nodeProcesses } from '../../fixtures/bucket/node-processes.ts'
import { noProxy, peerUnderTest } from '../../fixtures/cache/proxy-process.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'
import { file } from '../../fixtures/http/scripted-origin.ts'
import { eventually } from '../../fixtures/process/ports.ts'
import { Gate } from '../../fixtures/time/gate.ts'

t.setTimeout(300_000)
const skip = noProxy || peerUnderTest
const packages = Array.from({ length: 20 }, (_, i) => ({
  path: `pool/p${i}_1_all.deb`,
  content: Buffer.alloc(100_000 + i, `package ${i} `),
}))

function sha256(content: Buffer): string {
  return createHash('sha256').update(content).digest('hex')
}

/** The files of an archive with these packages, as it is so many days later. */
function archive(later = 0): Map<string, Buffer> {
  const stanzas = packages
    .slice(later)
    .map(
      ({ path, content }, i) =>
        `Package: p${i}\nVersion: 1\nArchitecture: all\nFilename: ${path}\nSize: ${content.length}\nSHA256: ${sha256(content)}\n`,
    )
  const index = gzipSync(stanzas.join('\n'))
  const name = 'main/binary-all/Packages.gz'
  const date = new Date(Date.now() - (10 - later) * day).toUTCString().replace('GMT', 'UTC')
  const release = releaseOf([[name, index]], ['SHA256'], date)
  const files = new Map(packages.map(({ path, content }) => [path, content]))
  files.set('dists/stable/InRelease', Buffer.from(`Acquire-By-Hash: yes\n${release}`))
  files.set(`dists/stable/main/binary-all/by-hash/SHA256/${sha256(index)}`, index)
  return files
}

t.test('three nodes fetch each file once, and an empty one needs no origin', { skip }, async t => {
  const { origin, store, nodes, add } = await nodeProcesses(t, 3)
  const files = archive()
  for (const [path, content] of files) origin.at(`/${path}`, file({ content, etag: '"1"' }))
  const update = async (node: (typeof nodes)[number]): Promise<void> => {
    for (const path of [...files.keys()].reverse()) {
      if (!path.startsWith('dists')) continue
      t.equal((await getBy(t, node, origin.url(`/${path}`))).status, 200)
    }
  }
  const clientsOf = nodes.flatMap(node => [node, node])
  for (const node of nodes) await update(node)
  await Promise.all(
    clientsOf.map(async node => {
      for (const { path, content } of packages) {
        const answer = await getBy(t, node, origin.url(`/${path}`))
        if (!answer.content.equals(content)) t.fail(`${path} ${answer.status}`)
      }
    }),
  )
  const fetched = packages.map(({ path }) => origin.seen(`/${path}`).length)
  t.strictSame(new Set(fetched), new Set([1]), 'one fetch of each package')
  const blobs = () => [...store.objects.keys()].filter(name => name.startsWith('blobs/'))
  t.ok(await eventually(async () => blobs().length >= files.size, 30_000), 'all is in the bucket')
  await origin.close()
  const empty = await add()
  await update(empty)
  for (const { path, content } of packages) {
    t.ok((await getBy(t, empty, origin.url(`/${path}`))).content.equals(content))
  }
})

t.test(
  'a newer Release file of one node reaches the others without the origin',
  { skip },
  async t => {
    const settings = { freshness: { floor: '0s' } }
    const { origin, nodes, store } = await nodeProcesses(t, 2, { settings })
    const get = async (node: (typeof nodes)[number] | undefined, path: string) => {
      if (node === undefined) throw new Error('no node')
      return getBy(t, node, origin.url(`/${path}`), { 'Cache-Control': 'max-age=0' })
    }
    const indexes = (files: Map<string, Buffer>) =>
      [...files.keys()].filter(path => path.includes('by-hash'))
    const serve = (files: Map<string, Buffer>): void => {
      for (const [path, content] of files) origin.at(`/${path}`, file({ content }))
    }
    const first = archive()
    serve(first)
    for (const node of nodes) {
      for (const path of ['dists/stable/InRelease', ...indexes(first)]) {
        t.equal((await get(node, path)).status, 200)
      }
    }
    const second = archive(1)
    serve(second)
    const release = String(second.get('dists/stable/InRelease'))
    const [one, two] = nodes
    const newer = async (node: typeof one) =>
      (await get(node, 'dists/stable/InRelease')).text === release
    t.ok(await eventually(() => newer(one), 60_000), 'the first node has it')
    const digest = sha256(Buffer.from(release))
    const isThere = async () => store.objects.has(`blobs/${digest.slice(0, 2)}/${digest}`)
    t.ok(await eventually(isThere, 30_000), 'it is in the bucket')
    await origin.close()
    t.ok(await eventually(() => newer(two), 30_000), 'the other one gives it')
    for (const path of indexes(second)) t.equal((await get(two, path)).status, 200)
  },
)

t.test('the node that fetches is killed: another goes on at the byte', { skip }, async t => {
  const { origin, nodes } = await nodeProcesses(t, 3)
  const content = Buffer.alloc(4_000_000, 'the quick brown fox ')
  const path = `/dists/stable/main/by-hash/SHA256/${sha256(content)}`
  const gate = new Gate()
  origin.at(path, file({ content, etag: '"1"', pauses: [{ at: 2_000_000, gate }] }))
  const [holder, ...others] = nodes
  if (holder === undefined) throw new Error('no node')
  const first = getBy(t, holder, origin.url(path)).catch(() => undefined)
  await origin.arrived(path)
  const following = await Promise.all(
    others.map(async node => {
      const client = await RawClient.connect(t, node.port)
      await client.request('GET', origin.url(path), { Host: new URL(origin.url(path)).host })
      t.equal((await client.head()).status, 200)
      // These bytes can only be those that the holder has.
      return { client, begin: await client.bytes(1_000_000) }
    }),
  )
  t.equal(origin.seen(path).length, 1)
  await holder.stop('SIGKILL')
  gate.open()
  for (const { client, begin } of following) {
    const rest = await client.bytes(content.length - begin.length)
    t.ok(Buffer.concat([begin, rest]).equals(content))
    client.end()
  }
  await first
  const asked = origin.seen(path).map(({ fields }) => fields.get('Range'))
  // A lease saves a fetch and promises nothing: on a busy machine both that read along may go on by themselves.
  t.ok(asked.length === 2 || asked.length === 3, `${asked.length} fetches`)
  for (const range of asked.slice(1)) t.match(range, /^bytes=\d{6,}-$/, 'the rest')
})
