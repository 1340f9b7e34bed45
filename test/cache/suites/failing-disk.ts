/**
 * A disk that cannot be read for a while: what was adopted is not forgotten for that, and files are compared again when it is back.
 */
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import {
  asked,
  type ChangingArchive,
  changingArchive,
} from '../../fixtures/archive/changing-archive.ts'
import { hexOf } from '../../fixtures/archive/tiny-archive.ts'
import { file } from '../../fixtures/http/scripted-origin.ts'
import { scriptedFiles } from '../../fixtures/store/files.ts'

t.setTimeout(600_000)

/** An archive of which two days have been adopted, on a disk whose files can be made unreadable. */
async function adoptedTwice(t: Test) {
  const scripted = scriptedFiles()
  const settings = { suites: { snapshot_days: 5 } }
  const archive = await changingArchive(t, { settings, disk: { files: scripted.files } })
  for (const day of [1, 2]) {
    archive.serve(await archive.ofDay(day))
    await archive.until(String(day), t)
  }
  return {
    archive,
    scripted,
    /** Nothing that has one of these in its path can be read. */
    unreadable: (...names: readonly string[]): void => {
      scripted.decide = (call, about) =>
        call === 'readv' && names.some(name => about.includes(name)) ? { code: 'EIO' } : 'done'
    },
  }
}

/** The generations of the one suite that is known, as the disk has them. */
async function generations({ cache }: ChangingArchive): Promise<number> {
  const directory = join(cache.directory, 'v2/suites')
  const [name = ''] = (await readdir(directory)).filter(one => one.endsWith('.json'))
  return JSON.parse(await readFile(join(directory, name), 'utf8')).generations.length
}

t.test('tables and entries that cannot be read for a while', async t => {
  const { archive, unreadable } = await adoptedTwice(t)
  const { cache, origin } = archive
  const path = `/${archive.root}/pool/main/p/p_2_all.deb`
  const url = origin.url(path)
  unreadable('.table')
  await cache.restart()
  unreadable('.table', 'entries.log')
  origin.at(path, file({ content: 'wrong content' }))
  for (const how of ['fetched', 'stored']) {
    t.equal((await cache.warm(url)).text, 'wrong content', `it cannot be compared when ${how}`)
  }
  await archive.settle()
  unreadable()
  t.equal(await cache.metric('cachesvc_adopted_suites'), 1)
  t.equal(await generations(archive), 2, 'the days before are known, too')
  const again = await cache.get(url).catch(() => undefined)
  t.not(again?.text, 'wrong content', 'it does not count as compared')
  archive.serve(await archive.ofDay(2))
  await cache.until(
    async () =>
      (await archive.get(path.slice(1)).catch(() => undefined))?.text ===
      `content 2 of ${archive.root}`,
  )
})

t.test(
  'tables that were made again count, also when the disk then fails to say of entries',
  async t => {
    const { archive, unreadable } = await adoptedTwice(t)
    const { cache, origin } = archive
    const url = origin.url(`/${archive.root}/pool/main/p/p_2_all.deb`)
    await cache.warm(url)
    await cache.stop()
    const directory = join(cache.directory, 'v2/suites')
    const tables = (await readdir(directory)).filter(name => name.endsWith('.table'))
    for (const name of tables) await writeFile(join(directory, name), 'damaged')
    await cache.restart()
    const explained = async (of: string): Promise<string> =>
      (await cache.get(`/_cachesvc/explain?url=${encodeURIComponent(of)}`)).text
    // Both entries are in memory from here on.
    await explained(origin.url(`/${archive.release}`))
    t.notMatch(await explained(url), 'Named by')
    unreadable('entries.log')
    await cache.get(url)
    await archive.settle()
    unreadable()
    t.ok(cache.log.lines.some(({ message }) => message.includes('not adopted again')))
    t.match(await explained(url), 'Named by')
  },
)

t.test('a new Release file that comes while no entry can be read', async t => {
  const { archive, unreadable } = await adoptedTwice(t)
  const { cache } = archive
  await cache.restart()
  unreadable('entries.log')
  archive.serve(await archive.ofDay(3))
  await archive.get(archive.release)
  await archive.settle()
  t.equal(await cache.metric('cachesvc_adopted_suites'), 1)
  unreadable()
  await archive.until('3', t)
  t.equal(await generations(archive), 3)
})

t.test('what is known of suites cannot be read at the start', async t => {
  const { archive, unreadable } = await adoptedTwice(t)
  const { cache } = archive
  unreadable('/suites/')
  await cache.restart()
  t.equal(await cache.metric('cachesvc_adopted_suites'), 0)
  unreadable()
  archive.serve(await archive.ofDay(3))
  await archive.until('3', t)
  t.equal(await cache.metric('cachesvc_adopted_suites'), 1)
  t.equal(await generations(archive), 3, 'it was not written over')
})

t.test('what cannot be read then is not written over', async t => {
  const { archive, unreadable } = await adoptedTwice(t)
  const { cache } = archive
  unreadable('/suites/')
  await cache.restart()
  archive.serve(await archive.ofDay(3))
  await archive.until('3', t)
  t.equal(await generations(archive), 2)
  unreadable()
  await cache.restart()
  archive.serve(await archive.ofDay(4))
  await archive.until('4', t)
  t.equal(await generations(archive), 3)
})

t.test('a lost table of a past generation has its suite adopted anew once', async t => {
  const { archive, scripted } = await adoptedTwice(t)
  const { cache, origin } = archive
  const third = await archive.ofDay(3)
  archive.serve(third)
  const table = `${hexOf('sha256', third.get(archive.release) ?? '')}.table`
  scripted.decide = (_, about) => (about.includes(table) ? { code: 'ENOENT' } : 'done')
  const [old, other] = [await cache.client(), await cache.client({ localAddress: '127.0.0.9' })]
  t.match((await old.get(origin.url(`/${archive.release}`), asked)).text, 'Version: 3')
  await archive.settle()
  archive.serve(await archive.ofDay(4))
  t.match((await other.get(origin.url(`/${archive.release}`), asked)).text, 'Version: 4')
  await archive.settle()
  const adoptions = (): number =>
    cache.log.lines.filter(({ message }) => message === 'adopted a suite').length
  const before = adoptions()
  const ask = async (): Promise<number> => {
    await old.get(origin.url(`/${archive.index}`), asked).catch(() => undefined)
    await archive.settle()
    return adoptions() - before
  }
  t.same([await ask(), await ask(), await ask()], [1, 1, 1])
})
