/**
 * What is imported serves apt: a bundle at a machine without a connection, and the packages of a real apt-cacher-ng.
 */
import { join } from 'node:path'
import t from 'tap'
import { directoryFor, noLab, report, setUp } from '../fixtures/cache/lab.ts'
import { lackingProxy, ProxyProcess, peerUnderTest } from '../fixtures/cache/proxy-process.ts'
import { command } from '../fixtures/process/command.ts'

const program = join(import.meta.dirname, '../../bin/cachesvc.js')
const skip = noLab || (peerUnderTest && 'SKIPPED: bundles are of cachesvc')

t.setTimeout(600_000)
const cachesvc = (...words: readonly string[]) => command(process.execPath, [program, ...words])

t.test('apt installs from an imported bundle, offline', { skip }, async t => {
  const directory = directoryFor(t)
  const lab = await setUp(t, { directory })
  const warm = await lab.apt('warm')
  t.equal((await warm.update()).code, 0)
  t.equal((await warm.download('zeta')).code, 0)
  await lab.proxy.stop()
  const bundle = join(directory, 'bundle.tar')
  await cachesvc('export', bundle, '--cache-dir', join(directory, 'proxy/cache'))
  const there = join(directory, 'there')
  await cachesvc('import', bundle, '--cache-dir', join(there, 'cache'))
  await lab.origin.goAway()
  const offline = await ProxyProcess.start({
    directory: there,
    domains: [`127.0.0.1:${lab.origin.port}`],
    settings: { offline: true },
  })
  t.teardown(() => offline.stop())
  const apt = await lab.apt('there', { proxy: offline.url })
  const update = await apt.update()
  t.strictSame([update.code, update.errors], [0, []], report(update))
  const install = await apt.download('zeta')
  t.strictSame([install.code, install.errors], [0, []], report(install))
  t.equal((await apt.downloaded()).length, 4)
})

t.test(
  'packages of apt-cacher-ng are not fetched again',
  { skip: skip || lackingProxy('apt-cacher-ng') },
  async t => {
    const directory = directoryFor(t)
    const lab = await setUp(t, { directory })
    const other = await ProxyProcess.start({
      directory: join(directory, 'other'),
      name: 'apt-cacher-ng',
    })
    t.teardown(() => other.stop())
    const warm = await lab.apt('warm', { proxy: other.url })
    t.equal((await warm.update()).code, 0)
    t.equal((await warm.download('zeta')).code, 0)
    await other.stop()
    await lab.proxy.stop()
    const said = await cachesvc(
      ...['import', join(directory, 'other/cache')],
      ...['--config', join(directory, 'proxy/cachesvc.yaml')],
    )
    t.match(said.toString(), /^imported \d+ files/)
    lab.replace(await lab.proxy.restart())
    lab.origin.forget()
    const apt = await lab.apt('there')
    t.equal((await apt.update()).code, 0)
    const install = await apt.download('zeta')
    t.strictSame([install.code, install.errors], [0, []], report(install))
    t.equal((await apt.downloaded()).length, 4)
    t.strictSame(lab.origin.seen(/\.deb$/), [], said.toString())
  },
)
