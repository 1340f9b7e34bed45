/**
 * `/_cachesvc/pinned/<SHA-256>/<archive>/…`: the generation that a Release file names, or 404.
 */
import t from 'tap'
import {
  type ChangingArchive,
  changingArchive,
  changingArchives,
} from '../fixtures/archive/changing-archive.ts'
import { type Files, hexOf } from '../fixtures/archive/tiny-archive.ts'
import type { RawResponse } from '../fixtures/http/raw-client.ts'

const settings = { suites: { snapshot_days: 30 } }

function pinned(
  { cache, origin }: ChangingArchive,
  digest: string,
  path: string,
): Promise<RawResponse> {
  return cache.get(`/_cachesvc/pinned/${digest}/127.0.0.1:${origin.port}/${path}`)
}

function digestOf(files: Files, path: string): string {
  return hexOf('sha256', files.get(path) ?? '')
}

t.test('a Release file has its own index, whatever came later', async t => {
  for (const byHash of [true, false]) {
    const archive = await changingArchive(t, { settings })
    const { release, index, root, cache } = archive
    const days: Files[] = []
    for (const day of [1, 2, 3]) {
      const files = await archive.ofDay(day, { byHash })
      archive.serve(files)
      await archive.until(`${day}`, t)
      days.push(files)
    }
    archive.remove([release, index])
    await cache.restart()
    for (const [n, files] of days.entries()) {
      const digest = digestOf(files, release)
      for (const path of [release, index, archive.hashed(files.get(index) ?? Buffer.alloc(0))]) {
        const { status, content } = await pinned(archive, digest.toUpperCase(), path)
        t.equal(status, 200, `${n} ${path}`)
        t.ok(files.get(path.includes('by-hash') ? index : path)?.equals(content), `${n} ${path}`)
      }
      const own = `${root}/pool/main/p/p_${n + 1}_all.deb`
      t.equal((await pinned(archive, digest, own)).text, `content ${n + 1} of debian`)
    }
  }
})

t.test('all else is 404 with what to do, and never other bytes', async t => {
  const archive = await changingArchive(t, { settings })
  const { release, index, suite, root, origin, cache } = archive
  const files = await archive.ofDay(1)
  const next = await archive.ofDay(2)
  archive.serve(files)
  const early = await pinned(archive, digestOf(files, release), release)
  t.match(early, {
    status: 404,
    reason: /^No Release file .*: set suites\.snapshot_days/,
  })
  await archive.until('1', t)
  const [digest, later] = [digestOf(files, release), digestOf(next, release)]
  const pool = `${root}/pool/main/p/p_1_all.deb`
  const kept = /No Release file with this SHA-256 is kept/
  for (const [sha, path, words] of [
    [later, release, kept],
    [later, index, kept],
    [later, pool, kept],
    [digestOf(files, index), index, kept],
    [digest, `${suite}/Release`, /does not name this file/],
    [digest, `${suite}/Release.gpg`, /does not name/],
    [digest, `${suite}/main/binary-all/Packages.xz`, /does not name/],
    [digest, `${suite}/main/installer-all/x`, /does not name/],
    [digest, 'other/dists/stable/InRelease', kept],
  ] as const) {
    const { status, reason, text } = await pinned(archive, sha, path)
    t.equal(status, 404, path)
    t.match(reason, words)
    t.match(text, words)
  }
  for (const sha of ['', 'x', digest.slice(1), `${digest}0`, '2025-03-14', '..'])
    t.equal((await pinned(archive, sha, release)).status, 400, sha)
  const [found] = await cache.explain({
    url: `http://127.0.0.1:${cache.port}/_cachesvc/pinned/${digest}/127.0.0.1:${origin.port}/${release}`,
  })
  t.equal(found?.fate, 'hit')
  await cache.command({ do: 'remove', of: origin.url(`/${release}`) })
})

t.test('offline, with HEAD and with a range', async t => {
  const archive = await changingArchive(t, { settings })
  const { release, index, cache, origin } = archive
  const files = await archive.ofDay(1)
  archive.serve(files)
  await archive.until('1', t)
  archive.serve(await archive.ofDay(2))
  await archive.until('2', t)
  await cache.reload({ ...settings, offline: true })
  const place = `/_cachesvc/pinned/${digestOf(files, release)}/127.0.0.1:${origin.port}`
  for (const path of [release, index]) {
    const content = files.get(path) ?? Buffer.alloc(0)
    const head = await cache.head(`${place}/${path}`)
    t.equal(head.fields.get('Content-Length'), String(content.length), path)
    const part = await cache.get(`${place}/${path}`, { Range: 'bytes=2-5' })
    t.strictSame([part.status, part.content], [206, content.subarray(2, 6)], path)
  }
})

t.test('what a delay keeps from clients is not there for a pin', async t => {
  const archives = { debian: { delay: '72h', except: [] } }
  const archive = (await changingArchives(t, { settings, archives }))('debian')
  archive.serve(await archive.ofDay(1))
  await archive.until('1', t)
  const files = await archive.ofDay(1800)
  archive.serve(files)
  await archive.update()
  const { status } = await pinned(archive, digestOf(files, archive.release), archive.release)
  t.equal(status, 404)
})

t.test('the Release file of a directory is a file of its generation', async t => {
  const archive = await changingArchive(t, { settings })
  const { release, suite, cache, origin } = archive
  const content = Buffer.from('Component: main\n')
  const digest = hexOf('sha256', content)
  const files = await archive.ofDay(1, { byHash: true })
  const line = ` ${digest} ${content.length} main/binary-all/Release\n`
  files.set(release, Buffer.concat([files.get(release) ?? Buffer.alloc(0), Buffer.from(line)]))
  files.set(`${suite}/main/binary-all/by-hash/SHA256/${digest}`, content)
  archive.serve(files)
  await archive.until('1', t)
  const path = `${suite}/main/binary-all/Release`
  t.match(await pinned(archive, digestOf(files, release), path), { status: 200, content })
  const day = `/_cachesvc/snapshot/2025-03-14/127.0.0.1:${origin.port}/${path}`
  t.match(await cache.get(day), { status: 200, content })
})

t.test('a pin leads to no place that is not allowed', async t => {
  const archive = await changingArchive(t, { settings })
  const { release, cache } = archive
  const files = await archive.ofDay(1)
  archive.serve(files)
  await archive.until('1', t)
  const place = `/_cachesvc/pinned/${digestOf(files, release)}`
  for (const path of [
    `/other.example.org/${release}`,
    '/other.example.org/debian/pool/x_1_all.deb',
  ])
    t.equal((await cache.get(`${place}${path}`)).status, 403, path)
  for (const path of ['/../x.example.org/a', '/%2e%2e/%2e%2e/x', '//'])
    t.ok((await cache.get(`${place}${path}`)).status >= 400, path)
})
