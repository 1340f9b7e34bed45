/**
 * Who is signed in, as the gateway itself says it: to scripts of the application, to a person, and to no other site.
 */
import t, { type Test } from 'tap'
import { tokenField } from '../../../lib/auth/access/passthrough.ts'
import { nameOf, signedInPath, whoamiPath } from '../../../lib/auth/identity/whoami.ts'
import { backendOf, start } from '../../fixtures/gateway/access-lab.ts'
import { domain, startGateway } from '../../fixtures/gateway/gateway.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const page = { Accept: 'text/html', 'Sec-Fetch-Mode': 'navigate', 'Sec-Fetch-Dest': 'document' }
const script = { Accept: '*/*', 'Sec-Fetch-Mode': 'cors', 'Sec-Fetch-Dest': 'empty' }
const token = '0123456789abcdef'
const hour = 3_600_000

async function arranged(t: Test, settings: Readonly<Record<string, unknown>> = {}) {
  const { target, seen } = await backendOf(t)
  const clock = new ManualClock(start)
  const gateway = await startGateway(t, { target, clock, settings })
  const cookie = await gateway.logIn({
    ...{ email: ['ada@example.org'], displayName: ['Åsa <b>Doe'], groups: ['ops', 'a,b'] },
    uid: ['ada'],
  })
  const ask = async (path: string, fields: Record<string, string> = {}, method = 'GET') => {
    const client = await RawClient.connect(t, gateway.port)
    await client.request(method, path, { Host: domain, ...fields })
    return client.response({ to: method })
  }
  return { gateway, seen, clock, cookie, ask }
}

t.test('a script of the application is told who is signed in, and until when', async t => {
  const { ask, cookie, seen, gateway } = await arranged(t)
  const own = { ...script, 'Sec-Fetch-Site': 'same-origin' }
  for (const fields of [own, {}, { Accept: 'application/json' }]) {
    const answer = await ask(whoamiPath, { ...fields, Cookie: cookie })
    t.equal(answer.status, 200)
    t.equal(answer.fields.get('Cache-Control'), 'no-store')
    t.equal(answer.fields.get('Cross-Origin-Resource-Policy'), 'same-origin')
    t.match(answer.fields.get('Content-Type'), /^application\/json/)
    t.strictSame(JSON.parse(answer.text), {
      subject: 'ada@example.org',
      name: 'Åsa <b>Doe',
      groups: ['ops', 'a,b'],
      sessionMade: '2030-01-01T00:00:00Z',
      sessionEnds: '2030-01-01T12:00:00Z',
      sessionEndsUnused: '2030-01-01T04:00:00Z',
    })
    t.notOk(
      [...answer.fields].some(([name]) => /^access-control/i.test(name)),
      'no CORS',
    )
  }
  t.equal((await ask(whoamiPath, { ...own, Cookie: cookie }, 'HEAD')).text, '')
  t.equal((await ask(whoamiPath, { ...own, Cookie: cookie }, 'POST')).status, 405)
  t.same(seen, [], 'nothing of it reaches the application')
  const line = gateway.log.lines.find(({ message }) => message === 'request')
  t.match(line?.facts, { outcome: 'own-page', user: 'ada@example.org', status: 200 })
})

t.test('groups that are not known are not an empty list', async t => {
  const { ask, gateway } = await arranged(t)
  for (const [attributes, groups] of [
    [{}, []],
    [{ 'http://schemas.microsoft.com/claims/groups.link': ['https://graph.example.org'] }, null],
  ] as const) {
    const Cookie = await gateway.logIn({ email: ['eve@example.org'], ...attributes })
    t.strictSame(JSON.parse((await ask(whoamiPath, { Cookie })).text).groups, groups)
  }
})

t.test('what a person is called', t => {
  const of = (attributes: Readonly<Record<string, readonly string[]>>) =>
    nameOf(new Map(Object.entries(attributes)))
  t.equal(of({ displayName: ['A'], name: ['B'], givenName: ['C'] }), 'A')
  t.equal(of({ name: ['B'], givenName: ['C'] }), 'B')
  t.equal(of({ givenName: ['C'], sn: ['D'] }), 'C D')
  t.equal(of({ sn: ['D'] }), 'D')
  t.equal(of({}), undefined)
  t.end()
})

t.test('a person reads exactly what the application is told', async t => {
  const { ask, cookie } = await arranged(t, { identity: { token: true } })
  const { text, status, fields } = await ask(whoamiPath, { ...page, Cookie: cookie })
  t.equal(status, 200)
  t.equal(fields.get('Cache-Control'), 'no-store')
  t.match(fields.get('Content-Security-Policy'), "frame-ancestors 'none'")
  t.match(text, 'You are signed in as ada@example.org.')
  t.match(text, '<dt>X-Authproxy-User</dt>\n<dd>ada@example.org</dd>')
  t.match(text, '<dt>X-Authproxy-Displayname</dt>\n<dd>Åsa &#60;b&#62;Doe</dd>')
  t.match(text, '<dt>X-Authproxy-Groups</dt>\n<dd>ops,a%2Cb</dd>')
  t.match(text, '<dt>X-Authproxy-Identity</dt>\n<dd>signed proof, not shown</dd>')
  t.notMatch(text, 'eyJ', 'the proof itself could be used by others')
  t.match(text, '2030-01-01 12:00 UTC')
  for (const [language, sentence] of [
    ['de', 'Sie sind als ada@example.org angemeldet.'],
    ['da', 'Du er logget ind som ada@example.org.'],
    ['fr', 'Vous êtes connecté en tant que ada@example.org.'],
  ] as const) {
    const said = await ask(whoamiPath, { ...page, Cookie: cookie, 'Accept-Language': language })
    t.match(said.text, sentence)
  }
})

