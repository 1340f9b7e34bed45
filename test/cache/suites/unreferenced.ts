/**
 * `retention.unreferenced`: packages that no index names any more are removed after a time, and nothing else is.
 */
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { rootOf } from '../../../lib/cache/archive/suite-layout.ts'
import { Layout } from '../../../lib/cache/store/disk/disk.ts'
import {
  baseOf,
  type Generation,
  type ListedContent,
  withNextGeneration,
} from '../../../lib/cache/suites/generation.ts'
import { openAdopted } from '../../../lib/cache/suites/known-suites.ts'
import { References } from '../../../lib/cache/suites/references.ts'
import { TableBuilder } from '../../../lib/cache/suites/table.ts'
import { tablePath } from '../../../lib/cache/suites/tables.ts'
import { UnreferencedPackages } from '../../../lib/cache/suites/unreferenced.ts'
import { changingArchive } from '../../fixtures/archive/changing-archive.ts'
import { hexOf } from '../../fixtures/archive/tiny-archive.ts'
import { file } from '../../fixtures/http/scripted-origin.ts'
import { keep, opened, until } from '../../fixtures/store/opened.ts'

const day = 24 * 3600 * 1000
const site = 'http://archive.example.org/debian'
const at = `${site}/dists/stable`
const [old, steady] = ['pool/main/o/old_1_amd64.deb', 'pool/main/s/steady_1_amd64.deb']
const main = 'main/binary-amd64/Packages.gz'
const looked = 'retention: looked for packages that no index names'

/** Indexes by path, with the paths of the packages that each names. The content of a package is its path. */
type Indexes = Readonly<Record<string, readonly string[]>>

/** A store with adopted suites, and what removes packages from it. */
async function lab(t: Test) {
  const { store, directory, clock, log } = await opened(t)
  const layout = new Layout(directory)
  await mkdir(layout.suites, { recursive: true })
  const adopted = await openAdopted({ cacheDirectory: directory, clock, log, memory: 1 << 20 })
  const { known } = adopted
  const suites = { references: new References(adopted), adoptions: { count: 0 } }
  const recorded = new Set<string>()
  const settings = { after: 3 * day }
  const removed: number[] = []
  let releases = 0
  const start = () =>
    UnreferencedPackages.start({
      ...{ cacheDirectory: directory, clock, log, store, suites },
      stays: digest => recorded.has(digest),
      after: () => settings.after,
      onRemoved: bytes => removed.push(bytes),
    })
  let unreferenced = await start()
  t.teardown(() => unreferenced.close())

  /** What a generation lists, with the contents of its indexes stored and their tables made. */
  const generationWith = async (indexes: Indexes, suite: string): Promise<Generation> => {
    releases += 1
    const contents: ListedContent[] = []
    const tables = []
    for (const [path, names] of Object.entries(indexes)) {
      const builder = new TableBuilder()
      const stanzas = names.map(name => {
        builder.add(name, { size: name.length, digest: hexOf('sha256', name) })
        const digest = hexOf('sha256', name)
        return `Package: x\nFilename: ${name}\nSize: ${name.length}\nSHA256: ${digest}\n`
      })
      const content = gzipSync(`${stanzas.join('\n')}# ${path}`)
      const { digest, size } = await keep(
        store,
        `${suite}/${dirname(path)}/by-hash/SHA256/${hexOf('sha256', content)}`,
        content,
      )
      contents.push({ path, digest, size })
      if (path.endsWith('.bz2')) continue
      await writeFile(tablePath(layout, digest), builder.finish())
      tables.push({ table: digest, root: rootOf(baseOf({ at: suite }), builder.common) })
    }
    const release = await keep(store, `${suite}/InRelease`, Buffer.from(`${releases}`))
    return {
      release: { name: 'InRelease', digest: release.digest, size: release.size },
      byHash: true,
      signature: { is: 'unchecked' },
      adopted: clock.now(),
      indexes: tables,
      contents,
    }
  }
  const publish = async (indexes: Indexes, suite = at): Promise<void> => {
    const next = await generationWith(indexes, suite)
    await known.put(withNextGeneration(known.at(suite), { at: suite, next, days: 0 }))
    await adopted.tables.keepOnly(known.tables())
  }
  const put = async (...paths: readonly string[]): Promise<void> => {
    for (const path of paths) await keep(store, `${site}/${path}`, Buffer.from(path))
  }
  const looks = (): number => log.lines.filter(({ message }) => message === looked).length
  return {
    ...{ store, directory, layout, clock, log, known, suites, recorded, settings, removed },
    ...{ put, publish, generationWith, looks },
    figures: () => unreferenced.figures,
    holds: (path: string): boolean => store.peek(`${site}/${path}`) !== undefined,
    /** So many generations that name the steady package alone: with four the first is kept no more. */
    async forget(count = 4): Promise<void> {
      for (let n = 0; n < count; n += 1) await publish({ [main]: [steady] })
    },
    async days(count: number): Promise<void> {
      for (let n = 0; n < count; n += 1) {
        const before = looks()
        clock.advance(day)
        await until(() => looks() > before)
        // The next look is an hour after this one has ended.
        await new Promise(resolve => setImmediate(resolve))
      }
    },
    async restart(): Promise<void> {
      await unreferenced.close()
      unreferenced = await start()
    },
  }
}

