/**
 * An archive that needs longer for a head than `timeouts.fields`, as those that make their files on demand: what apt gets directly, it gets
 * through the cache. The limits are small, so that seconds stand for minutes.
 */
import { readFile } from 'node:fs/promises'
import t from 'tap'
import type { Apt } from '../fixtures/archive/apt.ts'
import { awkwardPackages, updatedPackages } from '../fixtures/archive/archive.ts'
import { noLab, report, setUp } from '../fixtures/cache/lab.ts'

const timeouts = { connect: '500ms', fields: '1s', revalidation: '500ms' }
const patient = { 'Acquire::http::Timeout': '20' }
/** Longer than `connect` and `fields` together. */
const headTime = 2500

t.setTimeout(600_000)

t.test(
  'a package whose head is late comes, directly and through the cache',
  { skip: noLab },
  async t => {
    const lab = await setUp(t, { settings: { timeouts } })
    for (const proxy of ['DIRECT', lab.proxy.url]) {
      lab.origin.headTime = 0
      const apt = await lab.apt(proxy === 'DIRECT' ? 'direct' : 'through', {
        proxy,
        settings: patient,
      })
      t.equal((await apt.update()).code, 0)
      lab.origin.headTime = headTime
      lab.origin.only = /\.deb$/
      const install = await apt.download('zeta')
      t.strictSame([install.code, install.errors], [0, []], report(install))
    }
  },
)

t.test('a new Release whose head is late arrives', { skip: noLab }, async t => {
  const lab = await setUp(t, { settings: { timeouts } })
  const through = await lab.apt('through', { settings: patient })
  const direct = await lab.apt('direct', { proxy: 'DIRECT', settings: patient })
  for (const apt of [through, direct]) t.equal((await apt.update()).code, 0)
  await lab.archive.publish(updatedPackages)
  lab.origin.headTime = headTime
  lab.origin.only = /Release/
  await direct.update()
  const wanted = await releases(direct)
  t.not(wanted, await releases(through))
  let seconds = 0
  const begun = performance.now()
  while ((await releases(through)) !== wanted && seconds < 60) {
    const update = await through.update()
    t.strictSame([update.code, update.errors], [0, []], report(update))
    seconds = (performance.now() - begun) / 1000
  }
  t.equal(await releases(through), wanted, `after ${seconds.toFixed(1)} s`)
  t.comment(`the new Release came after ${seconds.toFixed(1)} s`)
  await lab.archive.publish(awkwardPackages)
})

t.test('an archive with a login waits as long as apt does', { skip: noLab }, async t => {
  const lab = await setUp(t, { settings: { timeouts }, origin: { credentials: 'user:word' } })
  const apt = await lab.apt('login', {
    settings: patient,
    sources: [
      {
        uri: `${lab.origin.url.replace('//', '//user:word@')}/debian`,
        suite: 'test',
        components: ['main'],
      },
    ],
  })
  lab.origin.headTime = 6000
  lab.origin.only = /\/InRelease$/
  const update = await apt.update()
  t.strictSame([update.code, update.warnings, update.errors], [0, [], []], report(update))
})

/** The Release files that apt has, as one text. */
async function releases(apt: Apt): Promise<string> {
  const names = (await apt.lists()).filter(name => /test_(In)?Release$/.test(name))
  return (await Promise.all(names.map(name => readFile(apt.listed(name), 'utf8')))).join('')
}
