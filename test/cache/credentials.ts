/**
 * Requests that carry credentials: passed to the origin alone, shared with nobody, kept nowhere.
 */
import t from 'tap'
import { type Settings, TestCache } from '../fixtures/cache/cache.ts'
import { type Answer, reply, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'
import { Gate } from '../fixtures/time/gate.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

const deb = '/private/pool/main/h/hello_1_all.deb'
const secret = 'c3VyZWx5LW5vdC1oZXJl'
const authorization = { Authorization: `Bearer ${secret}` }

/** An archive that gives its subscribers a file and everybody else a 401. */
const subscribers = (answer: Answer) =>
  answer.request.fields.has('Authorization')
    ? reply({
        content: `for ${answer.request.fields.get('Authorization')}`,
        fields: { ETag: '"1"' },
      })(answer)
    : reply({ status: 401, fields: { 'WWW-Authenticate': 'Basic realm="a"' } })(answer)

t.test('an answer to credentials is for this client alone', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  origin.at(deb, subscribers)
  t.equal((await cache.get(origin.url(deb), authorization)).text, `for Bearer ${secret}`)
  const anonymous = await cache.get(origin.url(deb))
  t.equal(anonymous.status, 401)
  t.equal(anonymous.fields.get('WWW-Authenticate'), 'Basic realm="a"')
  const other = await cache.get(origin.url(deb), { Authorization: 'Bearer other' })
  t.equal(other.text, 'for Bearer other')
  await cache.quiet()
  t.strictSame(await cache.stored(), [])
})

t.test('credentials in the URL become Authorization, and go nowhere else', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  origin.at(deb, subscribers)
  const url = origin.url(deb).replace('//', `//ann%40b:${secret}@`)
  const client = await cache.client()
  await client.request('GET', url, { Host: `127.0.0.1:${origin.port}` })
  const basic = Buffer.from(`ann@b:${secret}`).toString('base64')
  t.equal((await client.response()).text, `for Basic ${basic}`)
  t.notMatch(origin.requests[0]?.head, secret)
  t.equal((await cache.get(origin.url(deb))).status, 401)
  for (const text of [secret, basic]) t.notOk(await cache.betrays(text))
})

t.test(
  'what is stored for everybody is not given to somebody with credentials, nor replaced',
  async t => {
    const origin = await ScriptedOrigin.listen(t)
    const cache = await TestCache.start(t, { origins: [origin] })
    origin.at(deb, reply({ content: 'for everybody' }))
    await cache.warm(origin.url(deb))
    origin.at(deb, subscribers)
    t.equal((await cache.get(origin.url(deb), authorization)).text, `for Bearer ${secret}`)
    t.equal((await cache.get(origin.url(deb))).text, 'for everybody')
  },
)

t.test('two requests for one key at once, one with credentials, share nothing', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  const gate = new Gate()
  origin.at(deb, async answer => {
    await gate.pass()
    const whose = answer.request.fields.has('Authorization') ? 'a subscriber' : 'everybody'
    return reply({ content: `for ${whose}` })(answer)
  })
  for (const first of [authorization, {}]) {
    const [one, two] = [await cache.client(), await cache.client()]
    const second = first === authorization ? {} : authorization
    const seen = origin.seen(deb).length
    await one.request('GET', origin.url(deb), first)
    await origin.arrived(deb, seen + 1)
    await two.request('GET', origin.url(deb), second)
    await origin.arrived(deb, seen + 2)
    gate.open()
    t.equal(
      (await one.response()).text,
      first === authorization ? 'for a subscriber' : 'for everybody',
    )
    t.equal(
      (await two.response()).text,
      first === authorization ? 'for everybody' : 'for a subscriber',
    )
    await cache.quiet()
    await cache.stop()
    await cache.restart()
    t.equal((await cache.get(origin.url(deb))).text, 'for everybody')
    break
  }
})

