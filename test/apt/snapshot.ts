/**
 * apt with a sources.list that pins a day: `/_cachesvc/snapshot/<date>/<archive>/…`.
 */
import { hash } from 'node:crypto'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { Layout } from '../../lib/cache/store/disk/disk.ts'
import { updatedPackages } from '../fixtures/archive/archive.ts'
import { directoryFor, noLab, report, setUp } from '../fixtures/cache/lab.ts'
import { peerUnderTest } from '../fixtures/cache/proxy-process.ts'

const day = 24 * 3600 * 1000

t.test('apt installs what a suite had on a day', { skip: noLab || peerUnderTest }, async t => {
  const directory = directoryFor(t)
  const lab = await setUp(t, { directory, settings: { suites: { snapshot_days: 30 } } })
  const { archive, origin } = lab
  const live = await lab.apt('live')
  t.equal((await live.update()).code, 0)
  t.equal((await live.download('alpha')).code, 0)

  // What was adopted just now was adopted three days ago.
  await lab.proxy.stop()
  const suites = new Layout(join(directory, 'proxy/cache')).suites
  for (const name of await readdir(suites)) {
    if (!name.endsWith('.json')) continue
    const path = join(suites, name)
    const text = await readFile(path, 'utf8')
    const older = (_: string, moment: string): string => `"adopted":${Number(moment) - 3 * day}`
    await writeFile(path, text.replace(/"adopted":(\d+)/g, older))
  }
  lab.replace(await lab.proxy.restart())
  await archive.publish(updatedPackages)
  const updated = await live.update()
  t.equal(updated.code, 0, report(updated))

  const { host } = new URL(origin.url)
  const pinned = (ago: number) => {
    const date = new Date(Date.now() - ago * day).toISOString().slice(0, 10)
    const uri = `${lab.proxy.url}/_cachesvc/snapshot/${date}/${host}/debian`
    const sources = [{ uri, suite: 'test', components: ['main', 'contrib'] }]
    const { keyring } = archive
    return lab.apt(`ago-${ago}`, {
      sources,
      keyring,
      settings: { 'Acquire::http::Proxy': 'DIRECT' },
    })
  }
  for (const [ago, version] of [
    [0, /alpha .*1\.1\+deb~1/],
    [2, /alpha .*1\.0/],
  ] as const) {
    const apt = await pinned(ago)
    const update = await apt.update()
    t.strictSame([update.code, update.warnings, update.errors], [0, [], []], report(update))
    t.match((await apt.download('alpha')).output, version)
  }
  const early = await (await pinned(10)).update()
  t.ok(early.errors.length > 0 || early.warnings.length > 0, 'before the oldest')
})

t.test('apt installs what a Release file names', { skip: noLab || peerUnderTest }, async t => {
  const lab = await setUp(t)
  const { archive, origin } = lab
  const release = await readFile(join(archive.root, 'debian/dists/test/InRelease'))
  const live = await lab.apt('live')
  t.equal((await live.update()).code, 0)
  await archive.publish(updatedPackages)
  t.equal((await live.update()).code, 0)
  t.match((await live.download('alpha')).output, /alpha .*1\.1\+deb~1/)

  const { host } = new URL(origin.url)
  const pinned = (name: string, digest: string) => {
    const uri = `${lab.proxy.url}/_cachesvc/pinned/${digest}/${host}/debian`
    const sources = [{ uri, suite: 'test', components: ['main', 'contrib'] }]
    return lab.apt(name, { sources, settings: { 'Acquire::http::Proxy': 'DIRECT' } })
  }
  const digest = hash('sha256', release)
  const apt = await pinned('pinned', digest)
  const update = await apt.update()
  t.strictSame([update.code, update.warnings, update.errors], [0, [], []], report(update))
  const download = await apt.download('alpha', 'zeta')
  t.equal(download.code, 0, report(download))
  t.match(download.output, /alpha .*1\.0/)
  const other = await (
    await pinned(
      'other',
      digest.replace(/^./, first => (first === '0' ? '1' : '0')),
    )
  ).update('--error-on=any')
  t.equal(other.code, 100)
  t.match(other.output, /404 +No Release file with this SHA-256 is kept here/, report(other))
})
