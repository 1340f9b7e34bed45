/**
 * Content with a label that is wrong, on the wire: what a signed index says of it decides, then how it begins, then the label.
 */
import { createHash } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { releaseOf } from '../fixtures/archive/tiny-archive.ts'
import { TestCache } from '../fixtures/cache/cache.ts'
import { file, reply, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

const now = Date.parse('2025-03-14T12:00:00Z')
const suite = '/debian/dists/stable'
const labelled = { fields: { 'Content-Type': 'text/html' } }
const ask = { 'Cache-Control': 'max-age=0' }

async function begun(t: Test, mirrors = false) {
  const origin = await ScriptedOrigin.listen(t)
  const second = await ScriptedOrigin.listen(t)
  const origins = [origin, second]
  const archives = [{ origins: origins.map(({ port }) => `127.0.0.1:${port}/debian`) }]
  const settings = mirrors ? { archives } : {}
  const cache = await TestCache.start(t, { origins, clock: new ManualClock(now), settings })
  return { origin, second, cache }
}

t.test(
  'an index that the Release names is stored, whatever its label and its beginning',
  async t => {
    const { origin, cache } = await begun(t)
    const gzip = gzipSync('Package: a\n')
    const xz = Buffer.from('\xfd7zXZ\0\0 not a gzip', 'latin1')
    const indexes: ReadonlyArray<readonly [string, Buffer]> = [
      ['main/binary-amd64/Packages.gz', gzip],
      ['main/binary-i386/Packages.gz', xz],
      ['main/binary-arm64/Packages.gz', Buffer.alloc(0)],
      ['main/binary-arm64/Packages.xz', gzip.subarray(0, 20)],
      ['main/i18n/Translation-en', Buffer.from('<Package>: a\n')],
    ]
    origin.at(`${suite}/InRelease`, file({ content: releaseOf(indexes) }))
    await cache.warm(origin.url(`${suite}/InRelease`), ask)
    await cache.until(async () => (await cache.metric('cachesvc_suites_being_adopted')) === 0)
    for (const [path, content] of indexes) {
      const url = `${suite}/${path}`
      origin.at(url, file({ content, ...labelled }))
      const first = await cache.warm(origin.url(url), ask)
      t.match(first.fields.get('Cache-Status'), 'stored; detail=absent; verified=index', path)
      const again = await cache.get(origin.url(url), ask)
      t.equal(again.fields.get('X-Cache'), 'HIT', path)
      t.ok(again.content.equals(content))
      t.equal(origin.seen(url).length, 1, 'the origin is asked once')
    }
    t.equal(await cache.metric('cachesvc_impostor_responses_total'), 0)
  },
)

t.test('files of a pool that begin as they should are stored, whatever their label', async t => {
  const { origin, cache } = await begun(t)
  const beginnings: Readonly<Record<string, string>> = {
    ...{ 'a_1_all.deb': '!<arch>\n', 'a_1_all.udeb': '!<arch>\n', 'a_1.dsc': '-----BEGIN PGP ' },
    ...{
      'a_1.orig.tar.gz': '\x1f\x8b',
      'a_1-1.debian.tar.xz': '\xfd7zXZ\0',
      'b_1.dsc': 'Format: 3.0',
    },
  }
  for (const [name, beginning] of Object.entries(beginnings)) {
    for (const type of ['text/html', 'text/html; charset=utf-8', 'application/xhtml+xml']) {
      const path = `/debian/pool/${type.length}/${name}`
      const content = Buffer.from(`${beginning} and more`, 'latin1')
      origin.at(path, file({ content, fields: { 'Content-Type': type } }))
      await cache.warm(origin.url(path))
      t.equal((await cache.get(origin.url(path))).fields.get('X-Cache'), 'HIT', `${name} ${type}`)
    }
  }
})

t.test(
  'a page in place of a file that an index names is not waited for: the next origin is asked',
  async t => {
    const { origin, second, cache } = await begun(t, true)
    const content = gzipSync('Package: a\n')
    const path = 'main/binary-amd64/Packages.gz'
    const release = file({ content: releaseOf([[path, content]]) })
    for (const one of [origin, second]) one.at(`${suite}/InRelease`, release)
    await cache.warm(origin.url(`${suite}/InRelease`), ask)
    origin.at(`${suite}/${path}`, reply({ content: '<html>', framing: 'chunked', ...labelled }))
    second.at(`${suite}/${path}`, file({ content, ...labelled }))
    const answer = await cache.warm(origin.url(`${suite}/${path}`), ask)
    t.ok(answer.content.equals(content))
    t.equal((await cache.get(origin.url(`${suite}/${path}`), ask)).fields.get('X-Cache'), 'HIT')
  },
)

t.test('a name by digest is judged by the digest', async t => {
  const { origin, second, cache } = await begun(t, true)
  const content = Buffer.from('Package: a\n')
  const hex = createHash('sha256').update(content).digest('hex')
  const path = `${suite}/main/binary-amd64/by-hash/SHA256/${hex}`
  for (const one of [origin, second]) one.at(path, file({ content, ...labelled }))
  await cache.warm(origin.url(path), ask)
  t.equal((await cache.get(origin.url(path), ask)).fields.get('X-Cache'), 'HIT')
})
