/**
 * An archive that goes back to an earlier day, or stops signing: clients never get the Release file of one day and the indexes of
 * another, and an operator can have what was adopted forgotten.
 */
import t, { type Test } from 'tap'
import { type ChangingArchive, changingArchives } from '../../fixtures/archive/changing-archive.ts'
import { noSigningKey, SigningKey } from '../../fixtures/archive/signing-key.ts'
import { type Files, tinyArchive } from '../../fixtures/archive/tiny-archive.ts'

t.setTimeout(600_000)

/** The same files with the Release file under the name `Release`, unsigned. */
function unsigned(archive: ChangingArchive, files: Files): Files {
  const found = new Map(files)
  found.set(`${archive.suite}/Release`, files.get(archive.release) ?? Buffer.alloc(0))
  found.delete(archive.release)
  return found
}

/** A client's update by InRelease, or, when there is none, by Release, as apt asks. */
async function updated(archive: ChangingArchive): Promise<{ day: string; fits: boolean }> {
  if ((await archive.get(archive.release)).status === 200) return archive.update()
  const release = await archive.get(`${archive.suite}/Release`)
  const { content, status } = await archive.get(archive.index)
  await archive.settle()
  const day = /^Version: (\d+)/m.exec(release.text)?.[1] ?? ''
  const files = await archive.ofDay(Number(day))
  return {
    day,
    fits: status === 200 && content.equals(files.get(archive.index) ?? Buffer.alloc(0)),
  }
}

async function signedArchives(t: Test, roots: readonly string[], verify = 'prefer') {
  const key = await SigningKey.create()
  t.teardown(() => key.close())
  const archives = Object.fromEntries(
    roots.map(root => [root, { verify, signed_by: [key.keyring] }]),
  )
  const archiveAt = await changingArchives(t, { archives, now: Date.now() + 5000 })
  return { archiveAt, sign: (text: string): Promise<Buffer> => key.clearSign(text) }
}

for (const [name, signs] of [
  ['unsigned', false],
  ['signed', true],
] as const) {
  t.test(
    `an archive goes back, its Release file is removed here, and it goes on: ${name}`,
    { skip: signs && noSigningKey },
    async t => {
      const { archiveAt, sign } = signs
        ? await signedArchives(t, ['debian'])
        : { archiveAt: await changingArchives(t), sign: undefined }
      const archive = archiveAt('debian')
      const options = sign === undefined ? {} : { sign }
      const { cache, origin } = archive
      archive.serve(await archive.ofDay(5, options))
      t.strictSame(await archive.update(), { day: '5', fits: true })
      archive.serve(await archive.ofDay(2, options))
      t.strictSame(await archive.update(), { day: '5', fits: true }, 'kept: it is older')
      const url = origin.url(`/${archive.release}`)
      const { text } = await cache.get(`/_cachesvc/explain?url=${encodeURIComponent(url)}`)
      t.match(text, /Kept[\s\S]*older than the one adopted before/)
      t.match(await cache.command({ do: 'status' }), { out: /older than the one adopted before/ })
      await cache.command({ do: 'remove', of: url })
      for (const day of [2, 3, 4]) {
        archive.serve(await archive.ofDay(day, options))
        t.strictSame(await archive.update(), { day: String(day), fits: true })
      }
      const warned = cache.log.lines.filter(({ message }) => message === 'verification of a suite')
      t.equal(warned.length, 1, 'only what came before the removal was refused')
      const status = await cache.command({ do: 'status' })
      t.match(status, { out: /Connections/ })
      t.notMatch(status, { out: /older/ })
    },
  )
}

t.test('the Release file goes from the store by itself while the archive is back', async t => {
  const archive = (await changingArchives(t))('debian')
  archive.serve(await archive.ofDay(5))
  t.strictSame(await archive.update(), { day: '5', fits: true })
  // The origin has no suite for a while, for longer than that counts as a fault.
  archive.remove([archive.release])
  archive.serve(unsigned(archive, await archive.ofDay(5)), path => path.endsWith('/Release'))
  t.equal((await archive.get(archive.release)).status, 404)
  await archive.settle()
  for (const day of [2, 3, 4]) {
    archive.serve(await archive.ofDay(day))
    t.strictSame(await archive.update(), { day: String(day), fits: true })
  }
})

