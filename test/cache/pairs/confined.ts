/**
 * An archive whose credentials the proxy has, together with features that fetch by themselves or pass a request through.
 */
import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { ChangingArchive } from '../../fixtures/archive/changing-archive.ts'
import type { Files } from '../../fixtures/archive/tiny-archive.ts'
import { TestCache } from '../../fixtures/cache/cache.ts'
import { file, reply, ScriptedOrigin } from '../../fixtures/http/scripted-origin.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

t.setTimeout(120_000)

const hour = 3_600_000
const password = 's3cret-pa55'
const basic = `Basic ${Buffer.from(`bearer:${password}`).toString('base64')}`

/** An origin that gives files to those who know the password alone, and a cache that knows it. */
async function paid(t: Test, more: object = {}) {
  const origin = await ScriptedOrigin.listen(t)
  const clock = new ManualClock(Date.UTC(2025, 0, 1))
  const credentials = join(t.testdir({ 'auth.conf': '' }), 'auth.conf')
  const line = `machine http://127.0.0.1:${origin.port}/debian login bearer password ${password}\n`
  writeFileSync(credentials, line)
  chmodSync(credentials, 0o600)
  const origins = [origin.url('/debian')]
  const archives = [{ origins, clients: ['127.0.0.1/32'], credentials, ...more }]
  const settings = { freshness: { floor: '0s' }, archives }
  const cache = await TestCache.start(t, { origins: [origin], clock, settings })
  const archive = new ChangingArchive({ origin, cache, clock, root: 'debian' })
  const serve = (files: Files): void => {
    for (const [path, content] of files) {
      const there = file({ content })
      origin.at(`/${path}`, answer => {
        const knows = answer.request.fields.get('Authorization') === basic
        return knows ? there(answer) : reply({ status: 401 })(answer)
      })
    }
  }
  return { archive, origin, cache, clock, serve }
}

t.test(
  'a generation of a paid archive waits, and is fetched with the credentials of the proxy',
  async t => {
    const { archive, clock, serve, origin } = await paid(t, { delay: '24h' })
    for (const day of [1, 2]) {
      serve(await archive.ofDay(day, { byHash: true }))
      clock.advance(hour)
      t.strictSame(await archive.update(), { day: '1', fits: true })
    }
    for (const path of (await archive.ofDay(2, { byHash: true })).keys()) {
      origin.at(`/${path}`, reply({ status: 503 }))
    }
    clock.advance(30 * hour)
    await archive.update()
    t.strictSame(await archive.update(), { day: '2', fits: true }, 'it had been fetched')
    t.equal(await archive.cache.betrays(password), false)
  },
)

t.test('a request with a cookie for a paid archive gets what its clients get', async t => {
  const { cache, origin } = await paid(t)
  const path = '/debian/keys/archive.asc'
  origin.at(path, answer => {
    const knows = answer.request.fields.get('Authorization') === basic
    return (knows ? file({ content: 'a key' }) : reply({ status: 401 }))(answer)
  })
  const fields = { Cookie: 'session=1', 'User-Agent': 'curl/8', Accept: 'application/json' }
  const answer = await cache.get(origin.url(path), fields)
  const outside = await cache.client({ localAddress: '127.0.0.2' })
  t.equal((await outside.get(origin.url(path), fields)).status, 403)
  // Passed through, the proxy says nothing of its own: no request has both the cookie of a client and the password of the proxy.
  for (const request of origin.seen(path)) {
    t.notOk(request.fields.has('Cookie') && request.fields.get('Authorization') === basic)
  }
  t.ok([200, 401, 403].includes(answer.status), String(answer.status))
  t.equal(answer.status, 200)
})
