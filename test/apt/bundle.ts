/**
 * A bundle taken to a machine without a connection: apt updates and installs from it there.
 */
import { join } from 'node:path'
import t from 'tap'
import { command } from '../fixtures/command.ts'
import { noLab, report, setUp } from '../fixtures/lab.ts'
import { ProxyProcess, peerUnderTest } from '../fixtures/proxy-process.ts'

const program = join(import.meta.dirname, '../../bin/cachesvc.js')
const skip = noLab || (peerUnderTest && 'SKIPPED: bundles are of cachesvc')

t.setTimeout(120_000)

t.test('apt installs from an imported bundle, offline', { skip }, async t => {
  const directory = t.testdir({})
  const lab = await setUp(t, { directory })
  const warm = await lab.apt('warm')
  t.equal((await warm.update()).code, 0)
  t.equal((await warm.download('zeta')).code, 0)
  await lab.proxy.stop()
  const bundle = join(directory, 'bundle.tar')
  const cachesvc = (...words: readonly string[]) => command(process.execPath, [program, ...words])
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