/** With both packages stored, and named by one generation. */
async function begun(t: Test) {
  const made = await lab(t)
  await made.publish({ [main]: [old, steady] })
  await made.put(old, steady)
  return made
}

t.test(
  'a package goes when no index has named it for the time, and no other file does',
  async t => {
    const { put, forget, days, holds, figures, removed, log } = await begun(t)
    const others = [
      'pool/main/x/foreign_1_arm64.deb',
      'pool/main/x/source_1.dsc',
      'pool/main/x/installer_1_amd64.udeb',
      'pool/contrib/x/contrib_1_amd64.deb',
      '../other/pool/main/x/elsewhere_1_amd64.deb',
      'tools/readme.txt',
      'dists/stable/main/installer-amd64/linux',
    ]
    const independent = 'pool/main/x/anywhere_1_all.deb'
    await put(...others, independent)
    await forget()
    await days(3)
    t.ok(holds(old), 'not before the time has passed')
    t.match(figures(), { files: 2, bytes: old.length + independent.length, removedFiles: 0 })
    await days(1)
    t.notOk(holds(old))
    t.notOk(holds(independent))
    for (const path of [steady, ...others]) t.ok(holds(path), path)
    t.match(figures(), { files: 0, bytes: 0, removedFiles: 2 })
    t.strictSame(removed, [old.length, independent.length])
    const because = log.lines.filter(({ message }) => /because no index names/.test(message))
    t.match(because[0]?.facts, { key: `${site}/${old}` })
  },
)

t.test('an index speaks for its kind, its architecture and its component', async t => {
  const { publish, put, days, holds } = await lab(t)
  const gone = [
    'pool/main/a/a_2_arm64.deb',
    'pool/main/a/a_2.dsc',
    'pool/main/a/a_2.orig.tar.gz',
    'pool/main/i/i_2_arm64.udeb',
  ]
  const kept = ['pool/main/a/a_2_amd64.deb', 'pool/main/i/i_2_amd64.udeb', 'pool/contrib/c_2.dsc']
  await publish({
    'main/binary-arm64/Packages.gz': ['pool/main/a/a_1_arm64.deb'],
    'main/source/Sources.gz': ['pool/main/a/a_1.dsc'],
    'main/debian-installer/binary-arm64/Packages.gz': ['pool/main/i/i_1_arm64.udeb'],
    'main/binary-amd64/Packages.gz': [],
  })
  await put(...gone, ...kept)
  await days(5)
  for (const path of gone) t.notOk(holds(path), path)
  for (const path of kept) t.ok(holds(path), path)
})

