/**
 * Redirects of an origin, on the wire: followed inside the policy, stored under the name that was asked for.
 */
import { join } from 'node:path'
import t from 'tap'
import { TestCache } from '../fixtures/cache/cache.ts'
import { makeAuthority } from '../fixtures/certificates/certificate.ts'
import { file, reply, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'

const deb = '/debian/pool/main/h/hello_1_all.deb'
const to = (location: string, status = 302) => reply({ status, fields: { Location: location } })

t.test('a redirect is followed, and the file stored under the name that was asked for', async t => {
  const [front, mirror] = [await ScriptedOrigin.listen(t), await ScriptedOrigin.listen(t)]
  const cache = await TestCache.start(t, { origins: [front, mirror] })
  mirror.at('*', file({ content: 'hello', etag: '"1"' }))
  for (const status of [301, 302, 303, 307, 308]) {
    const path = `/pool/a_${status}.deb`
    front.at(path, to(mirror.url('/deep/file'), status))
    t.equal((await cache.head(front.url(path))).fields.get('Content-Length'), '5')
    const answer = await cache.warm(front.url(path))
    t.equal(answer.status, 200)
    t.equal(answer.text, 'hello')
    t.equal((await cache.get(front.url(path))).fields.get('X-Cache'), 'HIT')
  }
  t.equal((await cache.stored()).length, 5)
  t.notOk((await cache.stored()).some(key => key.includes('deep')))
})

t.test('relative, scheme-relative and fragment-bearing targets are resolved', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  origin.at('/debian/real', reply({ content: 'hello' }))
  const locations = [
    'real',
    './x/../real',
    '/debian/real',
    `//127.0.0.1:${origin.port}/debian/real`,
    '/debian/real#part',
    origin.url('/debian/real').replace('//', '//user:secret@'),
  ]
  for (const [n, location] of locations.entries()) {
    origin.at(`/debian/a_${n}`, to(location))
    t.equal((await cache.get(origin.url(`/debian/a_${n}`))).text, 'hello', location)
  }
  for (const { fields } of origin.seen('/debian/real')) t.notOk(fields.has('Authorization'))
})

t.test('a fill that resumes goes through the redirect again', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  const content = 'x'.repeat(50_000)
  let first = true
  origin.at(deb, to('/mirror'))
  origin.at('/mirror', answer => {
    const cut = first ? { cut: { at: 20_000, by: 'reset' as const } } : {}
    first = false
    return file({ content, etag: '"1"', ...cut })(answer)
  })
  t.equal((await cache.get(origin.url(deb))).text, content)
  t.equal(origin.seen(deb).length, 2)
})

t.test(
  'a chain ends after ten, and a circle at once, with a status that apt does not try again',
  async t => {
    const origin = await ScriptedOrigin.listen(t)
    const cache = await TestCache.start(t, { origins: [origin] })
    for (let n = 0; n < 14; n += 1) origin.at(`/a${n}`, to(`/a${n + 1}`))
    origin.at('/a14', reply({ content: 'hello' }))
    t.equal((await cache.get(origin.url('/a4'))).text, 'hello')
    const answer = await cache.get(origin.url('/a3'))
    t.equal(answer.status, 520)
    t.match(answer.text, 'More than 10 redirects')
    origin.at('/circle', to('/there?signature=secret'))
    origin.at('/there', to('/circle'))
    const circle = await cache.get(origin.url('/circle'))
    t.equal(circle.status, 508)
    t.match(circle.text, 'in a circle: http://')
    t.match(circle.text, /\/circle to .*\/there\?\.\.\. to .*\/circle/)
    t.equal(origin.seen('/circle').length, 1)
  },
)

t.test('a redirect to what is no http URL is 520 with a text', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  for (const location of ['ftp://127.0.0.1/x', 'file:///etc/passwd', 'http://', 'javascript:0']) {
    origin.at(deb, to(location))
    const answer = await cache.get(origin.url(deb))
    t.equal(answer.status, 520, location)
    t.match(answer.text, /redirect/)
  }
})

t.test('http leads to https, but https never back to http', async t => {
  const authority = makeAuthority()
  const ca = join(t.testdir({ 'ca.pem': authority.cert }), 'ca.pem')
  const tls = authority.issue({ names: ['127.0.0.1'] })
  const [plain, secure] = [await ScriptedOrigin.listen(t), await ScriptedOrigin.listen(t, { tls })]
  const cache = await TestCache.start(t, {
    origins: [plain, secure],
    settings: { https: { origin_ca: [ca] } },
  })
  plain.at(deb, to(secure.url(deb)))
  secure.at(deb, reply({ content: 'hello' }))
  t.equal((await cache.warm(plain.url(deb))).text, 'hello')
  t.strictSame(await cache.stored(), [plain.url(deb)])

  secure.at('/down', to(plain.url('/open')))
  plain.at('/open', reply({ content: 'anybody may have changed this' }))
  const refused = await cache.get(secure.url('/down'))
  t.equal(refused.status, 520)
  t.match(refused.text, 'from https to http')
  t.equal(plain.seen('/open').length, 0)
})

