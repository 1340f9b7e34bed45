/**
 * An origin that is gone, silent or failing: what was cached still installs, and apt learns the truth about the rest.
 */
import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { noLab, report, setUp, sourcesOf } from '../fixtures/cache/lab.ts'
import { peerUnderTest } from '../fixtures/cache/proxy-process.ts'
import { eventually } from '../fixtures/process/ports.ts'

/** apt gives up on a silent server after this many seconds, unless told otherwise. */
const aptTimeout = 30
const once = { 'Acquire::Retries': '0' }

t.setTimeout(600_000)

t.test('what was cached installs without the origin', { skip: noLab }, async t => {
  const lab = await setUp(t, { settings: { timeouts: { revalidation: '1s' } } })
  const warm = await lab.apt('warm')
  t.equal((await warm.update()).code, 0)
  t.equal((await warm.download('zeta')).code, 0)

  const installs = async (t: Test, name: string) => {
    const apt = await lab.apt(name)
    const update = await apt.update()
    t.strictSame([update.code, update.errors], [0, []], report(update))
    t.ok(update.seconds < aptTimeout, `update took ${update.seconds.toFixed(1)} s`)
    const warnings = update.warnings.join('\n')
    t.notMatch(warnings, /Failed to fetch/, { skip: peerUnderTest, ...report(update) })
    const install = await apt.download('zeta')
    t.strictSame([install.code, install.errors], [0, []], report(install))
    t.equal((await apt.downloaded()).length, 4)
  }

  await t.test('the origin fails with 503', async t => {
    lab.origin.behaviour = 'unavailable'
    await installs(t, 'failing')
  })
  await t.test('the origin accepts and never answers', async t => {
    lab.origin.behaviour = 'stall'
    await installs(t, 'silent')
  })
  await t.test('nobody listens at the origin', async t => {
    lab.origin.behaviour = 'serve'
    await lab.origin.goAway()
    await installs(t, 'gone')
  })
  await t.test(
    'nor does anybody after the proxy started again',
    { skip: peerUnderTest },
    async t => {
      lab.replace(await lab.proxy.restart())
      await installs(t, 'restarted')
    },
  )
  await t.test('the origin is back and is soon asked again', async t => {
    await lab.origin.comeBack()
    lab.origin.forget()
    const apt = await lab.apt('gone')
    const codes: (number | null)[] = []
    // A proxy may leave an origin that failed alone for a while.
    const asked = await eventually(async () => {
      await pause(500)
      codes.push((await apt.update()).code)
      return lab.origin.seen(/InRelease/).length > 0
    }, 30_000)
    t.ok(asked)
    t.ok(codes.every(code => code === 0))
  })
})

t.test('what was never cached: the status tells apt what to do', { skip: noLab }, async t => {
  const lab = await setUp(t)
  const { origin } = lab
  const index = `${origin.url}/debian/dists/test/InRelease`

  await t.test('503 of the origin: 503 with a text, apt keeps its lists', async t => {
    const apt = await lab.apt('keeps')
    // Lists from the origin itself; the proxy has seen nothing.
    await (await lab.apt('keeps', { proxy: 'DIRECT' })).update()
    const before = await apt.lists()
    t.ok(before.length > 8)
    origin.behaviour = 'unavailable'
    const answer = await lab.fetch(index)
    t.equal(answer.status, 503)
    t.ok(answer.content.length > 0, 'an empty one would make apt drop the suite')
    const update = await (await lab.apt('keeps', { settings: once })).update()
    t.strictSame([update.code, update.errors], [0, []], report(update))
    t.match(update.warnings, [/Failed to fetch.*503/])
    t.strictSame(await apt.lists(), before)
    origin.behaviour = 'serve'
  })

  await t.test('no origin: 502, 503 or 504 with a text, soon', async t => {
    await origin.goAway()
    const started = performance.now()
    const answer = await lab.fetch(index)
    t.match(String(answer.status), /^50[234]$/)
    t.ok(answer.content.length > 0)
    t.ok(performance.now() - started < aptTimeout * 1000)
    await origin.comeBack()
  })

  await t.test('404 stays 404, and apt goes on to Release and Release.gpg', async t => {
    await rm(join(lab.archive.root, 'flat/InRelease'))
    t.equal((await lab.fetch(`${origin.url}/flat/./InRelease`)).status, 404)
    const apt = await lab.apt('release-gpg', { sources: sourcesOf(origin.url).slice(3) })
    const update = await apt.update()
    t.strictSame([update.code, update.warnings, update.errors], [0, [], []], report(update))
    t.equal((await apt.download('alpha')).code, 0)
  })

  await t.test('by-hash gone at the origin: apt falls back to the plain name', async t => {
    origin.behaviour = 'missing'
    origin.only = /by-hash/
    const apt = await lab.apt('no-by-hash')
    const update = await apt.update()
    t.strictSame([update.code, update.errors], [0, []], report(update))
    t.equal((await apt.download('zeta')).code, 0)
  })

  await t.test('403 stays 403', async t => {
    origin.behaviour = 'forbidden'
    origin.only = /Release/
    t.equal((await lab.fetch(`${origin.url}/debian/dists/jessie/updates/Release`)).status, 403)
  })
})

t.test(
  'an index that is wrong: apt ends with 100 and names the cause',
  { skip: noLab },
  async t => {
    const lab = await setUp(t)
    const suite = join(lab.archive.root, 'debian/dists/test')
    for (const name of await readdir(suite, { recursive: true })) {
      if (!/^main\/binary-amd64\/(Packages|by-hash\/[^/]+\/[0-9a-f])/.test(name)) continue
      const content = await readFile(join(suite, name))
      content.writeUInt8(content.readUInt8(content.length - 1) ^ 1, content.length - 1)
      await writeFile(join(suite, name), content)
    }
    const apt = await lab.apt('wrong')
    const update = await apt.update()
    t.equal(update.code, 100, report(update))
    t.match(update.errors.join(), /520 {2}Hash Sum mismatch: the origin sent other content/, {
      skip: peerUnderTest,
      ...report(update),
    })
  },
)
