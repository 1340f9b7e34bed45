/**
 * The signature of a Release file that clients keep while the origin has a newer one: Release and Release.gpg are always a pair.
 */
import t from 'tap'
import { changingArchives } from '../../fixtures/archive/changing-archive.ts'
import { noSigningKey, SigningKey } from '../../fixtures/archive/signing-key.ts'

t.setTimeout(600_000)

/** A root for each: what is adopted first, signed or not, and why the second Release file is not given at first. */
const cases = [
  { root: 'unsigned-refused', signed: false, why: 'refused' },
  { root: 'unsigned-held', signed: false, why: 'held' },
  { root: 'signed-refused', signed: true, why: 'refused' },
  { root: 'signed-held', signed: true, why: 'held' },
  { root: 'required-refused', signed: true, why: 'refused', verify: 'require' },
] as const

t.test('a kept Release is never given with the next signature', { skip: noSigningKey }, async t => {
  const [key, other] = await Promise.all([SigningKey.create(), SigningKey.create()])
  t.teardown(() => Promise.all([key.close(), other.close()]))
  const archives = Object.fromEntries(
    cases.map(one => [
      one.root,
      { signed_by: [key.keyring], ...('verify' in one && { verify: one.verify }) },
    ]),
  )
  const settings = { freshness: { floor: '0s' }, suites: { keyrings: [] } }
  const archiveAt = await changingArchives(t, { settings, archives, now: Date.now() + 5000 })
  for (const { root, signed, why } of cases) {
    const archive = archiveAt(root)
    const { cache, origin } = archive
    const release = `${archive.suite}/Release`
    const signature = `${release}.gpg`
    const published = async (day: number, signs: boolean) => {
      const files = await archive.ofDay(day)
      const text = files.get(archive.release) ?? Buffer.alloc(0)
      files.delete(archive.release)
      if (signs) files.set(signature, await key.detachSign(text.toString()))
      return files.set(release, text)
    }
    const pairOf = (files: Awaited<ReturnType<typeof published>>) =>
      [release, signature].map(path => String(files.get(path) ?? 'none'))
    const given = async (): Promise<readonly string[]> => {
      const pair = [await archive.get(release), await archive.get(signature)]
      await archive.get(archive.index)
      await archive.settle()
      return pair.map(({ status, text }) => (status === 200 ? text : 'none'))
    }
    const [first, second] = [await published(1, signed), await published(2, true)]
    archive.remove([archive.release, signature])
    archive.serve(first)
    t.strictSame(await given(), pairOf(first), `${root}: first`)
    t.strictSame(await given(), pairOf(first), `${root}: adopted`)

    archive.serve(second)
    if (why === 'held') archive.remove([archive.index])
    else {
      // The archive tampers with the Release file, so that the signature of a known key does not fit.
      const wrong = Buffer.from(String(second.get(release)).replace('Version: 2', 'Version: 3'))
      archive.serve(new Map([[release, wrong]]))
    }
    for (const time of ['once', 'again', 'a third time']) {
      t.strictSame(await given(), pairOf(first), `${root}: ${why}, ${time}`)
    }
    // Any client, and HEAD: one that the cache has forgotten gets the adopted pair.
    await cache.restart()
    t.strictSame(await given(), pairOf(first), `${root}: after a restart`)
    archive.clock.advance(11 * 60_000)
    await archive.get(release)
    archive.clock.advance(10 * 60_000 + 1)
    if (why === 'refused') {
      const alone = await archive.get(signature)
      t.equal(alone.status === 200 ? alone.text : 'none', pairOf(first)[1], `${root}: asked alone`)
    }
    await archive.settle()
    if (!signed && why === 'refused') {
      const answer = await archive.get(signature)
      t.match(answer.text, 'belongs to another Release file')
      t.equal((await cache.head(origin.url(`/${signature}`))).status, 404)
    }

    archive.serve(second)
    await cache.until(async () => {
      const pair = await given()
      if (String(pair) === String(pairOf(second))) return true
      t.strictSame(pair, pairOf(first), `${root}: until the new pair is there`)
      return false
    })
    t.strictSame(await given(), pairOf(second), `${root}: the new pair`)
  }
})
