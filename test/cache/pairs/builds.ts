/**
 * Builds together with where an answer comes from, and when: what is recorded is whole and is what the client got, and the lock names the rest.
 */
import t, { type Test } from 'tap'
import { disputed, disputedSuite } from '../../fixtures/archive/disputed-suite.ts'
import { TestCache } from '../../fixtures/cache/cache.ts'
import { startNodes } from '../../fixtures/features/shared/nodes.ts'
import {
  type Answer,
  file,
  inTurn,
  reply,
  ScriptedOrigin,
} from '../../fixtures/http/scripted-origin.ts'
import { Gate } from '../../fixtures/time/gate.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

t.setTimeout(120_000)

const deb = '/debian/pool/main/h/hello_1_all.deb'
const second = 1000

/** A recording, and how its files are asked for. */
async function recording(cache: TestCache, origin: ScriptedOrigin) {
  const act = (what: string) =>
    cache.command({ do: 'build', act: what, name: 'image', file: '', json: false })
  await act('record')
  const pathOf = (path: string) => `/_cachesvc/build/image/127.0.0.1:${origin.port}${path}`
  const get = (path: string, fields: Record<string, string> = {}) => cache.get(pathOf(path), fields)
  return { lock: () => act('lock'), unlock: () => act('unlock'), get, pathOf }
}

async function started(t: Test) {
  const origin = await ScriptedOrigin.listen(t)
  const clock = new ManualClock(Date.now())
  const cache = await TestCache.start(t, { origins: [origin], clock })
  return { origin, clock, cache, build: await recording(cache, origin) }
}

t.test('a build is recorded from the bucket, with the origin away', async t => {
  const { origin, bucket, nodes } = await startNodes(t, { count: 2 })
  const [one, two] = nodes
  if (one === undefined || two === undefined) throw new Error('no node')
  origin.at(deb, file({ content: 'hello', etag: '"1"' }))
  await one.cache.warm(origin.url(deb))
  await one.cache.until(() => bucket.entries.has(origin.url(deb)))
  origin.at(deb, answer => answer.reset())
  const build = await recording(two.cache, origin)
  t.equal((await build.get(deb)).text, 'hello')
  await two.cache.quiet()
  t.match(await build.lock(), { code: 0, complaints: [] })
  bucket.mood = 'away'
  t.match(await build.get(deb), { status: 200, text: 'hello' })
})

t.test('a range that lies ahead is recorded as the whole file', async t => {
  const { origin, cache, build } = await started(t)
  const content = Buffer.alloc(400_000, 'the quick brown fox ')
  const rest = new Gate()
  const slow = file({ content, etag: '"1"', pauses: [{ at: 100_000, gate: rest }] })
  const part = file({ content, etag: '"1"' })
  origin.at(deb, (answer: Answer) => (answer.request.fields.has('Range') ? part : slow)(answer))
  let status = 0
  void build.get(deb, { Range: 'bytes=390000-' }).then(answer => {
    status = answer.status
  })
  await cache.until(() => status > 0)
  t.equal(status, 206)
  rest.open()
  await cache.quiet()
  const locked = await build.lock()
  const answer = await build.get(deb)
  // Either the whole file is recorded, or the lock names it.
  if (answer.status === 200) t.ok(answer.content.equals(content))
  else t.match(locked, { complaints: [/hello_1_all\.deb/] })
  t.equal(answer.status, 200)
})

t.test('of a disputed package a build has the first answer', async t => {
  const [one, other] = ['main/binary-i386', 'main/binary-amd64']
  const { cache, origin, has, update, client, clock } = await disputedSuite(t, [one, other])
  const build = await recording(cache, origin)
  has(one)
  await update(2, one)
  await update(4, other)
  const from = async (n: number) =>
    (await client(n)).get(build.pathOf(`/debian/${disputed}`), { Host: `127.0.0.1:${cache.port}` })
  t.match(await from(2), { status: 200, text: `that of ${one}` })
  await cache.quiet()
  has(other)
  clock.advance(120_000)
  t.match(await from(4), { status: 200, text: `that of ${one}` }, 'while it is recorded, too')
  t.match(await build.lock(), { code: 0, complaints: [] })
  t.match(await from(4), { status: 200, text: `that of ${one}` })
})

t.test('an answer that a cookie chooses is not recorded, and lock names it', async t => {
  const { origin, cache, build } = await started(t)
  origin.at(deb, file({ content: 'hello', etag: '"1"' }))
  await build.get(deb)
  const user = `Basic ${Buffer.from('build:image').toString('base64')}`
  origin.at('/jdk.tar.gz', file({ content: 'archive', etag: '"1"' }))
  const fields = { 'Proxy-Authorization': user, Cookie: 'licence=accept', 'User-Agent': 'curl/8' }
  t.equal((await cache.get(origin.url('/jdk.tar.gz'), fields)).text, 'archive')
  await cache.quiet()
  t.match(await build.lock(), { complaints: [/jdk\.tar\.gz/] })
  t.equal((await cache.get(origin.url('/jdk.tar.gz'), fields)).status, 409)
})

t.test(
  'what a paused origin does not give is asked for again, and lock names it until then',
  async t => {
    const { origin, cache, clock, build } = await started(t)
    origin.at('/debian/pool/main/f/first_1_all.deb', file({ content: 'first', etag: '"1"' }))
    await build.get('/debian/pool/main/f/first_1_all.deb')
    await cache.quiet()
    origin.at('*', reply({ status: 429, fields: { 'Retry-After': '20' } }))
    t.equal((await build.get('/debian/pool/main/o/other_1_all.deb')).status, 429)
    t.equal((await build.get(deb)).status, 503)
    t.match(await build.lock(), { code: 0, complaints: [/_1_all\.deb/, /_1_all\.deb/] })
    t.equal((await build.get(deb)).status, 409)
    await build.unlock()
    clock.advance(31 * second)
    origin.at('*', file({ content: 'hello', etag: '"1"' }))
    for (const path of [deb, '/debian/pool/main/o/other_1_all.deb']) {
      t.match(await build.get(path), { status: 200, text: 'hello' })
    }
    await cache.quiet()
    t.match(await build.lock(), { code: 0, complaints: [] })
  },
)

t.test(
  'a file whose head comes after the client has left is recorded at its next request',
  async t => {
    const { origin, cache, build } = await started(t)
    const gate = new Gate()
    origin.at(deb, inTurn(reply({ content: 'hello', fields: { ETag: '"1"' }, before: gate })))
    let status = 0
    void build.get(deb).then(answer => {
      status = answer.status
    })
    await cache.until(() => status > 0)
    t.equal(status, 503, 'the client is told before it gives up')
    gate.open()
    await cache.quiet()
    t.match(await build.get(deb), { status: 200, text: 'hello' })
    await cache.quiet()
    t.match(await build.lock(), { code: 0, complaints: [] })
    t.match(await build.get(deb), { status: 200, text: 'hello' })
  },
)