t.test('what stays although the adopted index does not name it', async t => {
  await t.test('what a past generation names that is kept', async t => {
    const { forget, days, holds } = await begun(t)
    await forget(1)
    await days(6)
    t.ok(holds(old))
    await forget(3)
    await days(1)
    t.notOk(holds(old), 'until that one is gone')
  })
  await t.test('what a past generation may name whose index cannot be read', async t => {
    const { forget, days, holds, layout, known } = await begun(t)
    const [first] = known.at(at)?.generations ?? []
    await forget(1)
    const blob = layout.blob(first?.contents[0]?.digest ?? '')
    await writeFile(blob, (await readFile(blob)).subarray(0, 20))
    await days(5)
    t.ok(holds(old))
    await rm(blob)
    await days(1)
    t.ok(holds(old), 'as long as that generation is kept, a look does not ask again')
  })
  await t.test('what a past generation names whose index is stored in another packing', async t => {
    const { forget, publish, put, days, holds, known, layout } = await lab(t)
    const packings = { [main]: [old, steady], 'main/binary-amd64/Packages.bz2': [old, steady] }
    await publish(packings)
    await put(old, steady)
    const contents = known.at(at)?.generations[0]?.contents ?? []
    await rm(layout.blob(contents.find(({ path }) => path === main)?.digest ?? ''))
    await forget(1)
    await days(6)
    t.ok(holds(old))
  })
  await t.test('what a waiting generation names', async t => {
    const { forget, days, holds, known, generationWith } = await begun(t)
    await forget()
    const next = await generationWith({ [main]: [old] }, `${site}/waits`)
    await known.note(at, { waiting: [{ ...next, seen: 0, noticed: 0 }] })
    await days(6)
    t.ok(holds(old))
  })
  await t.test('what another suite of the archive names', async t => {
    const { forget, publish, days, holds } = await begun(t)
    await publish({ [main]: [old] }, `${site}/dists/testing`)
    await forget()
    await days(6)
    t.ok(holds(old))
  })
  await t.test('what is named again during the look', async t => {
    const { forget, days, holds, store, known, suites, generationWith } = await begun(t)
    await forget()
    await days(3)
    const next = await generationWith({ [main]: [old, steady] }, at)
    store.remove(`${at}/InRelease`)
    const { references } = suites
    const others = references.others.bind(references)
    references.others = () => {
      const found = others()
      void known.put(withNextGeneration(known.at(at), { at, next, days: 0 }))
      return found
    }
    await days(1)
    t.ok(holds(old))
  })
  await t.test('what was named again meanwhile', async t => {
    const { forget, publish, days, holds } = await begun(t)
    await forget()
    await days(3)
    await publish({ [main]: [old, steady] })
    await days(1)
    await forget()
    await days(3)
    t.ok(holds(old), 'the time begins anew')
    await days(1)
    t.notOk(holds(old))
  })
  await t.test('what a client asked for in the time', async t => {
    const { forget, days, holds, store } = await begun(t)
    await forget()
    await days(3)
    store.touch(`${site}/${old}`)
    await days(2)
    t.ok(holds(old))
    await days(2)
    t.notOk(holds(old))
  })
  await t.test('what a build was given', async t => {
    const { forget, days, holds, recorded } = await begun(t)
    recorded.add(hexOf('sha256', old))
    await forget()
    await days(6)
    t.ok(holds(old))
  })
  await t.test('everything, while a Release file that clients use is not adopted', async t => {
    const { forget, days, holds, store } = await begun(t)
    const odd = `${site}/dists/odd/InRelease`
    await keep(store, odd, Buffer.from('Suite: odd\n'))
    await forget()
    await days(6)
    t.ok(holds(old))
    store.remove(odd)
    await keep(store, `${at}/main/binary-amd64/Release`, Buffer.from('Component: main\n'))
    await days(4)
    t.notOk(holds(old), 'that of a component is none')
  })
  await t.test('everything, while an index in use cannot be read', async t => {
    const { forget, publish, days, holds } = await begun(t)
    await publish({ 'main/binary-amd64/Packages.bz2': [] }, `${site}/dists/odd`)
    await forget()
    await days(6)
    t.ok(holds(old))
  })
  await t.test('everything, while a table is missing', async t => {
    const { forget, days, holds, known, layout, restart } = await begun(t)
    await forget()
    const [{ table = '' } = {}] = known.at(at)?.generations[0]?.indexes ?? []
    await rm(tablePath(layout, table))
    await restart()
    await days(6)
    t.ok(holds(old), 'as far as the memory has it no more')
  })
  await t.test('everything, while suites are being adopted, and unless it is set', async t => {
    const { forget, holds, settings, suites, clock, looks, figures } = await begun(t)
    await forget()
    suites.adoptions.count = 1
    clock.advance(9 * day)
    suites.adoptions.count = 0
    settings.after = 0
    clock.advance(9 * day)
    t.equal(looks(), 0)
    t.equal(figures(), undefined)
    t.ok(holds(old))
  })
})

