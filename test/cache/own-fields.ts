/**
 * Requests whose own fields choose the answer, on the wire: what programs other than apt ask for when their proxy is this one. They get what
 * they would get from the origin, and none of it answers another client. What archives publish stays shared.
 */
import t, { type Test } from 'tap'
import { TestCache } from '../fixtures/cache/cache.ts'
import { file, reply, type Script, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

t.setTimeout(120_000)

const curl = { 'User-Agent': 'curl/7.88.1', Accept: '*/*' }
const wget = { 'User-Agent': 'Wget/1.21.3', Accept: '*/*', 'Accept-Encoding': 'identity' }
const apt = { 'User-Agent': 'Debian APT-HTTP/1.3 (2.6.1)', Accept: 'text/*' }
const old = 'Wed, 01 Jan 2025 00:00:00 GMT'

async function start(t: Test, scripts: Readonly<Record<string, Script>>, settings = {}) {
  const origin = await ScriptedOrigin.listen(t)
  const clock = new ManualClock(Date.now())
  const cache = await TestCache.start(t, { origins: [origin], clock, settings })
  for (const [path, script] of Object.entries(scripts)) origin.at(path, script)
  /** The text that a request with these fields gets, and the reason. */
  const get = async (path: string, fields: Record<string, string>) => {
    const { status, content, fields: given } = await cache.get(origin.url(path), fields)
    await cache.quiet()
    const [, because] = /detail=([^;]*)/.exec(given.get('Cache-Status') ?? '') ?? []
    return { status, text: content.toString(), because }
  }
  return { origin, cache, clock, get }
}

/** A server that answers by a field of the request. */
function by(name: string, answers: Readonly<Record<string, Script>>, other: Script): Script {
  return answer => {
    const value = answer.request.fields.get(name) ?? ''
    const found = Object.keys(answers).find(each => value.includes(each))
    return (answers[found ?? ''] ?? other)(answer)
  }
}

const html = { 'Content-Type': 'text/html; charset=utf-8' }
const page = file({ content: '<html>download page', lastModified: old, fields: html })

t.test(
  'a script for curl and a page for others: each gets its own, and apt what it would',
  async t => {
    const script = file({ content: '#!/bin/sh', fields: { 'Content-Type': 'text/plain' } })
    const { get } = await start(t, { '/install.sh': by('User-Agent', { curl: script }, page) })
    for (let n = 0; n < 2; n += 1) {
      t.match(await get('/install.sh', curl), { text: '#!/bin/sh', because: 'own-fields' })
      t.match(await get('/install.sh', wget), { text: /page/, because: 'own-fields' })
      t.match(await get('/install.sh', apt), { text: /page/ })
    }
  },
)

t.test('a cookie chooses the answer, and it is not stored', async t => {
  const jdk = file({ content: 'archive', lastModified: old })
  const { get, cache } = await start(t, { '/jdk.tar.gz': by('Cookie', { accept: jdk }, page) })
  const licensed = { ...curl, Cookie: 'licence=accept' }
  t.match(await get('/jdk.tar.gz', licensed), { text: 'archive', because: 'own-fields' })
  t.strictSame(await cache.stored(), [])
  t.match(await get('/jdk.tar.gz', curl), { text: /page/ })
  t.match(await get('/jdk.tar.gz', licensed), { text: 'archive' })
})

t.test('by a URL prefix, a cookie is one for this proxy and goes to no archive', async t => {
  const { origin, cache } = await start(t, { '/x': page, '/y': page })
  const browser = { 'User-Agent': 'Mozilla/5.0', Accept: 'text/html,*/*', Cookie: 'session=1' }
  const by = `/127.0.0.1:${origin.port}`
  for (const path of ['/x', '/y']) {
    const { status, fields } = await cache.get(`${by}${path}`, browser)
    t.equal(status, 200)
    t.match(fields.get('Cache-Status'), /own-fields/)
    t.equal(fields.get('Content-Security-Policy'), 'sandbox')
  }
  await cache.get(`${by}/x`, { ...curl, Cookie: 'session=1' })
  await cache.get(`${by}/x`, { Cookie: 'session=1' })
  t.ok(origin.requests.length >= 3)
  for (const { fields } of origin.requests) t.notOk(fields.has('Cookie'))
})

t.test('Accept chooses the answer: an index for pip, a manifest of a registry', async t => {
  const json = reply({ content: '{}', fields: { 'Content-Type': 'application/json' } })
  const manifest = reply({ content: 'manifest' })
  const { get } = await start(t, {
    '/simple/': by('Accept', { 'simple.v1+json': json }, page),
    '/v2/x/manifests/1': by('Accept', { manifest }, reply({ status: 404, content: 'none' })),
  })
  t.match(await get('/simple/', apt), { text: /page/ })
  const pip = { 'User-Agent': 'pip/24', Accept: 'application/vnd.pypi.simple.v1+json' }
  t.match(await get('/simple/', pip), { text: '{}', because: 'own-fields' })
  t.match(await get('/v2/x/manifests/1', curl), { status: 404 })
  const podman = { 'User-Agent': 'podman', Accept: 'application/vnd.oci.image.manifest.v1+json' }
  t.match(await get('/v2/x/manifests/1', podman), { status: 200, text: 'manifest' })
})

t.test('an error for this cache alone is not one for another program', async t => {
  const forbidden = reply({ status: 403, content: 'no' })
  const login = reply({ status: 401, content: 'login', fields: { 'WWW-Authenticate': 'Basic' } })
  const { get, cache, origin } = await start(t, {
    '/bots': by('User-Agent', { APT: forbidden }, reply({ content: 'yes' })),
    '/v2/': login,
  })
  t.match(await get('/bots', curl), { status: 200, text: 'yes' })
  t.match(await get('/bots', apt), { status: 403 })
  const asked = await cache.get(origin.url('/v2/'), curl)
  t.equal(asked.content.toString(), 'login')
  t.equal(asked.fields.get('WWW-Authenticate'), 'Basic')
})

t.test('a page that says nothing about caching is new each time, for apt too', async t => {
  let n = 0
  const counts =
    (type: string): Script =>
    answer => {
      n += 1
      return reply({ content: `state ${n}`, fields: { 'Content-Type': type } })(answer)
    }
  const { get, clock, origin } = await start(t, {
    '/status.json': counts('application/json'),
    '/mirrors.txt': counts('text/plain'),
  })
  for (const [path, fields] of [
    ['/status.json', curl],
    ['/mirrors.txt', apt],
    ['/mirrors.txt', curl],
  ] as const) {
    const before = await get(path, fields)
    clock.advance(10_000)
    t.not((await get(path, fields)).text, before.text, `${path} of ${fields['User-Agent']}`)
  }
  origin.at('/mirrors.txt', answer => answer.reset())
  clock.advance(10_000)
  t.match(await get('/mirrors.txt', apt), { status: 200, text: /state/ }, 'an outage is survived')
})

t.test('a stored answer with Vary does not answer a request that differs', async t => {
  const varied = (vary: string) => (answer: Parameters<Script>[0]) => {
    const content = `for ${answer.request.fields.get(vary) ?? 'all'}`
    return file({ content, lastModified: old, fields: { Vary: `Accept-Encoding, ${vary}` } })(
      answer,
    )
  }
  const { get } = await start(t, {
    '/language': varied('Accept-Language'),
    '/agent': varied('User-Agent'),
  })
  t.match(await get('/language', curl), { text: 'for all' })
  t.match(await get('/language', { ...curl, 'Accept-Language': 'de' }), { text: 'for de' })
  t.match(await get('/language', curl), { text: 'for all', because: 'fresh' })
  t.match(await get('/agent', apt), { text: /APT/ })
  t.match(await get('/agent', curl), { text: 'for curl/7.88.1', because: 'own-fields' })
  t.match(await get('/agent', apt), { because: 'fresh' })
})

t.test('what archives publish is shared by apt, curl and wget', async t => {
  const at = (type: string) =>
    file({ content: '!<arch>\n', lastModified: old, fields: { 'Content-Type': type } })
  const files: Readonly<Record<string, string>> = {
    '/key.asc': 'text/plain',
    '/key.gpg': 'application/octet-stream',
    '/keys/signing': 'application/pgp-keys',
    '/mirrors.txt': 'text/plain',
    '/changelogs/h/hello_1_changelog': 'text/plain',
    '/netboot/vmlinuz': 'application/octet-stream',
    '/icons/hello.svg': 'image/svg+xml',
    '/debian/pool/main/h/hello_1_all.deb': 'text/html',
    '/debian/dists/stable/main/installer-amd64/current/images/SHA256SUMS': 'text/html',
  }
  const scripts = Object.entries(files).map(([path, type]) => [path, at(type)] as const)
  const { get, origin } = await start(t, Object.fromEntries(scripts))
  for (const path of Object.keys(files)) {
    const first = await get(path, curl)
    for (const fields of [apt, wget, curl, {}]) {
      t.strictSame((await get(path, fields)).text, first.text, path)
    }
    const odd = { ...curl, Cookie: 'a=b', Accept: 'application/x-debian-package' }
    if (path.startsWith('/debian/')) t.equal((await get(path, odd)).text, first.text)
    t.equal(origin.seen(path).length, 1, `${path} is fetched once`)
  }
})

t.test('a page that may not be stored is asked for once a request', async t => {
  const fields = { ...html, 'Cache-Control': 'no-store' }
  const { get, origin } = await start(t, { '/page': reply({ content: '<html>', fields }) })
  for (let n = 0; n < 3; n += 1) t.equal((await get('/page', curl)).text, '<html>')
  t.equal(origin.seen('/page').length, 4, 'the first time as this cache, and as the client')
})

t.test('offline, what is stored answers', async t => {
  const { get, cache } = await start(t, { '/page': page })
  await get('/page', apt)
  await cache.reload({ offline: true })
  t.match(await get('/page', { ...curl, Cookie: 'a=b' }), { status: 200, text: /page/ })
})

t.test('HEAD has the fields of the answer that GET would get', async t => {
  const script = file({ content: '#!/bin/sh', fields: { 'Content-Type': 'text/plain' } })
  const { cache, origin } = await start(t, { '/x': by('User-Agent', { curl: script }, page) })
  const { fields } = await cache.head(origin.url('/x'), curl)
  t.equal(fields.get('Content-Type'), 'text/plain')
  t.equal(fields.get('Content-Length'), '9')
})