t.test('HEAD of an address that is signed for GET asks with GET, and takes the fields', async t => {
  const [front, store] = [await ScriptedOrigin.listen(t), await ScriptedOrigin.listen(t)]
  const cache = await TestCache.start(t, { origins: [front, store] })
  front.at(deb, to(store.url('/signed?for=GET')))
  const signed = file({ content: 'hello', etag: '"1"' })
  for (const status of [403, 405]) {
    store.at('/signed', answer =>
      answer.request.method === 'GET' ? signed(answer) : reply({ status })(answer),
    )
    const head = await cache.head(front.url(deb))
    t.equal(head.status, 200)
    t.equal(head.fields.get('Content-Length'), '5')
  }
  store.at('/signed', reply({ status: 403 }))
  t.equal((await cache.head(front.url(deb))).status, 403, 'refused for both')
  t.strictSame(await cache.stored(), [])
})

t.test('`pass` leaves redirects to the client and stores the file where it is found', async t => {
  const [front, mirror] = [await ScriptedOrigin.listen(t), await ScriptedOrigin.listen(t)]
  const settings = { redirects: 'pass' }
  const cache = await TestCache.start(t, { origins: [front, mirror], settings })
  front.at('/relative', to('/there'))
  front.at(deb, to(mirror.url('/deep/file')))
  mirror.at('/deep/file', file({ content: 'hello', etag: '"1"' }))
  for (const ask of [cache.head(front.url(deb)), cache.get(front.url(deb))]) {
    const { status, fields } = await ask
    t.equal(status, 302)
    t.equal(fields.get('Location'), mirror.url('/deep/file'))
    t.equal(fields.get('X-Cache'), 'MISS')
    t.match(fields.get('Cache-Status'), /detail=redirected/)
  }
  t.equal((await cache.get(front.url('/relative'))).fields.get('Location'), front.url('/there'))
  t.equal(mirror.requests.length, 0)
  t.equal((await cache.warm(mirror.url('/deep/file'))).text, 'hello')
  t.strictSame(await cache.stored(), [mirror.url('/deep/file')])
})

t.test('a passed redirect stays below the prefix by which the client asked', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin], settings: { redirects: 'pass' } })
  origin.at('/plain', to('http://mirror.example.org/x?y'))
  origin.at('/tls', to('https://mirror.example.org/x?y'))
  const location = async (path: string) =>
    (await cache.get(`/127.0.0.1:${origin.port}${path}`)).fields.get('Location')
  t.equal(await location('/plain'), '/mirror.example.org/x?y')
  t.equal(await location('/tls'), '/HTTPS///mirror.example.org/x?y')
})

t.test('so do relative redirects of what is passed through', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const authority = `127.0.0.1:${origin.port}`
  const cache = await TestCache.start(t, { settings: { passthrough_domains: [authority] } })
  const locations: Readonly<Record<string, string>> = {
    '/elsewhere?y': `/${authority}/elsewhere?y`,
    there: `/${authority}/deep/there`,
    '#part': `/${authority}/deep/file#part`,
    '//mirror.example.org/x#part': '/mirror.example.org/x#part',
    'https://mirror.example.org/x': '/HTTPS///mirror.example.org/x',
    'ftp://mirror.example.org/x': 'ftp://mirror.example.org/x',
    'http://[': 'http://[',
  }
  for (const [location, expected] of Object.entries(locations)) {
    origin.at('/deep/file', to(location))
    const { fields } = await cache.get(`/${authority}/deep/file`)
    t.equal(fields.get('Location'), expected, location)
    const proxied = await cache.get(origin.url('/deep/file'))
    t.equal(proxied.fields.get('Location'), location, 'as it came, to a client of the proxy')
  }
})

t.test('an archive has a word of its own; a redirect without a target stays a failure', async t => {
  const [front, mirror] = [await ScriptedOrigin.listen(t), await ScriptedOrigin.listen(t)]
  const settings = { archives: [{ origins: [`127.0.0.1:${front.port}`], redirects: 'pass' }] }
  const cache = await TestCache.start(t, { origins: [front, mirror], settings })
  front.at(deb, to(mirror.url('/file')))
  front.at('/nowhere', reply({ status: 302 }))
  mirror.at('/again', to(mirror.url('/file')))
  mirror.at('/file', reply({ content: 'hello' }))
  t.equal((await cache.get(front.url(deb))).status, 302)
  t.equal((await cache.get(front.url('/nowhere'))).status, 503)
  t.equal((await cache.get(mirror.url('/again'))).text, 'hello')
})

t.test('a redirect that is passed comes before the stale copy of an earlier time', async t => {
  const [front, mirror] = [await ScriptedOrigin.listen(t), await ScriptedOrigin.listen(t)]
  const settings = { redirects: 'pass', freshness: { index: '0s', floor: '0s' } }
  const cache = await TestCache.start(t, { origins: [front, mirror], settings })
  const release = '/debian/dists/stable/InRelease'
  front.at(release, file({ content: 'hello', etag: '"1"' }))
  await cache.warm(front.url(release))
  front.at(release, to(mirror.url(release)))
  t.equal((await cache.get(front.url(release))).status, 302)
})
