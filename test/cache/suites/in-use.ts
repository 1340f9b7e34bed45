/**
 * Which files of a suite count as used by clients: an update waits for those and for no others.
 */
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { day } from '../../../lib/async/clock.ts'
import { parentOf } from '../../../lib/cache/archive/path.ts'
import { type ChangingArchive, changingArchive } from '../../fixtures/archive/changing-archive.ts'
import { type Files, hexOf, releaseOf } from '../../fixtures/archive/tiny-archive.ts'
import { reply } from '../../fixtures/http/scripted-origin.ts'

const nothing = Buffer.alloc(0)

/** The index clients use, of a day. */
function mainIndex(n: number): Buffer {
  const digest = String(n).repeat(64)
  return gzipSync(`Package: x\nFilename: pool/p_${n}_all.deb\nSize: 1\nSHA256: ${digest}\n`)
}

function dateOf(n: number): string {
  return new Date(Date.UTC(2025, 0, 1, n)).toUTCString().replace('GMT', 'UTC')
}

/** A Release of a day and the index clients use. The mirror lacks all others that the Release names. */
function partial(
  { suite, release, index }: ChangingArchive,
  n: number,
  others: Readonly<Record<string, Buffer>>,
): Files {
  const main = mainIndex(n)
  const named = [
    [index.slice(suite.length + 1), main] as const,
    ...Object.entries(others).map(([path, content]) => [path, content] as const),
  ]
  const text = `Version: ${n}\n${releaseOf(named, ['SHA256'], dateOf(n))}`
  return new Map([
    [release, Buffer.from(text)],
    [index, main],
  ])
}

t.test('a file that only has the content of a stored one is not in use', async t => {
  const archive = await changingArchive(t)
  const { suite, origin } = archive
  const [elsewhere, own] = ['else/where/nothing.txt', 'contrib/binary-amd64/Packages.gz']
  const empty = gzipSync(nothing)
  const others = (plain: Buffer, packed: Buffer) => ({
    'contrib/binary-amd64/Packages': plain,
    [own]: empty,
    'contrib/binary-armel/Packages.gz': packed,
  })
  origin.at(`/${elsewhere}`, reply({ status: 200, content: '' }))
  await archive.get(elsewhere)
  archive.serve(partial(archive, 1, others(nothing, empty)))
  archive.serve(new Map([[`${suite}/${own}`, empty]]))
  t.strictSame(await archive.update(), { day: '1', fits: true })
  await archive.get(`${suite}/${own}`)
  t.strictSame(await archive.update(), { day: '1', fits: true })
  const changed = Buffer.from('Package: y\n')
  archive.serve(partial(archive, 2, others(changed, gzipSync(changed))))
  await archive.update()
  t.strictSame(await archive.update(), { day: '2', fits: true })
})

t.test('a file in use whose next content is stored under another name stays in use', async t => {
  const archive = await changingArchive(t)
  const { suite, origin } = archive
  const [own, other] = ['contrib/binary-amd64/Packages.gz', 'contrib/binary-all/Packages.gz']
  const contents = ['Package: a\n', '', 'Package: c\n'].map(text => gzipSync(text))
  const publish = (n: number): void => {
    const content = contents[n - 1] ?? nothing
    archive.serve(partial(archive, n, { [own]: content, [other]: gzipSync(nothing) }))
    archive.serve(new Map([[`${suite}/${own}`, content]]))
  }
  archive.serve(new Map([[`${suite}/${other}`, gzipSync(nothing)]]))
  publish(1)
  await archive.update()
  for (const path of [own, other]) await archive.get(`${suite}/${path}`)
  await archive.settle()
  publish(2)
  await archive.until('2', t)
  publish(3)
  origin.at(`/${suite}/${own}`, reply({ status: 404, content: 'not there yet' }))
  t.strictSame(await archive.update(), { day: '2', fits: true })
  publish(3)
  await archive.until('3', t)
})

t.test('a file known only by a name that another shares is not waited for', async t => {
  for (const plainly of [false, true]) {
    const archive = await changingArchive(t)
    const { suite, origin } = archive
    const [amd64, arm64] = ['amd64', 'arm64'].map(name => `main/dep11/Components-${name}.yml.gz`)
    if (amd64 === undefined || arm64 === undefined) return
    const hashed = (content: Buffer) =>
      `${suite}/main/dep11/by-hash/SHA256/${hexOf('sha256', content)}`
    const publish = (n: number, own: Buffer, other: Buffer): void => {
      archive.serve(partial(archive, n, { [amd64]: own, [arm64]: other }))
      for (const path of [`${suite}/${amd64}`, hashed(own)]) archive.serve(new Map([[path, own]]))
    }
    const empty = gzipSync(nothing)
    publish(1, empty, empty)
    await archive.get(plainly ? `${suite}/${amd64}` : hashed(empty))
    await archive.update()
    const own = gzipSync('amd64')
    publish(2, own, gzipSync('arm64'))
    if (plainly) {
      origin.at(`/${suite}/${amd64}`, reply({ status: 404, content: 'not there yet' }))
      t.strictSame(await archive.update(), { day: '1', fits: true }, 'in use')
      publish(2, own, gzipSync('arm64'))
    }
    await archive.update()
    t.strictSame(await archive.update(), { day: '2', fits: true }, 'the mirror lacks the other')
    origin.at(`/${hashed(own)}`, reply({ status: 404, content: 'gone' }))
    t.ok((await archive.get(hashed(own))).content.equals(own), 'it was fetched with its Release')
  }
})

