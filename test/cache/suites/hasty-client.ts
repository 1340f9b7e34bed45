/**
 * A client that updates and installs in the same moment, while the indexes it has just got are still being read: a package that was
 * built again under its name comes with its new bytes.
 */
import t from 'tap'
import {
  asked,
  changingArchive,
  changingArchives,
} from '../../fixtures/archive/changing-archive.ts'
import { hexOf } from '../../fixtures/archive/tiny-archive.ts'
import { scriptedFiles } from '../../fixtures/store/files.ts'

const timeout = 60_000
const name = 'pool/main/b/built_1_all.deb'

t.test('a package that was built again, asked for at once', { timeout }, async t => {
  const archiveAt = await changingArchives(t)
  for (const byHash of [true, false]) {
    const archive = archiveAt(byHash ? 'hashed' : 'plain')
    const of = (day: number) =>
      archive.ofDay(day, { byHash, packages: { [name]: `build ${day} of the package` } })
    const url = (path: string): string => archive.origin.url(`/${path}`)
    archive.serve(await of(1))
    await archive.update()
    await archive.get(`${archive.root}/${name}`)
    await archive.settle()
    for (const day of [2, 3, 4]) {
      const next = await of(day)
      archive.serve(next)
      const client = await archive.cache.client()
      t.match((await client.get(url(archive.release), asked)).text, `Version: ${day}`)
      const index = next.get(archive.index) ?? Buffer.alloc(0)
      await client.get(url(byHash ? archive.hashed(index) : archive.index), asked)
      const answer = await client.get(url(`${archive.root}/${name}`))
      t.equal(answer.text, `build ${day} of the package`)
      await archive.settle()
    }
  }
})

t.test('the origin is asked once, and not by a client that has not updated', async t => {
  const archive = (await changingArchives(t))('debian')
  const of = (day: number) => archive.ofDay(day, { packages: { [name]: 'always the same' } })
  const url = (path: string): string => archive.origin.url(`/${path}`)
  archive.serve(await of(1))
  await archive.update()
  const path = `${archive.root}/${name}`
  await archive.get(path)
  await archive.settle()
  archive.serve(await of(2))
  const client = await archive.cache.client()
  await client.get(url(archive.release), asked)
  await client.get(url(archive.index), asked)
  const other = await archive.cache.client({ localAddress: '127.0.0.9' })
  t.match((await other.get(url(path))).fields.get('Cache-Status'), 'detail=immutable')
  t.match(
    (await client.get(url(path))).fields.get('Cache-Status'),
    /detail=(validated|as-released|immutable)/,
  )
  await archive.settle()
  t.match((await client.get(url(path))).fields.get('Cache-Status'), 'detail=immutable')
  t.ok(archive.origin.seen(`/${path}`).length <= 2)
})

for (const byHash of [true, false]) {
  t.test(`SHA-512 alone, ${byHash ? 'by hash' : 'plain'}, on a slow disk`, { timeout }, async t => {
    const scripted = scriptedFiles()
    const archive = await changingArchive(t, { disk: { files: scripted.files } })
    // The second has no version in its name.
    const names = [name, 'pool/main/b/app-365_amd64.deb']
    const of = (day: number) => {
      const packages = Object.fromEntries(names.map(path => [path, `build ${day} of ${path}`]))
      return archive.ofDay(day, { byHash, digests: ['SHA512'], packages })
    }
    const url = (path: string): string => archive.origin.url(`/${path}`)
    const adopting = () => archive.cache.metric('cachesvc_suites_being_adopted')
    archive.serve(await of(1))
    for (const path of names) await archive.get(`${archive.root}/${path}`)
    archive.clock.advance(3_000_000)
    // The origin confirms them when they are old: they are fresh for minutes.
    for (const path of names) await archive.get(`${archive.root}/${path}`)
    await archive.update()
    let day = 1
    for (const path of names) {
      day += 1
      const next = await of(day)
      archive.serve(next)
      const client = await archive.cache.client()
      t.match((await client.get(url(archive.release), asked)).text, `Version: ${day}`)
      await archive.cache.until(async () => (await adopting()) === 0)
      const index = next.get(archive.index) ?? Buffer.alloc(0)
      scripted.decide = (_, about) => (about.includes(hexOf('sha256', index)) ? 'hang' : 'done')
      await client.get(url(byHash ? archive.hashed(index, 'SHA512') : archive.index), asked)
      let answered = false
      const answer = client.get(url(`${archive.root}/${path}`)).finally(() => {
        answered = true
      })
      await archive.cache.until(async () => answered || (await adopting()) === 1)
      scripted.decide = () => 'done'
      scripted.release()
      t.equal((await answer).text, `build ${day} of ${path}`)
      await archive.settle()
    }
  })
}