t.test('an archive stops signing', { skip: noSigningKey }, async t => {
  const { archiveAt, sign } = await signedArchives(t, ['debian'])
  const archive = archiveAt('debian')
  archive.serve(await archive.ofDay(1, { sign }))
  t.strictSame(await archive.update(), { day: '1', fits: true })
  archive.remove([archive.release])
  for (const day of [2, 3, 4]) {
    archive.serve(unsigned(archive, await archive.ofDay(day)))
    t.strictSame(await updated(archive), { day: String(day), fits: true })
  }
  const rebuilt = { [`pool/main/p/p_4_all.deb`]: 'rebuilt' }
  const files = await archive.ofDay(5, { packages: rebuilt })
  archive.serve(unsigned(archive, files))
  await archive.get(`${archive.suite}/Release`)
  await archive.settle()
  await archive.get(archive.index)
  await archive.settle()
  t.equal((await archive.get(`${archive.root}/pool/main/p/p_4_all.deb`)).text, 'rebuilt')
})

t.test(
  'a signed archive becomes a flat one without signatures',
  { skip: noSigningKey },
  async t => {
    const { archiveAt, sign } = await signedArchives(t, ['debian'])
    const archive = archiveAt('debian')
    archive.serve(await archive.ofDay(1, { sign }))
    t.strictSame(await archive.update(), { day: '1', fits: true })
    archive.remove([archive.release, archive.index])
    for (const day of [2, 3, 4]) {
      const content = `content of ${day}`
      const date = new Date(Date.UTC(2025, 0, 1, day)).toUTCString().replace('GMT', 'UTC')
      const flat = { base: 'debian', root: 'debian', directory: '', date }
      const files = tinyArchive({ ...flat, packages: { 'pool/main/p/p_1_all.deb': content } })
      // The first flat one is signed, in the directory in which the next are not.
      const text = String(files.get('debian/Release'))
      archive.remove(['debian/InRelease', 'debian/Release'])
      if (day === 2) files.delete('debian/Release')
      archive.serve(day === 2 ? files.set('debian/InRelease', await sign(text)) : files)
      const first = await archive.get('debian/InRelease')
      const release = first.status === 200 ? first.text : (await archive.get('debian/Release')).text
      const packages = await archive.get('debian/Packages.gz')
      await archive.settle()
      t.match(release, String(packages.content.length))
      t.equal((await archive.get('debian/pool/main/p/p_1_all.deb')).text, content)
    }
  },
)

t.test(
  'where a signature is required an unsigned archive is not adopted',
  { skip: noSigningKey },
  async t => {
    const { archiveAt, sign } = await signedArchives(t, ['debian'], 'require')
    const archive = archiveAt('debian')
    archive.serve(await archive.ofDay(2, { sign }))
    t.strictSame(await archive.update(), { day: '2', fits: true })
    for (const files of [await archive.ofDay(3), await archive.ofDay(1, { sign })]) {
      archive.serve(files)
      t.strictSame(await archive.update(), { day: '2', fits: true })
    }
  },
)

t.test('an operator has each file of an adopted suite confirmed, or forgotten', async t => {
  const archive = (await changingArchives(t))('debian')
  const { cache, origin } = archive
  archive.serve(await archive.ofDay(1))
  const pool = `${archive.root}/pool/main/p/p_1_all.deb`
  const files = [archive.release, archive.index, pool]
  const takeAll = async (fields: Record<string, string> = {}): Promise<void> => {
    for (const path of files) {
      t.equal((await cache.get(origin.url(`/${path}`), fields)).status, 200, path)
      await archive.settle()
    }
  }
  await takeAll()
  const asked = (): readonly number[] => files.map(path => origin.seen(`/${path}`).length)
  await takeAll()
  t.strictSame(asked(), [1, 1, 1])
  await cache.command({ do: 'refresh', of: '*' })
  await takeAll()
  t.strictSame(asked(), [2, 2, 2])
  await takeAll({ 'Cache-Control': 'no-cache' })
  t.strictSame(asked(), [3, 3, 3])
  await takeAll()
  t.strictSame(asked(), [3, 3, 3], 'they are confirmed')
  await cache.command({ do: 'remove', of: '*' })
  await takeAll()
  t.equal(asked()[0], 4, 'what its Release names may still be on the disk, and is right')
})

t.test('an index that is removed is not waited for', async t => {
  const archive = (await changingArchives(t))('debian')
  const { cache, origin } = archive
  archive.serve(await archive.ofDay(1))
  t.strictSame(await archive.update(), { day: '1', fits: true })
  archive.serve(await archive.ofDay(2), path => path !== archive.index)
  archive.remove([archive.index])
  t.strictSame(await archive.update(), { day: '1', fits: true }, 'it is waited for')
  await cache.command({ do: 'remove', of: origin.url(`/${archive.index}`) })
  t.match((await archive.get(archive.release)).text, /^Version: 2$/m)
})
