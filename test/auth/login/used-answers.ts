/**
 * IDs that were used up: across restarts, and when the disk refuses.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { openUsedIds } from '../../../lib/auth/login/used-answers.ts'
import { createMemoryLog } from '../../fixtures/log/memory-log.ts'
import { hrefOf } from '../../fixtures/saml/browser.ts'
import { SamlLab } from '../../fixtures/saml/lab.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const start = Date.UTC(2030, 0, 1)

function arranged(t: Test, path = join(t.testdir(), 'used')) {
  const clock = new ManualClock(start)
  const log = createMemoryLog()
  const open = async () => {
    const cache = await openUsedIds({ path, clock, log })
    t.teardown(() => cache.close())
    return cache
  }
  /** What all files of used IDs say, in one text. */
  const text = () =>
    readdirSync(dirname(path))
      .filter(name => /^used\.(?!damaged)/.test(name))
      .map(name => readFileSync(join(dirname(path), name), 'utf8'))
      .join('')
  return { clock, log, path, text, open }
}

t.test('an ID is used once, also after a restart, until its message is too old', async t => {
  const { clock, text, open } = arranged(t)
  const first = await open()
  const once = await Promise.all([1, 2, 3].map(() => first.consume(['a', 'b'], start + 1000)))
  t.same(once, ['first', 'again', 'again'])
  t.notMatch(text(), /"a"/, 'hashes alone')
  await first.close()
  const second = await open()
  t.equal(await second.consume(['b', 'c'], start + 1000), 'again')
  t.equal(
    await second.consume(['c'], start + 1000),
    'first',
    'what came with a used one is not used up',
  )
  clock.advance(1000)
  t.equal(await second.consume(['a'], start + 3000), 'first')
  await second.close()
  await open()
  t.equal(text().match(/\["/g)?.length, 1, 'the others have been dropped')
})

t.test('a list without room is not taken for a replay', async t => {
  const { open } = arranged(t)
  const cache = await open()
  const many = Array.from({ length: 100_001 }, (_, i) => String(i))
  t.equal(await cache.consume(many, start + 1000), 'full')
  t.equal(await cache.consume(['1'], start + 1000), 'first', 'and nothing of it is used up')
  await cache.close()
})

t.test('a damaged file is told and written anew', async t => {
  const { path, log, text, open } = arranged(t)
  for (const content of ['', 'hunter2', '{"version":1,"used":[]}\n']) {
    await writeFile(`${path}.0011223344556677`, content)
    const cache = await open()
    t.equal(await cache.consume([content], start + 1000), 'first')
    t.match(log.lines.at(-1), { level: 'error', message: /cannot be read/ })
    t.match(text(), /"end"/)
    t.equal(readFileSync(`${path}.damaged`, 'utf8'), content)
    t.notOk(existsSync(`${path}.0011223344556677`))
    await cache.close()
  }
})

t.test('where the disk refuses, the ID is used up all the same, and the log says so', async t => {
  const { log, open } = arranged(t, join(t.testdir(), 'none', 'used.json'))
  const cache = await open()
  t.equal(await cache.consume(['a'], start + 1000), 'first')
  t.equal(await cache.consume(['a'], start + 1000), 'again')
  t.match(log.lines.at(-1), { level: 'error', message: /could not be kept/ })
})

t.test('a captured answer signs no browser in after a restart', async t => {
  const lab = await SamlLab.open(t, 'okta', { config: { idpInitiated: true } })
  const xml = lab.idp.respond({})
  t.match(hrefOf(await lab.browser.deliver(xml)), /redirect/)
  await lab.restart()
  await lab.browser.other().deliver(xml)
  t.same(lab.codes, ['replay'])
  t.equal(lab.subjects.length, 1)
})
