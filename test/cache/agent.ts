/**
 * How cachesvc presents itself to origins, and what a client reads when an origin refuses it.
 */
import t from 'tap'
import { TestCache } from '../fixtures/cache/cache.ts'
import { file, reply, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

const deb = '/debian/pool/main/h/hello_1_all.deb'
const release = '/debian/dists/stable/InRelease'

t.test('an archive that admits only the agent of apt admits cachesvc', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  const right = file({ content: '!<arch>\n', etag: '"1"' })
  origin.at('*', answer => {
    const agent = answer.request.fields.get('User-Agent') ?? ''
    return (agent.startsWith('Debian APT-HTTP') ? right : reply({ status: 403 }))(answer)
  })
  t.equal((await cache.head(origin.url(deb))).status, 200)
  t.equal((await cache.warm(origin.url(deb))).status, 200)
  const fields = { 'Cache-Control': 'no-cache' }
  t.equal((await cache.get(origin.url(deb), fields)).status, 200)
  t.equal((await cache.get(origin.url(release))).status, 200)
  for (const { fields } of origin.requests) {
    t.match(
      fields.get('User-Agent'),
      /^Debian APT-HTTP\/1\.3 \(cachesvc\/\d+\.\d+\.\d+(?:-git)?\)$/,
    )
  }
})

t.test('the agent and Via are settings, which a reload changes', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  origin.at('*', reply({ content: 'hello' }))
  const asked = async (fields = {}) => {
    await cache.warm(origin.url(`/debian/${origin.requests.length}`), fields)
    const [agent, via] = ['User-Agent', 'Via'].map(name => origin.requests.at(-1)?.fields.get(name))
    return { agent, via }
  }
  t.match((await asked()).via, /^1\.1 cachesvc-/)
  const domains = [`127.0.0.1:${origin.port}`]
  t.strictSame(await cache.reload({ domains, user_agent: 'curl/8.0', via: false }), [])
  t.strictSame(await asked(), { agent: 'curl/8.0', via: undefined })
  const credentials = { Authorization: 'Basic YTpi', 'User-Agent': 'mine' }
  t.strictSame(await asked(credentials), { agent: 'mine', via: undefined }, 'passed through')
  t.match((await cache.get(origin.url('/debian/x'))).fields.get('Via'), 'cachesvc-', 'to clients')
  for (const user_agent of ['', ' a', 'a\nb', 'é', 1, 'x'.repeat(1000)]) {
    t.match(String(await cache.reload({ domains, user_agent })), /ASCII/, String(user_agent))
  }
})

t.test('a 403 of the origin names what the origin may refuse', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  origin.at('*', reply({ status: 403 }))
  const answer = await cache.get(origin.url(deb))
  t.equal(answer.status, 403)
  for (const text of [answer.text, answer.reason]) {
    t.match(text, `The origin 127.0.0.1:${origin.port} answered 403.`)
    for (const setting of ['user_agent', 'via', 'passthrough_domains']) t.match(text, setting)
  }
  origin.at('*', reply({ status: 401 }))
  t.notMatch((await cache.get(origin.url(deb))).text, 'user_agent')
})

t.test('a 403 of an origin that gives other files is about that file', async t => {
  const clock = new ManualClock(Date.UTC(2026, 0, 1))
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin], clock })
  origin.at('/debian/given', reply({ content: 'hello' }))
  origin.at('*', reply({ status: 403 }))
  await cache.warm(origin.url('/debian/given'))
  const answer = await cache.get(origin.url(deb))
  t.equal(answer.text.trim(), `The origin 127.0.0.1:${origin.port} answered 403.`)
  t.equal(answer.reason, 'Forbidden', 'apt shows the phrase that the origin would have sent')
  clock.advance(11 * 60_000)
  t.match((await cache.get(origin.url(deb))).reason, 'user_agent', 'it may have begun to refuse')
})

t.test('what one client has in Via fails the file for no other client', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  // Delivery networks refuse what has their own name in Via. Clients that ask meanwhile get the same answer.
  origin.at('*', answer => {
    const via = answer.request.fields.get('Via') ?? ''
    return reply(via.includes('edge') ? { status: 403 } : { content: 'hello' })(answer)
  })
  const fields = { Via: '1.1 edge.example.net, 1.1 cachesvc-01234567' }
  t.equal((await cache.head(origin.url(deb), fields)).status, 200)
  t.equal((await cache.warm(origin.url(deb), fields)).status, 200)
  t.match(
    origin.requests[1]?.fields.get('Via'),
    /^1\.1 cachesvc-01234567, 1\.1 cachesvc-[0-9a-f]{8}$/,
  )
})
