/**
 * A file system that other programs fill: clients are served, nothing is stored, and each place that says how the service does says so.
 */
import t from 'tap'
import { TestCache } from '../fixtures/cache/cache.ts'
import { file, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'

t.test('nothing new is stored, and the service says so', async t => {
  const origin = await ScriptedOrigin.listen(t)
  // No file system has so much free.
  const settings = { retention: { free: '900000G' } }
  const cache = await TestCache.start(t, { origins: [origin], settings })
  const said = /nothing new is stored: other programs fill the file system/
  await cache.until(async () => (await cache.metric('cachesvc_store_writable')) === 0)
  const path = '/debian/pool/main/a/a_1_all.deb'
  origin.at(path, file({ content: '!<arch>\na', etag: '"1"' }))
  for (let n = 1; n <= 2; n += 1) {
    const answer = await cache.warm(origin.url(path))
    t.equal(answer.status, 200)
    t.match(answer.fields.get('X-Cache'), 'MISS')
    t.equal(origin.seen(path).length, n, 'each comes from the origin')
  }
  const health = await cache.get('/_cachesvc/healthz')
  t.equal(health.status, 200, 'clients are served')
  t.match(health.text, said)
  t.match(JSON.stringify(await cache.command({ do: 'status' })), said)
  t.match((await cache.get('/_cachesvc/')).text, said)

  await cache.reload({ retention: { free: '0' } })
  await cache.until(async () => (await cache.metric('cachesvc_store_writable')) === 1)
  t.equal((await cache.get('/_cachesvc/healthz')).text, 'ok\n')
  t.notMatch(JSON.stringify(await cache.command({ do: 'status' })), said)
  await cache.warm(origin.url(path))
  t.match((await cache.get(origin.url(path))).fields.get('X-Cache'), 'HIT')
})
