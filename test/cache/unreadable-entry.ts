/** An entry that the disk cannot read is not an absent one: the client gets the file, and all who look are told why. */
import t, { type Test } from 'tap'
import { TestCache } from '../fixtures/cache/cache.ts'
import { file, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'
import { scriptedFiles } from '../fixtures/store/files.ts'

const deb = '/debian/pool/main/h/hello_1_all.deb'
const release = '/debian/dists/stable/InRelease'

/** A cache with stored files, whose log of entries cannot be read. */
async function unreadable(t: Test) {
  const scripted = scriptedFiles()
  const origin = await ScriptedOrigin.listen(t)
  origin.at('*', file({ content: 'hello', etag: '"1"' }))
  const cache = await TestCache.start(t, { origins: [origin], disk: { files: scripted.files } })
  await cache.warm(origin.url(deb))
  await cache.warm(origin.url(release))
  await cache.restart()
  scripted.decide = (call, about) =>
    call === 'readv' && about.includes('entries.log') ? { code: 'EIO' } : 'done'
  return { cache, origin, scripted }
}

t.test('a request', async t => {
  const { cache, origin } = await unreadable(t)
  for (const path of [deb, release]) {
    const answer = await cache.get(origin.url(path))
    t.equal(answer.text, 'hello')
    t.equal(answer.fields.get('X-Cache'), 'MISS')
    t.match(answer.fields.get('Cache-Status'), /fwd=uri-miss.*; stored; detail=unreadable/)
    t.equal(origin.seen(path).length, 2)
  }
  t.equal((await cache.get(origin.url(deb))).fields.get('X-Cache'), 'HIT', 'it is stored anew')
})

t.test('explain', async t => {
  const { cache, origin, scripted } = await unreadable(t)
  const page = await cache.get(`/_cachesvc/explain?url=${encodeURIComponent(origin.url(deb))}`)
  t.match(page.text, 'the disk cannot read the entry')
  t.match(page.text, 'is fetched from the origin, streamed and stored (unreadable)')
  scripted.decide = () => 'done'
  const again = await cache.get(`/_cachesvc/explain?url=${encodeURIComponent(origin.url(deb))}`)
  t.notMatch(again.text, 'cannot read')
})
