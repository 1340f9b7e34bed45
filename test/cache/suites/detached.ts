/**
 * A Release file and its detached signature, which a mirror may have of different days.
 */
import t from 'tap'
import { changingArchives } from '../../fixtures/archive/changing-archive.ts'
import { noSigningKey, SigningKey } from '../../fixtures/archive/signing-key.ts'

t.test('a Release and its signature are always a pair', { skip: noSigningKey }, async t => {
  const key = await SigningKey.create()
  t.teardown(() => key.close())
  const archives = { known: { signed_by: [key.keyring] }, unknown: {} }
  const settings = { freshness: { floor: '0s' }, suites: { keyrings: [] } }
  const archiveAt = await changingArchives(t, { settings, archives, now: Date.now() + 5000 })
  for (const root of Object.keys(archives)) {
    const archive = archiveAt(root)
    const release = `${archive.suite}/Release`
    const signature = `${release}.gpg`
    const published = async (day: number) => {
      const files = await archive.ofDay(day)
      const text = files.get(archive.release) ?? Buffer.alloc(0)
      files.delete(archive.release)
      return files.set(release, text).set(signature, await key.detachSign(text.toString()))
    }
    const [first, second] = [await published(1), await published(2)]
    const given = async () => [
      (await archive.get(release)).text,
      (await archive.get(signature)).text,
    ]
    const pairOf = (files: typeof first) => [release, signature].map(path => `${files.get(path)}`)
    archive.serve(first)
    t.strictSame(await given(), pairOf(first))
    await archive.get(archive.index)
    await archive.settle()
    archive.serve(second, path => path !== signature)
    t.strictSame(await given(), pairOf(first), 'the signature is not there yet')
    await archive.settle()
    archive.serve(first)
    archive.serve(second, path => path !== release)
    t.strictSame(await given(), pairOf(first), 'the signature is there before its Release')
    await archive.settle()
    archive.serve(second)
    t.strictSame(await given(), pairOf(second))
  }
})