t.test('a file that no client has asked for in a fortnight is not waited for', async t => {
  const archive = await changingArchive(t)
  const { suite, origin } = archive
  const own = 'contrib/binary-amd64/Packages.gz'
  const content = gzipSync('Package: a\n')
  archive.serve(partial(archive, 1, { [own]: content }))
  archive.serve(new Map([[`${suite}/${own}`, content]]))
  await archive.update()
  await archive.get(`${suite}/${own}`)
  await archive.settle()
  origin.at(`/${suite}/${own}`, reply({ status: 404, content: 'gone' }))
  archive.serve(partial(archive, 2, { [own]: gzipSync('Package: b\n') }))
  const { clock } = archive
  clock.set(clock.now() + 13 * day)
  t.strictSame(await archive.update(), { day: '1', fits: true })
  clock.set(clock.now() + day)
  await archive.until('2', t)
})

t.test('an index whose explanation is read is not in use for that', async t => {
  const archive = await changingArchive(t)
  const { suite, origin, cache, clock } = archive
  const own = 'contrib/binary-amd64/Packages.gz'
  const url = origin.url(`/${suite}/${own}`)
  const release = (n: number, content: Buffer) => {
    archive.serve(partial(archive, n, { [own]: content }))
    archive.serve(new Map([[`${suite}/${own}`, content]]))
  }
  release(1, gzipSync('Package: a\n'))
  await archive.update()
  await archive.get(`${suite}/${own}`)
  await archive.settle()
  const fetched = origin.seen(`/${suite}/${own}`).length
  clock.set(clock.now() + 13 * day)
  const explained = await cache.get(`/_cachesvc/explain?url=${encodeURIComponent(url)}`)
  t.match(explained.text, 'A request now')
  clock.set(clock.now() + 2 * day)
  release(2, gzipSync('Package: b\n'))
  await archive.until('2', t)
  t.equal(origin.seen(`/${suite}/${own}`).length, fetched, 'it is not fetched with its Release')
})

t.test('of two digests the stronger one counts: clients ask by it', async t => {
  const archive = await changingArchive(t)
  const { suite, release, index } = archive
  const directory = parentOf(index)
  const dayOf = (n: number) => {
    const main = mainIndex(n)
    const named = releaseOf(
      [[index.slice(suite.length + 1), main]],
      ['SHA256', 'SHA512'],
      dateOf(n),
    )
    const text = `Version: ${n}\nAcquire-By-Hash: yes\n${named}`
    const hashed = `${directory}/by-hash/SHA512/${hexOf('sha512', main)}`
    const files: Files = new Map([
      [release, Buffer.from(text)],
      [hashed, main],
    ])
    return { files, hashed, main, text }
  }
  const days = [1, 2, 3].map(dayOf)
  const [first, second, third] = days
  if (first === undefined || second === undefined || third === undefined) return
  archive.serve(first.files)
  for (const path of [release, first.hashed]) await archive.get(path)
  await archive.settle()
  archive.serve(second.files)
  t.equal((await archive.get(release)).text, second.text)
  archive.remove(second.files.keys())
  const kept = await archive.get(second.hashed)
  t.ok(kept.content.equals(second.main), 'it was fetched with its Release')
  await archive.settle()
  archive.serve(third.files, path => path === release)
  t.equal((await archive.get(release)).text, second.text, 'it is still in use')
})

t.test('an index in use gets the names that all its digests give it', async t => {
  const archive = await changingArchive(t)
  const { suite, release, index, origin } = archive
  const main = mainIndex(1)
  const named = releaseOf([[index.slice(suite.length + 1), main]], ['SHA256', 'SHA512'], dateOf(1))
  archive.serve(
    new Map([
      [release, named],
      [index, main],
    ]),
  )
  for (const path of [release, index]) await archive.get(path)
  await archive.settle()
  const stored = await archive.cache.stored()
  for (const name of ['SHA256', 'SHA512']) {
    const key = origin.url(`/${parentOf(index)}/by-hash/${name}/${hexOf(name, main)}`)
    t.ok(stored.includes(key), name)
  }
})
