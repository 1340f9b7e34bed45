/**
 * A Release file and its detached signature, which a mirror may have of different days.
 */
import t from 'tap'
import { openAdopted, standingOf } from '../../../lib/cache/suites/known-suites.ts'
import { silentLog } from '../../../lib/log/log.ts'
import { changingArchive, changingArchives } from '../../fixtures/archive/changing-archive.ts'
import { noSigningKey, SigningKey } from '../../fixtures/archive/signing-key.ts'
import { hexOf } from '../../fixtures/archive/tiny-archive.ts'
import { reply } from '../../fixtures/http/scripted-origin.ts'

t.setTimeout(600_000)

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

t.test('so they are where other clients use InRelease', async t => {
  const archive = await changingArchive(t)
  const release = `${archive.suite}/Release`
  const signature = `${release}.gpg`
  const published = async (day: number, until: number) => {
    const validUntil = new Date(Date.UTC(2025, 2, until)).toUTCString().replace('GMT', 'UTC')
    const files = await archive.ofDay(day, { more: `Valid-Until: ${validUntil}\n` })
    const text = files.get(archive.release) ?? ''
    files.set(archive.release, Buffer.from(`X-In-Place: yes\n${text}`))
    return files.set(release, Buffer.from(text)).set(signature, Buffer.from(`signature ${day}`))
  }
  const given = async (): Promise<readonly (string | undefined)[]> => {
    const answers = [await archive.get(release), await archive.get(signature)]
    await archive.settle()
    const days = answers.map(({ text }) => /(?:Version:|signature) (\d+)/.exec(text)?.[1])
    return [...days, answers[0]?.fields.get('Cache-Status')?.split('detail=')[1]]
  }
  const [first, second] = [await published(1, 15), await published(2, 30)]
  archive.serve(first)
  t.strictSame(await archive.update(), { day: '1', fits: true })
  t.strictSame(await given(), ['1', '1', 'absent'])
  t.strictSame(await archive.update(), { day: '1', fits: true })
  t.strictSame(await given(), ['1', '1', 'validated'])
  archive.serve(second, path => path !== archive.index)
  t.strictSame(await given(), ['1', '1', 'stale-suite-incomplete'])
  archive.clock.set(Date.UTC(2025, 2, 16))
  t.strictSame(await given(), ['2', '2', 'changed'], 'the earlier one has expired')
  archive.serve(second)
  t.strictSame(await given(), ['2', '2', 'validated'])
  t.strictSame(await archive.update(), { day: '2', fits: true })
  t.strictSame(await given(), ['2', '2', 'validated'])
  const { cache, clock } = archive
  await cache.stop()
  const about = { cacheDirectory: cache.directory, clock, log: silentLog, memory: 0 }
  const adopted = await openAdopted(about)
  for (const files of [first, second]) {
    const digest = hexOf('sha256', files.get(signature) ?? '')
    t.equal(standingOf(adopted, digest), 'generation', 'it is kept as long as its Release')
  }
})

t.test('a Release file that is signed anew', { skip: noSigningKey }, async t => {
  const [key, other] = await Promise.all([SigningKey.create(), SigningKey.create()])
  t.teardown(() => Promise.all([key.close(), other.close()]))
  const archives = { known: { signed_by: [key.keyring, other.keyring] }, unknown: {} }
  const settings = { freshness: { floor: '0s' }, suites: { keyrings: [] } }
  const archiveAt = await changingArchives(t, { settings, archives, now: Date.now() + 5000 })
  for (const root of Object.keys(archives)) {
    const archive = archiveAt(root)
    const { cache, origin } = archive
    const release = `${archive.suite}/Release`
    const signature = `${release}.gpg`
    const published = async (day: number, by: SigningKey) => {
      const files = await archive.ofDay(day)
      const text = files.get(archive.release) ?? Buffer.alloc(0)
      files.delete(archive.release)
      return files.set(release, text).set(signature, await by.detachSign(text.toString()))
    }
    const get = (path: string, fields: Record<string, string>) =>
      cache.get(origin.url(`/${path}`), fields)
    const asked = { 'Cache-Control': 'max-age=0' }
    const given = async (fields: Record<string, string> = asked): Promise<string> => {
      await get(release, asked)
      const { text } = await get(signature, fields)
      await archive.settle()
      return text
    }
    const first = await published(1, key)
    archive.serve(first)
    t.equal(await given(), String(first.get(signature)))
    await archive.get(archive.index)
    await archive.settle()
    t.equal(await given(), String(first.get(signature)), 'it is adopted')

    const anew = await published(1, other)
    archive.serve(anew)
    t.equal(await given(), String(anew.get(signature)), `${root}: with the next update`)

    const bad = await published(2, key)
    archive.serve(bad, path => path === signature)
    t.equal(await given(), String(anew.get(signature)), `${root}: not that of another Release`)

    archive.serve(first)
    const url = origin.url(`/${signature}`)
    const { fields, text } = await get(signature, { 'Cache-Control': 'no-cache' })
    t.equal(text, String(first.get(signature)), `${root}: with no-cache alone`)
    t.match(fields.get('Cache-Status'), 'detail=validated')
    await archive.settle()

    archive.serve(anew)
    await cache.command({ do: 'refresh', of: url })
    t.equal((await get(signature, {})).text, String(anew.get(signature)), `${root}: with refresh`)
    await archive.settle()

    archive.serve(first)
    await cache.command({ do: 'remove', of: url })
    await archive.settle()
    t.equal((await get(signature, {})).text, String(first.get(signature)), `${root}: with remove`)
    await archive.settle()
    t.equal(await given(), String(first.get(signature)))

    archive.serve(anew)
    await cache.command({ do: 'remove', of: url })
    await cache.command({ do: 'remove', of: origin.url(`/${release}`) })
    await cache.restart()
    t.equal(await given({}), String(anew.get(signature)), `${root}: after a restart`)
  }
})