t.test('79: no page of another origin is told who is signed in', async t => {
  const { ask, cookie } = await arranged(t)
  for (const more of [
    { ...script, 'Sec-Fetch-Site': 'cross-site', Origin: 'https://evil.example.net' },
    { ...script, 'Sec-Fetch-Site': 'same-site', Origin: 'https://other.example.org' },
    { ...script, 'Sec-Fetch-Site': 'same-site' },
    { Origin: 'https://evil.example.net' },
    { Origin: 'null' },
    { Accept: 'image/*', 'Sec-Fetch-Mode': 'no-cors', 'Sec-Fetch-Site': 'cross-site' },
  ]) {
    const answer = await ask(whoamiPath, { ...more, Cookie: cookie })
    t.equal(answer.status, 403, JSON.stringify(more))
    t.notMatch(answer.text, 'ada@')
    t.notOk([...answer.fields].some(([name]) => /^access-control/i.test(name)))
  }
  const led = await ask(whoamiPath, { ...page, 'Sec-Fetch-Site': 'cross-site', Cookie: cookie })
  t.equal(led.status, 403)
  t.notMatch(led.text, 'ada@')
  t.match(led.text, `href="${whoamiPath}"`, 'a click shows it')
  const clicked = await ask(whoamiPath, {
    ...page,
    'Sec-Fetch-Site': 'same-origin',
    Cookie: cookie,
  })
  t.match(clicked.text, 'ada@')
})

t.test('without a session a script gets 401 in JSON, a person the login', async t => {
  const { ask, gateway, seen } = await arranged(t, {
    passthroughPaths: ['/__authproxy/'],
    passthroughTokens: [{ name: 'monitoring', token }],
  })
  const answer = await ask(whoamiPath, script)
  t.equal(answer.status, 401)
  t.match(JSON.parse(answer.text), { error: 'login_required' })
  t.ok(answer.fields.get('X-Authproxy-Login'))
  const withToken = await ask(whoamiPath, { [tokenField]: `Bearer ${token}` })
  t.equal(withToken.status, 401, 'a token is no person')
  t.equal((await ask(whoamiPath, page)).status, 302)
  t.equal((await ask(signedInPath, page)).status, 302)
  t.match(gateway.logins, [{ returnTo: whoamiPath }, { returnTo: signedInPath }])
  t.same(seen, [], 'neither prefix nor token leads it to the application')
})

t.test('rules do not concern it: also a person who may do nothing learns who they are', async t => {
  const { ask, cookie } = await arranged(t, { access: [{ path: '/', allow: 'nobody' }] })
  t.equal((await ask('/', { Cookie: cookie })).status, 403)
  t.equal((await ask(whoamiPath, { Cookie: cookie })).status, 200)
})

t.test('asking keeps no session alive', async t => {
  const { ask, cookie, clock } = await arranged(t)
  clock.advance(hour)
  const asked = await ask(whoamiPath, { Cookie: cookie })
  t.equal(asked.fields.get('Set-Cookie'), undefined)
  t.match(JSON.parse(asked.text), { sessionEndsUnused: '2030-01-01T04:00:00Z' })
  t.ok((await ask('/', { Cookie: cookie })).fields.get('Set-Cookie'), 'the application does')
  clock.advance(3 * hour)
  t.equal((await ask(whoamiPath, { Cookie: cookie })).status, 401)
})

t.test('a login in a window of its own ends at a page that says so to the others', async t => {
  const { ask, cookie } = await arranged(t)
  const { text, status, fields } = await ask(signedInPath, { ...page, Cookie: cookie })
  t.equal(status, 200)
  t.match(text, "new BroadcastChannel('authproxy')")
  t.notMatch(text, 'ada@')
  t.match(fields.get('Content-Security-Policy'), /script-src 'nonce-/)
})

t.test('the script for pages of the application is public, and kept for a while', async t => {
  const { ask } = await arranged(t)
  const { status, text, fields } = await ask('/__authproxy/login.js')
  t.equal(status, 200)
  t.match(text, 'export async function fetchSignedIn')
  t.equal(fields.get('Content-Type'), 'text/javascript; charset=utf-8')
  t.equal(fields.get('Cache-Control'), 'public, max-age=300')
  const known = { 'If-None-Match': fields.get('ETag') ?? '' }
  t.equal((await ask('/__authproxy/login.js', known)).status, 304)
  t.notMatch(text, /innerHTML|eval|setAttribute\('style'/, 'no policy has to allow more for it')
})