t.test(
  'no secret is in the log, the store, the pages or the metrics, whatever went wrong',
  async t => {
    const origin = await ScriptedOrigin.listen(t)
    const proxy: Settings = { log: { level: 'debug' }, freshness: { floor: '0s', negative: '30s' } }
    const cache = await TestCache.start(t, { origins: [origin], settings: proxy })
    const withUserinfo = (path: string) => origin.url(path).replace('//', `//ann:${secret}@`)
    origin.at('/ok', reply({ content: 'hello' }))
    origin.at('/cut', reply({ content: 'hello', cut: { at: 2, by: 'reset' } }))
    origin.at('/reset', answer => answer.reset())
    origin.at('/503', reply({ status: 503 }))
    origin.at('/moved', reply({ status: 302, fields: { Location: '/ok' } }))
    for (const path of ['/ok', '/cut', '/reset', '/503', '/404', '/moved']) {
      for (const [url, fields] of [
        [withUserinfo(path), {}],
        [origin.url(path), authorization],
        [origin.url(path), { ...authorization, 'Proxy-Authorization': `Basic ${secret}` }],
        [origin.url(path), { Cookie: `session=${secret}` }],
      ] as const) {
        await cache.get(url, fields).catch(() => undefined)
        await cache.head(url, fields).catch(() => undefined)
      }
    }
    const port = origin.port
    await origin.close()
    await cache.get(withUserinfo('/gone')).catch(() => undefined)
    await cache.get(`http://ann:${secret}@other.example.org:${port}/`).catch(() => undefined)
    const connect = await cache.client()
    await connect.request('CONNECT', `127.0.0.1:${port}`, {
      'Proxy-Authorization': `Basic ${secret}`,
    })
    t.equal((await connect.response()).status, 503)
    await cache.quiet()

    const explained = `/_cachesvc/explain?url=${encodeURIComponent(withUserinfo('/ok'))}`
    for (const page of ['/_cachesvc/', '/_cachesvc/stats', '/_cachesvc/metrics', explained]) {
      t.notMatch((await cache.get(page)).text, secret, page)
    }
    await cache.stop()
    t.ok(cache.log.lines.length > 30)
    t.notOk(await cache.betrays(secret))
    t.notOk(await cache.betrays(Buffer.from(`ann:${secret}`).toString('base64')))
  },
)

t.test(
  'credentials that a prefix gives to every archive are refused at the second one',
  async t => {
    const parent = await ScriptedOrigin.listen(t)
    parent.at('*', reply({ content: 'by the parent' }))
    const settings = {
      private_domains: ['.corp.example.org'],
      parent_proxy: `http://127.0.0.1:${parent.port}`,
    }
    const clock = new ManualClock(Date.UTC(2026, 0, 1))
    const cache = await TestCache.start(t, { settings, clock })
    const ask = (path: string, fields: Record<string, string> = authorization) =>
      cache.get(`http://127.0.0.1:${cache.port}${path}`, fields)
    t.equal((await ask(`/one.example.org${deb}`)).status, 200)
    t.equal((await ask(`/one.example.org${deb}`)).status, 200, 'its own archive')
    const asked = parent.requests.length
    for (const place of ['/two.example.org', '/HTTPS///two.example.org']) {
      const refused = await ask(`${place}${deb}`)
      t.equal(refused.status, 403, place)
      t.match(refused.text, 'machine http://HTTPS///two.example.org/')
      t.notMatch(refused.text, secret)
    }
    t.equal(parent.requests.length, asked, 'nothing has left')
    t.equal((await ask(`/two.example.org${deb}`, {})).status, 200, 'without credentials')
    t.equal((await ask(`/two.example.org${deb}`, { Authorization: 'Bearer its-own' })).status, 200)
    t.equal((await ask(`/a.corp.example.org${deb}`)).status, 200, 'hosts that are listed')
    // As a proxy apt is given the archive's own name, and its line is for that.
    t.equal((await cache.get(`http://three.example.org${deb}`, authorization)).status, 200)
    // The line was mended: the first archive had got them by mistake and gets them no more.
    clock.advance(10 * 60_000)
    t.equal((await ask(`/two.example.org${deb}`)).status, 200)
    t.equal((await ask(`/one.example.org${deb}`)).status, 403)
  },
)
