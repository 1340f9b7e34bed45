/**
 * apt while its archive has a delay: ten generations, a restart, and a clock that is set, in time that a test turns.
 */
import { join } from 'node:path'
import t from 'tap'
import { Apt } from '../fixtures/archive/apt.ts'
import { Archive, awkwardPackages } from '../fixtures/archive/archive.ts'
import { ArchiveOrigin } from '../fixtures/archive/archive-origin.ts'
import { TestCache } from '../fixtures/cache/cache.ts'
import { directoryFor, noLab, report } from '../fixtures/cache/lab.ts'
import { peerUnderTest } from '../fixtures/cache/proxy-process.ts'
import { freePort } from '../fixtures/process/ports.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

t.setTimeout(600_000)

const minute = 60_000
const generations = 10
const apart = 10 * minute

/** The packages of a generation: its number is the version of one. */
function packagesOf(n: number) {
  return awkwardPackages.map(spec =>
    spec.name === 'alpha' ? { ...spec, version: `1.${n}` } : spec,
  )
}

t.test('ten generations with a delay', { skip: noLab || peerUnderTest }, async t => {
  const directory = directoryFor(t)
  const archive = await Archive.create(packagesOf(1))
  t.teardown(() => archive.close())
  const origin = await ArchiveOrigin.start({ root: archive.root })
  t.teardown(() => origin.close())
  const { port, host } = new URL(origin.url)
  // The key of the archive is not valid before it was made, so ages count from when a generation is first seen.
  const clock = new ManualClock(Date.now())
  const listen = `127.0.0.1:${await freePort()}`
  const cache = await TestCache.start(t, {
    origins: [{ host: '127.0.0.1', port: Number(port) }],
    clock,
    settings: {
      listen: [listen],
      freshness: { floor: '0s', negative: '0s' },
      suites: { keyrings: [archive.keyring] },
      archives: [{ origins: [`${host}/debian`], delay: '25m', verify: 'require' }],
    },
  })
  const aptOf = (name: string, suite: string) =>
    Apt.create({
      directory: join(directory, name),
      keyring: archive.keyring,
      proxy: `http://${listen}`,
      sources: [{ uri: `${origin.url}/debian`, suite, components: ['main'] }],
    })
  const [delayed, security] = [
    await aptOf('delayed', 'test'),
    await aptOf('security', 'jessie/updates'),
  ]
  /** The version of alpha that a machine would install after an update without any complaint. */
  const versionOf = async (apt: Apt): Promise<string | undefined> => {
    const update = await apt.update()
    t.strictSame([update.code, update.warnings, update.errors], [0, [], []], report(update))
    const { output } = await apt.run('apt-cache', 'policy', 'alpha')
    await cache.quiet()
    await cache.until(
      async () => (await cache.metric('cachesvc_suites_being_adopted')) === 0,
      () => false,
    )
    return /Candidate: 1\.(\d+)/.exec(output)?.[1]
  }
  const events: Readonly<Record<number, () => Promise<void> | void>> = {
    5: () => cache.restart(),
    6: () => clock.set(clock.now() + 200 * 24 * 60 * minute),
    8: () => clock.set(clock.now() - 200 * 24 * 60 * minute),
    9: () => clock.set(clock.now() - 60 * minute),
    10: () => cache.restart(),
  }
  for (let step = 1; step <= generations + 3; step += 1) {
    if (step > 1) clock.advance(apart)
    if (step > 1 && step <= generations) await archive.publish(packagesOf(step))
    await events[step]?.()
    t.equal(await versionOf(delayed), String(Math.max(1, step - 3)), `step ${step}`)
    if (step % 3 !== 0) continue
    t.equal(await versionOf(security), String(Math.min(step, generations)), 'a security suite')
  }
})
