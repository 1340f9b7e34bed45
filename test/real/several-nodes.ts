/**
 * By hand, some minutes: `node dist/test/real/several-nodes.js [ROUNDS]`. Real apts update and download over three nodes that share a
 * bucket, each request at another node, while the archive is published anew every five seconds. The clock of one node is ten
 * minutes ahead. Then the bits of the bucket are flipped, and a fourth, empty node serves while the origin is down.
 */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { packageRoot } from '../../lib/package.ts'
import { Apt } from '../fixtures/archive/apt.ts'
import { Archive, awkwardPackages, updatedPackages } from '../fixtures/archive/archive.ts'
import { ArchiveOrigin } from '../fixtures/archive/archive-origin.ts'
import { directoryFor, noLab, report, sourcesOf } from '../fixtures/cache/lab.ts'
import { balancedNodes } from '../fixtures/features/shared/balanced-nodes.ts'
import { lacking } from '../fixtures/process/command.ts'
import { eventually } from '../fixtures/process/ports.ts'

const rounds = Number(process.argv[2] ?? 200)
const apts = 4
const ahead = 600_000
const pause = 5000

t.setTimeout(3_600_000)

t.test('no update and no download fails', { skip: noLab || lacking('haproxy') }, async t => {
  const directory = directoryFor(t)
  const archive = await Archive.create(awkwardPackages)
  t.teardown(() => archive.close())
  const origin = await ArchiveOrigin.start({ root: archive.root })
  t.teardown(() => origin.close())
  const clock = join(directory, 'clock')
  await writeFile(clock, String(ahead))
  const shifted = join(packageRoot(), 'dist/test/fixtures/sso/shifted-clock.js')
  const { proxy, store, nodes, add } = await balancedNodes(t, {
    ...{ directory, archives: [origin.authority], count: 3 },
    settings: { freshness: { floor: '0s', negative: '0s' } },
    env: node =>
      node === 1 ? { NODE_OPTIONS: `--import=${shifted}`, TEST_CLOCK_FILE: clock } : {},
  })
  const aptAt = (name: string, address: string) =>
    Apt.create({
      directory: join(directory, name),
      keyring: archive.keyring,
      sources: sourcesOf(origin.url),
      proxy: address,
    })
  const wanted = ['alpha', 'beta++', 'gamma']
  let [ended, published] = [false, 0]
  const publishing = (async () => {
    while (!ended) {
      await new Promise(resolve => setTimeout(resolve, pause))
      await archive.publish(published % 2 === 0 ? updatedPackages : awkwardPackages)
      published += 1
    }
  })()
  let done = 0
  const work = async (_: unknown, i: number) => {
    const apt = await aptAt(`apt${i}`, proxy)
    while (done < rounds) {
      done += 1
      const update = await apt.update()
      t.strictSame([update.code, update.warnings, update.errors], [0, [], []], report(update))
      const download = await apt.download(...wanted)
      t.strictSame([download.code, download.errors], [0, []], report(download))
      await apt.clean()
    }
  }
  await Promise.all(Array.from({ length: apts }, work))
  ended = true
  await publishing
  const { length: fetched } = origin.requests
  const given = new Map<string, number>()
  for (const { target, status } of origin.requests) {
    if (status === 200) given.set(target, (given.get(target) ?? 0) + 1)
  }
  const packages = [...given].filter(([target]) => target.endsWith('.deb'))
  t.comment(`${done} rounds, ${published} generations, ${fetched} requests at the origin`)
  t.comment(`packages: ${packages.map(([target, times]) => `${target} ${times}`).join(', ')}`)
  t.ok(packages.length > 0)
  // A node whose generation names a package no more, or not yet, asks the origin for it by itself.
  for (const [target, times] of packages) t.ok(times <= nodes.length, `${target}: ${times}`)

  const last = await aptAt('last', nodes[0]?.url ?? '')
  t.strictSame((await last.update()).code, 0)
  t.strictSame((await last.download(...wanted)).code, 0)
  const keys = () => [...store.objects.keys()]
  const inBucket = await eventually(
    async () => keys().filter(key => key.startsWith('suites/')).length >= 3,
    30_000,
  )
  t.ok(inBucket)
  origin.behaviour = 'unavailable'
  const fourth = await add()
  const other = await aptAt('fourth', fourth.url)
  const update = await other.update()
  t.strictSame([update.code, update.errors], [0, []], report(update))
  const download = await other.download(...wanted)
  t.strictSame([download.code, download.errors], [0, []], report(download))

  origin.behaviour = 'serve'
  for (const [key, object] of store.objects) {
    if (!key.startsWith('blobs/') || object.content.length === 0) continue
    const content = Buffer.from(object.content)
    content.writeUInt8(content.readUInt8(0) ^ 1, 0)
    store.objects.set(key, { ...object, content })
  }
  const fifth = await add()
  const careful = await aptAt('fifth', fifth.url)
  const again = await careful.update()
  t.strictSame([again.code, again.warnings, again.errors], [0, [], []], report(again))
  const more = await careful.download(...wanted)
  t.strictSame([more.code, more.errors], [0, []], report(more))
})