t.test('a Release file replaced by one with an older date', { skip: noSigningKey }, async t => {
  const key = await SigningKey.create()
  t.teardown(() => key.close())
  const archives = { known: { signed_by: [key.keyring] }, unknown: {}, unsigned: {} }
  const settings = { freshness: { floor: '0s' }, suites: { keyrings: [] } }
  const archiveAt = await changingArchives(t, { settings, archives, now: Date.now() + 5000 })
  for (const root of Object.keys(archives)) {
    const archive = archiveAt(root)
    const release = `${archive.suite}/Release`
    const signature = `${release}.gpg`
    const published = async (day: number, signed = true) => {
      const files = await archive.ofDay(day)
      const text = files.get(archive.release) ?? Buffer.alloc(0)
      files.delete(archive.release)
      if (signed) files.set(signature, await key.detachSign(text.toString()))
      return files.set(release, text)
    }
    const [first, second] = [await published(1, root !== 'unsigned'), await published(2)]
    // No ETag, and a file that is older than what the client has counts as not modified.
    const serve = (files: typeof first): void => {
      archive.serve(files)
      const content = files.get(release) ?? ''
      archive.origin.at(`/${release}`, answer =>
        answer.request.fields.has('If-Modified-Since')
          ? reply({ status: 304 })(answer)
          : reply({ content, fields: { 'Last-Modified': 'Wed, 01 Jan 2025 00:00:00 GMT' } })(
              answer,
            ),
      )
    }
    const update = async (): Promise<readonly string[]> => {
      const pair = [await archive.get(release), await archive.get(signature)]
      await archive.get(archive.index)
      await archive.settle()
      return pair.map(({ status, text }) => (status === 404 ? 'gone' : text))
    }
    const pairOf = (files: typeof first) =>
      [release, signature].map(path => String(files.get(path) ?? 'gone'))
    if (!first.has(signature)) archive.remove([signature])
    serve(first)
    t.strictSame(await update(), pairOf(first), root)
    t.strictSame(await update(), pairOf(first), `${root}: it is adopted`)
    serve(second)
    t.strictSame(await update(), pairOf(second), `${root}: both are the new ones`)
    const { length } = archive.origin.seen(`/${release}`)
    await update()
    t.equal(archive.origin.seen(`/${release}`).length, length + 1, 'it is asked for once again')
  }
})

t.test(
  'a signature that retention has removed does not come from the origin as it was',
  async t => {
    const archive = await changingArchive(t)
    const release = `${archive.suite}/Release`
    const files = await archive.ofDay(1)
    files.set(release, files.get(archive.release) ?? Buffer.alloc(0))
    files.delete(archive.release)
    archive.serve(files.set(`${release}.gpg`, Buffer.from('signature 1')))
    await archive.get(release)
    await archive.get(`${release}.gpg`)
    await archive.settle()
    const { cache } = archive
    await cache.stop()
    const { openStore } = await import('../../../lib/cache/store/store.ts')
    const { clock } = archive
    const store = await openStore({ directory: cache.directory, clock, log: silentLog, memory: 0 })
    for (const path of [release, `${release}.gpg`]) {
      const key = archive.origin.url(`/${path}`)
      const entry = await store.get(key)
      if (entry !== undefined) await store.evict(key, { digest: entry.digest, content: true })
    }
    await store.close()
    await cache.restart()
    archive.serve(new Map([[`${release}.gpg`, Buffer.from('signature 2')]]))
    t.equal((await archive.get(release)).status, 200)
    t.equal((await archive.get(`${release}.gpg`)).text, 'signature 2')
  },
)
