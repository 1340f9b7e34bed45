/**
 * HEAD is GET without content: it is answered as GET would be, leaves the store as GET would leave it, and does not fetch an absent file.
 */
import t, { type Test } from 'tap'
import { TestCache } from '../fixtures/cache/cache.ts'
import {
  file,
  inTurn,
  reply,
  type Script,
  ScriptedOrigin,
} from '../fixtures/http/scripted-origin.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

const deb = '/debian/pool/main/h/hello_1_all.deb'
const index = '/debian/dists/stable/main/binary-all/Packages.gz'
const insist = { 'Cache-Control': 'no-cache' }
const there = file({ content: 'hello', etag: '"1"' })
const gone = reply({ status: 404, content: 'gone' })

async function started(t: Test, stored: readonly string[] = [], negative = '5s') {
  const origin = await ScriptedOrigin.listen(t)
  const clock = new ManualClock(Date.now())
  const settings = { freshness: { floor: '0s', negative } }
  const cache = await TestCache.start(t, { origins: [origin], clock, settings })
  for (const path of stored) {
    origin.at(path, there)
    await cache.warm(origin.url(path))
  }
  return { origin, clock, cache }
}

/** What a server says that answers HEAD in its own way. */
function toHead(script: Script): Script {
  return answer => (answer.request.method === 'HEAD' ? script : there)(answer)
}

for (const path of [deb, index]) {
  t.test(`one 404 of one of several servers removes nothing: ${path}`, async t => {
    const { origin, cache } = await started(t, [path])
    origin.at(path, inTurn(gone, there))
    t.equal((await cache.head(origin.url(path), insist)).status, 200)
    t.strictSame(await cache.stored(), [origin.url(path)])
    origin.at(path, reply({ status: 503 }))
    t.equal((await cache.get(origin.url(path), insist)).text, 'hello', 'it helps in an outage')
  })
}

t.test('a server that answers 404 or 405 to HEAD alone removes nothing', async t => {
  for (const status of [404, 405, 410, 403, 501]) {
    const { origin, cache } = await started(t, [deb])
    origin.at(deb, toHead(reply({ status })))
    t.equal((await cache.head(origin.url(deb), insist)).status, 200, String(status))
    t.strictSame(await cache.stored(), [origin.url(deb)])
    t.equal((await cache.get(origin.url(deb), insist)).status, 200, 'nothing is remembered')
  }
})

t.test('an absent file of such a server is there, and is not fetched', async t => {
  for (const status of [404, 405, 410, 403, 501]) {
    const { origin, cache } = await started(t)
    origin.at(deb, toHead(reply({ status })))
    const head = await cache.head(origin.url(deb))
    t.equal(head.status, 200, String(status))
    t.equal(head.fields.get('Content-Length'), '5')
    await cache.quiet()
    t.strictSame(await cache.stored(), [])
    t.equal((await cache.get(origin.url(deb))).text, 'hello', 'nothing is remembered')
  }
})

t.test('a file that its origin has dropped is gone', async t => {
  const { origin, cache } = await started(t, [index], '0s')
  origin.at(index, gone)
  t.equal((await cache.head(origin.url(index), insist)).status, 404)
  t.strictSame(await cache.stored(), [])
})

t.test('a file that has changed is not answered with the fields of before', async t => {
  const { origin, cache } = await started(t, [index])
  origin.at(index, file({ content: 'hello again', etag: '"2"' }))
  const head = await cache.head(origin.url(index), insist)
  t.equal(head.fields.get('Content-Length'), '11')
  t.equal(head.text, '')
  await cache.quiet()
  t.equal((await cache.get(origin.url(index))).text, 'hello again')
})

/** What an origin can say, and what GET and HEAD have to make of it in the same way. */
const behaviours: Readonly<Record<string, Script>> = {
  'the file': there,
  'another file': file({ content: 'other', etag: '"2"' }),
  404: gone,
  410: reply({ status: 410, content: 'gone' }),
  401: reply({ status: 401, content: 'login' }),
  403: reply({ status: 403, content: 'no' }),
  429: reply({ status: 429, content: 'slowly' }),
  500: reply({ status: 500, content: 'oh' }),
  503: reply({ status: 503, content: 'oh' }),
  'a redirect without a place': reply({ status: 302 }),
  'a closed connection': answer => answer.end(),
  'no HTTP': answer => answer.write('SSH-2.0-OpenSSH_9.2\r\n\r\n').then(() => answer.end()),
}

for (const state of ['stored', 'absent'] as const) {
  t.test(`HEAD of a file that is ${state} is answered as GET is`, async t => {
    const { origin, cache, clock } = await started(t)
    const paths = Object.keys(behaviours).map((_, n) => [`${index}?get${n}`, `${index}?head${n}`])
    for (const path of state === 'stored' ? paths.flat() : []) {
      origin.at(path, there)
      await cache.get(origin.url(path))
    }
    await cache.quiet()
    for (const [n, [name, script]] of Object.entries(behaviours).entries()) {
      const seen: unknown[] = []
      for (const [i, method] of (['get', 'head'] as const).entries()) {
        const path = paths[n]?.[i] ?? ''
        origin.at(path, script)
        // An origin that has said that it fails is left alone for a while.
        clock.advance(60_000)
        const { status, fields } = await cache[method](origin.url(path), insist)
        const length = fields.get('Content-Length')
        await cache.quiet()
        // An absent file is stored by GET alone.
        origin.at(path, reply({ status: 503 }))
        const later = state === 'stored' ? (await cache.get(origin.url(path))).text : ''
        seen.push({ status, length, later: later.replace(/\?(get|head)/g, '') })
      }
      t.strictSame(seen[1], seen[0], name)
    }
  })
}