t.test('the time goes on after a restart, and counts only while it is looked', async t => {
  const { forget, publish, put, days, holds, restart, clock, figures } = await begun(t)
  await forget()
  await days(3)
  await restart()
  t.match(figures(), { files: 1 })
  await days(1)
  t.notOk(holds(old), 'after a restart')
  await publish({ [main]: [old, steady] })
  await put(old)
  await forget()
  await days(1)
  clock.set(clock.now() + 90 * day)
  await restart()
  await days(1)
  t.ok(holds(old), 'a clock that was set forward')
  clock.set(clock.now() - 90 * day)
  await days(1)
  t.ok(holds(old), 'and back')
  await days(2)
  t.notOk(holds(old))
})

t.test('damaged files of moments make the time begin anew', async t => {
  const name = '0123456789abcdef'
  const head = '{"version":1,"looked":1,"files":1,"bytes":1,"removedFiles":1,"removedBytes":1}'
  for (const text of [
    '',
    'null',
    '{"version":2}',
    `${head.replace('"looked":1', '"looked":-1')}`,
    `${head}\n{}`,
    `${head}\n[1,["${name}x"]]`,
    `${head}\n[1,[7]]`,
  ]) {
    const { directory, log, restart, figures } = await lab(t)
    await writeFile(join(directory, 'unreferenced.jsonl'), text)
    await restart()
    t.equal(figures(), undefined, text)
    const [first] = log.lines.filter(({ level }) => level === 'warn')
    t.match(first?.message, /cannot read since when no index names packages/)
  }
  const { directory, restart, figures, days, forget } = await begun(t)
  await writeFile(join(directory, 'unreferenced.jsonl'), `${head}\n[1,["${name}"]]\n`)
  await restart()
  t.match(figures(), { looked: 1, removedFiles: 1 })
  await forget()
  await days(1)
  const written = await readFile(join(directory, 'unreferenced.jsonl'), 'utf8')
  t.match(written, /^\{"version":1,.*\}\n\[\d+,\["[0-9a-f]{16}"\]\]\n$/)
})

t.test('the page of the cache, status and metrics tell of it', async t => {
  const settings = { retention: { unreferenced: '1d' }, verification: { interval: '0s' } }
  const archive = await changingArchive(t, { settings })
  const { cache, origin, clock } = archive
  archive.serve(await archive.ofDay(1))
  await archive.until('1', t)
  const path = '/debian/pool/main/g/gone_1_all.deb'
  origin.at(path, file({ content: 'gone', etag: '"1"' }))
  await archive.get(path.slice(1))
  await archive.settle()
  t.match((await cache.get('/_cachesvc/cache')).text, /for 1 day,.*The first look comes within an/s)
  const looks = () => cache.log.lines.filter(({ message }) => message === looked).length
  for (const count of [1, 2, 3]) {
    clock.leap(day)
    await cache.until(() => looks() === count)
  }
  t.equal(await cache.metric('cachesvc_unreferenced_files'), 0)
  t.equal(await cache.metric('cachesvc_removed_unreferenced_files_total'), 1)
  t.equal(await cache.metric('cachesvc_removed_unreferenced_bytes_total'), 4)
  const page = await cache.get('/_cachesvc/cache')
  t.match(page.text, /Removed so far because no index names them: 1 file, 4 bytes/)
  t.match(JSON.stringify(await cache.command({ do: 'status' })), /removed so far: 1 file, 4 bytes/)
})
