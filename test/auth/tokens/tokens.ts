/**
 * Tokens that people make for their programs: what they get with them, by both fronts.
 */
import t from 'tap'
import { tokensPath } from '../../../lib/auth/gate/gateway-paths.ts'
import { idOf, startTokens, tokenIn } from '../../fixtures/gateway/token-lab.ts'

t.test('a program with a token asks as the person, and the log names the token', async t => {
  const lab = await startTokens(t)
  const ada = await lab.signIn('ada@example.org', ['staff', 'ops'])
  const token = await lab.make(ada, {
    name: 'nightly backup',
    paths: '/api/',
    methods: ['GET', 'POST'],
  })
  const answer = await lab.present(token, '/api/x', 'POST')
  t.equal(answer.status, 200)
  const [request] = lab.backend.requests
  t.equal(request?.fields.get('X-Authproxy-User'), 'ada@example.org')
  t.equal(request?.fields.get('X-Authproxy-Groups'), 'staff,ops')
  t.notOk(request?.fields.has('X-Authproxy-Authorization'))
  t.match(lab.logged().at(-1), {
    outcome: 'forwarded',
    because: 'token',
    user: 'ada@example.org',
    program: `${idOf(token)} nightly backup`,
  })
  t.match(lab.gateway.log.lines.find(({ message }) => message === 'token made')?.facts, {
    user: 'ada@example.org',
    program: `${idOf(token)} nightly backup`,
  })
})

t.test('the page lists the tokens of the person, and ends them', async t => {
  const lab = await startTokens(t)
  const ada = await lab.signIn('ada@example.org')
  const page = async (cookie: string) =>
    (await lab.ask(tokensPath, { Cookie: cookie, Accept: 'text/html' })).text
  t.notMatch(await page(ada), /<dt>/)
  const first = await lab.make(ada, {
    name: 'one',
    paths: '/api/ /data',
    methods: ['GET', 'DELETE'],
    days: '30',
  })
  const second = await lab.make(ada, { name: 'two' })
  const shown = await page(ada)
  for (const text of ['one', 'two', '/api/ /data', 'GET DELETE', idOf(first), '2030-01-31'])
    t.match(shown, text)
  t.notMatch(shown, first.split('.')[2] ?? '', 'without the token')
  const other = await lab.signIn('bob@example.org')
  t.notMatch(await page(other), idOf(first))
  t.equal((await lab.post(ada, { end: idOf(first) })).status, 200)
  t.notMatch(await page(ada), idOf(first))
  t.equal(await lab.status(first), 401)
  t.equal(await lab.status(second), 200)
  t.match((await lab.post(ada, { end: 'all' })).text, 'Your session has ended.')
  t.equal(await lab.status(second), 401)
  t.equal((await lab.ask('/', { Cookie: ada })).status, 401, 'and all sessions')
  lab.clock.advance(1)
  const again = await lab.signIn('ada@example.org')
  t.notMatch(await page(again), /<dt>/)
  t.equal((await lab.ask(tokensPath, { Cookie: again }, 'HEAD')).status, 200)
  t.equal((await lab.ask(tokensPath, { Cookie: again }, 'DELETE')).status, 405)
})

t.test(
  'the page of a person without a session leads to the login; without the setting it is of the application',
  async t => {
    const lab = await startTokens(t)
    t.equal((await lab.ask(tokensPath, { Accept: 'text/html' })).status, 302)
    t.equal((await lab.ask(tokensPath)).status, 401)
    t.equal((await lab.post('', {})).status, 302, 'and makes nothing')
    t.notOk(lab.gateway.log.lines.some(({ message }) => message === 'token made'))
    t.equal(lab.backend.requests.length, 0)
    const off = await startTokens(t, { settings: { tokens: {} } })
    const ada = await off.signIn('ada@example.org')
    t.equal((await off.ask(tokensPath, { Cookie: ada })).text, 'ok')
  },
)

t.test('`authproxy explain` names the token that a rule refused', async t => {
  const lab = await startTokens(t)
  const token = await lab.make(await lab.signIn('ada@example.org'), { name: 'nightly backup' })
  lab.reloading({ access: [{ path: '/', allow: 'nobody' }] })
  await lab.gateway.service.reload()
  const refused = await lab.present(token)
  t.equal(refused.status, 403)
  const { requestId } = JSON.parse(refused.text)
  const said = JSON.stringify(await lab.tell({ do: 'explain', reference: requestId }))
  t.match(said, `program      ${idOf(token)} nightly backup`)
  t.notMatch(said, token.split('.')[2] ?? '')
})

t.test(
  'a watched rule lets a token pass as its person, and counts; those of tokens are enforced',
  async t => {
    const ops = [{ groups: ['ops'] }]
    const lab = await startTokens(t, {
      settings: {
        access: [
          { path: '/ops/', allow: ops },
          { path: '/', allow: 'signed-in' },
        ],
        accessEnforce: 'watch',
        tokens: {
          longest: '30d',
          access: [
            { path: '/data/', allow: ops },
            { path: '/', allow: 'signed-in' },
          ],
        },
      },
    })
    const ada = await lab.signIn('ada@example.org', ['staff'])
    const token = await lab.make(ada)
    t.equal(await lab.status(token, '/ops/x'), 200)
    t.match(lab.logged().at(-1), { because: 'token', user: 'ada@example.org', would: 'refuse' })
    t.equal((await lab.ask('/data/x', { Cookie: ada })).status, 200)
    t.equal(await lab.status(token, '/data/x'), 403)
  },
)

t.test('a record outlives a restart', async t => {
  const lab = await startTokens(t)
  const ada = await lab.signIn('ada@example.org')
  const token = await lab.make(ada)
  await lab.gateway.stop()
  const again = await startTokens(t, { directory: lab.gateway.directory, clock: lab.clock })
  t.equal(await again.status(token), 200)
  t.match((await again.ask(tokensPath, { Cookie: ada })).text, idOf(token))
  await again.post(ada, { end: idOf(token) })
  await again.gateway.stop()
  const third = await startTokens(t, { directory: lab.gateway.directory, clock: lab.clock })
  t.equal(await third.status(token), 401)
  t.notMatch((await third.ask(tokensPath, { Cookie: ada })).text, idOf(token))
})

t.test('a form that is not right is shown again, with what was written', async t => {
  const lab = await startTokens(t, { settings: { tokens: { longest: '10d' } } })
  const ada = await lab.signIn('ada@example.org')
  for (const [values, says] of [
    [{ name: '' }, 'The name is one line'],
    [{ name: 'x'.repeat(61) }, 'The name is one line'],
    [{ paths: ' ' }, 'Name one to ten paths'],
    [{ paths: 'api' }, 'Name one to ten paths'],
    [{ paths: '/a?b' }, 'Name one to ten paths'],
    [{ paths: Array.from({ length: 11 }, (_, i) => `/${i}`).join('\n') }, 'Name one to ten paths'],
    [{ methods: [] }, 'Choose a method'],
    [{ methods: ['TRACE'] }, 'Choose a method'],
    [{ days: '11' }, 'Days, at most 10'],
    [{ days: '0' }, 'Days, at most 10'],
    [{ days: '1.5' }, 'Days, at most 10'],
    [{ days: 'x' }, 'Days, at most 10'],
  ] as const) {
    const answer = await lab.post(ada, { name: 'kept', ...values })
    t.equal(answer.status, 400, JSON.stringify(values))
    t.match(answer.text, says)
    t.equal(tokenIn(answer), undefined)
  }
  t.match((await lab.post(ada, { name: 'kept', paths: 'api' })).text, 'value="kept"')
})
