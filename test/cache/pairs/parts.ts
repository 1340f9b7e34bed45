/**
 * Ranges that lie ahead of a transfer, together with what decides where a file comes from and who may have it.
 */
import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { disputed, disputedSuite } from '../../fixtures/archive/disputed-suite.ts'
import { type Settings, TestCache } from '../../fixtures/cache/cache.ts'
import { startNodes } from '../../fixtures/features/shared/nodes.ts'
import { type Answer, file, reply, ScriptedOrigin } from '../../fixtures/http/scripted-origin.ts'
import { Gate } from '../../fixtures/time/gate.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

t.setTimeout(120_000)

const deb = '/debian/pool/main/h/hello_1_all.deb'
const content = Buffer.from(Array.from({ length: 400_000 }, (_, i) => (i * 7 + (i >> 8)) % 256))
const end = content.subarray(390_000)
const range = { Range: 'bytes=390000-' }
const whole = { content, etag: '"1"' }

/** Sends the beginning of the whole file, and its rest when the gate opens; ranges at once. */
function slowly(rest: Gate) {
  const slow = file({ ...whole, pauses: [{ at: 100_000, gate: rest }] })
  return (answer: Answer) => (answer.request.fields.has('Range') ? file(whole) : slow)(answer)
}

/** Asks for the end, and lets time pass until it is there. */
async function endOf(
  cache: TestCache,
  url: string,
  { from, length = end.length }: { from?: string; length?: number } = {},
) {
  const client = await cache.client(from === undefined ? {} : { localAddress: from })
  await client.request('GET', url, range)
  const read = async () => {
    const head = await client.head()
    return { head, bytes: head.status === 206 ? await client.bytes(length) : Buffer.alloc(0) }
  }
  let found: Awaited<ReturnType<typeof read>> | undefined
  void read().then(all => {
    found = all
  })
  await cache.until(() => found !== undefined)
  if (found === undefined) throw new Error('there is no answer')
  return found
}

async function started(t: Test, settingsOf: (origin: ScriptedOrigin) => Settings = () => ({})) {
  const origin = await ScriptedOrigin.listen(t)
  const clock = new ManualClock(Date.now())
  const settings = settingsOf(origin)
  const cache = await TestCache.start(t, { origins: [origin], clock, settings })
  const rest = new Gate()
  origin.at(deb, slowly(rest))
  return { origin, cache, clock, rest, url: origin.url(deb) }
}

t.test(
  'the end of a paid file is asked for with the credentials, and for its clients alone',
  async t => {
    const password = 's3cret-pa55'
    const { origin, cache, rest, url } = await started(t, origin => {
      const credentials = join(t.testdir({ 'auth.conf': '' }), 'auth.conf')
      const line = `machine http://127.0.0.1:${origin.port}/debian login bearer password ${password}\n`
      writeFileSync(credentials, line)
      chmodSync(credentials, 0o600)
      const origins = [origin.url('/debian')]
      return { archives: [{ origins, clients: ['127.0.0.1/32'], credentials }] }
    })
    const basic = `Basic ${Buffer.from(`bearer:${password}`).toString('base64')}`
    const paid = slowly(rest)
    origin.at(deb, answer => {
      const knows = answer.request.fields.get('Authorization') === basic
      return knows ? paid(answer) : reply({ status: 401 })(answer)
    })
    const { head, bytes } = await endOf(cache, url)
    t.equal(head.status, 206)
    t.match(head.fields.get('Cache-Status'), /range-ahead/)
    t.ok(bytes.equals(end))
    t.equal((await endOf(cache, url, { from: '127.0.0.2' })).head.status, 403)
    t.equal(origin.seen(deb).length, 2)
    rest.open()
    await cache.quiet()
    t.ok((await cache.get(url)).content.equals(content))
  },
)

t.test('the end of a file comes from the mirror that is sending the whole', async t => {
  const origins = [await ScriptedOrigin.listen(t), await ScriptedOrigin.listen(t)]
  const [first, second] = origins
  if (first === undefined || second === undefined) throw new Error('no origin')
  const clock = new ManualClock(Date.now())
  const settings = { archives: [{ origins: origins.map(one => one.url('/debian')) }] }
  const cache = await TestCache.start(t, { origins, clock, settings })
  const rest = new Gate()
  first.at(deb, reply({ status: 503 }))
  second.at(deb, slowly(rest))
  const { head, bytes } = await endOf(cache, first.url(deb))
  t.equal(head.status, 206)
  t.ok(bytes.equals(end))
  t.match(head.fields.get('Cache-Status'), /range-ahead/)
  rest.open()
  await cache.quiet()
  t.ok((await cache.get(first.url(deb))).content.equals(content))
})

t.test('the end of a file that the bucket has comes from there', async t => {
  const { origin, bucket, nodes } = await startNodes(t, { count: 2 })
  const [one, two] = nodes
  if (one === undefined || two === undefined) throw new Error('no node')
  origin.at(deb, file(whole))
  await one.cache.warm(origin.url(deb))
  await one.cache.until(() => bucket.entries.has(origin.url(deb)))
  origin.at(deb, reply({ status: 503 }))
  const { head, bytes } = await endOf(two.cache, origin.url(deb))
  t.equal(head.status, 206)
  t.ok(bytes.equals(end))
  t.equal(origin.seen(deb).length, 1)
})

t.test('the end of a file that is too large for the store comes before its beginning', async t => {
  const small = { retention: { size: '2M', object_size: '100K' } }
  const { cache, rest, url } = await started(t, () => small)
  const { head, bytes } = await endOf(cache, url)
  t.equal(head.status, 206)
  t.ok(bytes.equals(end))
  rest.open()
  await cache.quiet()
  t.strictSame(await cache.stored(), [])
  t.ok((await cache.get(url)).content.equals(content))
})

t.test('the end of a disputed package is that of the content which is arriving', async t => {
  const [one, other] = ['main/binary-i386', 'main/binary-amd64']
  const { cache, origin, has, update, client, url } = await disputedSuite(t, [one, other])
  has(one)
  await update(2, one)
  await update(4, other)
  for (const [n, directory] of [
    [2, one],
    [4, other],
  ] as const) {
    const connection = await client(n)
    const { status, text } = await connection.get(url(disputed), { Range: 'bytes=-5' })
    // The origin has that of the first: the second gets an error, and never the end of another content.
    if (directory === one) t.strictSame([status, text], [206, '-i386'])
    else t.equal(status, 520)
    await cache.quiet()
  }
  t.ok(origin.requests.length > 0)
})
