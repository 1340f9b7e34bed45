/**
 * Nodes as processes, with a bucket by the protocol of S3: a file that one has fetched, and a node that is empty.
 */
import { createHash } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { day } from '../../../../lib/async/clock.ts'
import { releaseOf } from '../../../fixtures/archive/tiny-archive.ts'
import { noProxy, peerUnderTest } from '../../../fixtures/cache/proxy-process.ts'
import { getBy, nodeProcesses } from '../../../fixtures/features/shared/node-processes.ts'
import { file } from '../../../fixtures/http/scripted-origin.ts'
import { eventually } from '../../../fixtures/process/ports.ts'

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

t.test(
  'what one node has fetched the others take, and an empty one needs no origin',
  { skip },
  async t => {
    const { origin, store, nodes, add } = await nodeProcesses(t, 3)
    const files = archive()
    for (const [path, content] of files) origin.at(`/${path}`, file({ content, etag: '"1"' }))
    const update = async (node: (typeof nodes)[number]): Promise<void> => {
      for (const path of [...files.keys()].reverse()) {
        if (!path.startsWith('dists')) continue
        t.equal((await getBy(t, node, origin.url(`/${path}`))).status, 200)
      }
    }
    const download = async (node: (typeof nodes)[number]): Promise<void> => {
      await update(node)
      for (const { path, content } of packages) {
        const answer = await getBy(t, node, origin.url(`/${path}`))
        if (!answer.content.equals(content)) t.fail(`${path} ${answer.status}`)
      }
    }
    const blobs = () => [...store.objects.keys()].filter(name => name.startsWith('blobs/'))
    const [first, ...others] = nodes
    if (first === undefined) throw new Error('no node')
    await download(first)
    t.ok(await eventually(async () => blobs().length >= files.size, 30_000), 'all is in the bucket')
    await Promise.all(others.map(download))
    const fetched = packages.map(({ path }) => origin.seen(`/${path}`).length)
    t.strictSame(new Set(fetched), new Set([1]), 'one fetch of each package')
    await origin.close()
    const empty = await add()
    await download(empty)
  },
)

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
