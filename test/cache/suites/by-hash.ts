/**
 * The names by digest under which the cache itself puts content: only content that has the digest, whatever a Release file says.
 */
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { parentOf } from '../../../lib/cache/archive/path.ts'
import { type ChangingArchive, changingArchive } from '../../fixtures/archive/changing-archive.ts'
import { type Files, hexOf, releaseOf } from '../../fixtures/archive/tiny-archive.ts'

const real = gzipSync('Package: another\n')

/** A day whose Release names an index by its right SHA-256, and by the SHA-512 of other content. */
function lying({ suite, release, index: path }: ChangingArchive, day: number): Files {
  const own = gzipSync(`Package: day-${day}\n`)
  const date = new Date(Date.UTC(2025, 0, 1, day)).toUTCString().replace('GMT', 'UTC')
  const named = releaseOf([[path.slice(suite.length + 1), own]], ['SHA256', 'SHA512'], date)
  const text = named.toString().replace(hexOf('sha512', own), hexOf('sha512', real))
  return new Map([
    [release, Buffer.from(`Acquire-By-Hash: yes\n${text}`)],
    [path, own],
  ])
}

/** The path of the other content. */
function pathOf({ index }: ChangingArchive): string {
  return `${parentOf(index)}/by-hash/SHA512/${hexOf('sha512', real)}`
}

t.test('content that a client asked for by its plain name', async t => {
  const archive = await changingArchive(t)
  archive.serve(lying(archive, 1))
  for (const path of [archive.release, archive.index]) await archive.get(path)
  await archive.settle()
  archive.serve(new Map([[pathOf(archive), real]]))
  t.ok((await archive.get(pathOf(archive))).content.equals(real))
})

for (const has of [true, false]) {
  t.test(`content that is fetched ahead, the mirror has the other: ${has}`, async t => {
    const archive = await changingArchive(t)
    const [first, second] = [lying(archive, 1), lying(archive, 2)]
    archive.serve(first)
    for (const path of [archive.release, archive.index]) await archive.get(path)
    await archive.settle()
    archive.serve(second)
    const others: Files = new Map([[pathOf(archive), real]])
    if (has) archive.serve(others)
    const { content } = await archive.get(archive.release)
    t.ok(content.equals(second.get(archive.release) ?? real), 'its index has come')
    await archive.settle()
    archive.serve(others)
    t.ok((await archive.get(pathOf(archive))).content.equals(real))
  })
}
