/**
 * `offline`: what is stored is served whatever its age, and nothing is fetched.
 */
import t from 'tap'
import { TestCache } from '../fixtures/cache/cache.ts'
import { file, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'

const deb = '/debian/pool/main/h/hello_1_all.deb'
const index = '/debian/dists/stable/InRelease'

t.test('offline serves what is stored and asks no origin', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const settings = { freshness: { index: '0s', floor: '0s', serve_stale: 'permitted' } }
  const cache = await TestCache.start(t, { origins: [origin], settings })
  const fields = { 'Cache-Control': 'must-revalidate' }
  origin.at('*', file({ content: 'hello', etag: '"1"', fields }))
  for (const path of [deb, index]) await cache.warm(origin.url(path))
  const offline = { ...settings, offline: true }
  await t.rejects(cache.reload(offline, AbortSignal.abort(new Error('late'))), /late/)
  t.equal((await cache.get(origin.url(`${deb}.new`))).status, 200, 'a reload that was given up')
  await cache.reload(offline)
  const before = origin.requests.length

  const update = { 'Cache-Control': 'max-age=0' }
  for (const asked of [{}, update, { 'Cache-Control': 'no-cache' }]) {
    const answer = await cache.get(origin.url(index), asked)
    t.match(answer, { status: 200, text: 'hello' })
    t.match(answer.fields.get('Cache-Status'), /hit; detail=offline/)
  }
  // While the Release that this client got is still being read, the origin would confirm packages.
  const detail = (await cache.get(origin.url(deb))).fields.get('Cache-Status')
  t.match(detail, /hit; detail=(?:immutable|offline)/)
  t.match(await cache.head(origin.url(index), update), { status: 200 })

  for (const path of [`${deb}.absent`, '/debian/dists/other/InRelease']) {
    const missing = await cache.get(origin.url(path))
    t.equal(missing.status, 504, path)
    t.match(missing.text, /offline/)
    t.match(missing.reason, /this proxy is offline/, 'apt shows the reason phrase alone')
    t.equal((await cache.head(origin.url(path))).status, 504)
  }
  t.match(await cache.get(origin.url(deb), { Authorization: 'Basic eA==' }), { status: 504 })
  const failed = cache.log.lines.filter(({ facts }) => facts?.['because'] === 'offline')
  t.ok(failed.some(({ facts }) => facts?.['outcome'] === 'failed'))

  const client = await cache.client()
  const authority = `127.0.0.1:${origin.port}`
  await client.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`)
  t.equal((await client.response()).status, 504, 'no tunnel')

  t.equal(origin.requests.length, before, 'the origin was asked for nothing')
  t.match((await cache.get('/_cachesvc/')).text, /offline: nothing is fetched/)
  t.match(
    (await cache.get(`/_cachesvc/explain?url=${origin.url('/none')}`)).text,
    /504 \(offline\)/,
  )

  await cache.reload(settings)
  t.match((await cache.get(origin.url(index), update)).fields.get('Cache-Status'), /validated/)
})

t.test('offline, a stored file that the disk has lost is 504 as well', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, {
    origins: [origin],
    settings: { limits: { memory: '0' } },
  })
  origin.at(deb, file({ content: 'hello', etag: '"1"' }))
  await cache.warm(origin.url(deb))
  await cache.stop()
  const { rm } = await import('node:fs/promises')
  for (const path of await cache.files('v2/blobs')) await rm(path)
  await cache.restart({ offline: true, domains: [`127.0.0.1:${origin.port}`] })
  const lost = await cache.get(origin.url(deb))
  t.match(lost, { status: 504, text: /offline/ })
  t.equal(origin.seen(deb).length, 1)
})
