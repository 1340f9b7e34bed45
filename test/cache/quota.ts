/**
 * A quota on the wire: what does not fit is served all the same, and a quota that a reload lowers comes about.
 */
import t from 'tap'
import { TestCache } from '../fixtures/cache/cache.ts'
import { file, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'

const pathOf = (n: number): string => `/debian/pool/main/h/hello_${n}_all.deb`
const content = Buffer.alloc(300_000, 'the quick brown fox ')

t.test('everything is served within a quota, and what is used stays', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const retention = { size: '2M', object_size: '1M' }
  const cache = await TestCache.start(t, { origins: [origin], settings: { retention } })
  const bytesOf = (n: number): Buffer => Buffer.concat([Buffer.from(String(n)), content])
  for (let n = 0; n < 40; n += 1) {
    origin.at(pathOf(n), file({ content: bytesOf(n), etag: '"1"' }))
    // Put away before the next: what the disk does not have yet counts and cannot be removed, so that a used file would have to go.
    t.ok((await cache.warm(origin.url(pathOf(n)))).content.equals(bytesOf(n)))
    if (n > 0) t.ok((await cache.get(origin.url(pathOf(0)))).content.equals(bytesOf(0)))
  }
  t.equal(origin.seen(pathOf(0)).length, 1, 'a hit each time')
  t.ok(((await cache.metric('cachesvc_stored_bytes')) ?? 0) <= 2 << 20)
  const large = Buffer.alloc((1 << 20) + 1)
  origin.at('/large', file({ content: large, etag: '"1"' }))
  for (let n = 0; n < 2; n += 1) {
    const answer = await cache.get(origin.url('/large'))
    t.match(answer.fields.get('X-Cache'), /^MISS \(not stored: /)
    t.ok(answer.content.equals(large))
  }
  // What is stored late was used late.
  await cache.quiet()
  await cache.get(origin.url(pathOf(0)))
  t.strictSame(await cache.reload({ retention: { size: '1300K' } }), [])
  await cache.until(async () => ((await cache.metric('cachesvc_stored_bytes')) ?? 0) <= 1300 << 10)
  const hot = await cache.get(origin.url(pathOf(0)))
  t.equal(hot.fields.get('X-Cache'), 'HIT')
})
