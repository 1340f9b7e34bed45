import t from 'tap'
import { Lifetime } from '../../../lib/async/lifetime.ts'
import type { OriginLimits } from '../../../lib/http/client/client.ts'
import {
  bindsConnection,
  type ConnectionOwner,
  continuesHandshake,
  offersBinding,
} from '../../../lib/http/client/request.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import { asking, makeClient, textOf, until } from '../../fixtures/http/origin-client.ts'
import type { Teardown } from '../../fixtures/http/raw-client.ts'
import { reply, ScriptedOrigin } from '../../fixtures/http/scripted-origin.ts'
import { Gate } from '../../fixtures/time/gate.ts'

t.test('which credentials and challenges are those of a connection', async t => {
  const binding = [
    ...['NTLM', 'ntlm TlRM', 'Negotiate YII=', 'NEGOTIATE', 'Basic a,NTLM', 'a, Nego2 b'],
    ...['Kerberos YII=', 'CredSSP', 'credssp TVNTUA==', 'Negotiate, Kerberos, CredSSP', 'NTLMv2'],
  ]
  for (const value of binding) {
    t.equal(bindsConnection(value), true, value)
    t.equal(offersBinding(Fields.of(['Www-Authenticate', value])), true, value)
    t.equal(offersBinding(Fields.of(['Proxy-Authenticate', value])), true, value)
  }
  for (const value of [undefined, '', 'Basic bnRsbQ==', 'Bearer ntlm-negotiate', 'Digest x=ntlm']) {
    t.equal(bindsConnection(value), false)
  }
  for (const [value, binds] of [
    ['true', true],
    ['True ', true],
    ['false', false],
    ['', false],
  ] as const) {
    t.equal(offersBinding(Fields.of(['Persistent-Auth', value])), binds, value)
  }
  const lines = Fields.of(['WWW-Authenticate', 'Basic realm="a"'], ['WWW-Authenticate', 'NTLM'])
  t.equal(offersBinding(lines), true)
  t.equal(continuesHandshake(401, Fields.of(['WWW-Authenticate', 'NTLM TlRM+/=='])), true)
  t.equal(continuesHandshake(200, Fields.of(['WWW-Authenticate', 'Negotiate TlRM'])), false)
  t.equal(continuesHandshake(401, Fields.of(['WWW-Authenticate', 'Negotiate, NTLM'])), false)
})

const ntlm = Fields.of(['Authorization', 'NTLM TlRM'])
const challenge = { status: 401, fields: { 'WWW-Authenticate': 'NTLM TlRM' } }

async function arranged(t: Teardown, limits: Partial<OriginLimits> = {}) {
  const origin = await ScriptedOrigin.listen(t)
  origin.at('/', reply({ content: 'hello' })).at('/401', reply(challenge))
  origin.at('/plain-401', reply({ status: 401, fields: { 'WWW-Authenticate': 'NTLM' } }))
  const { client, clock } = makeClient(t, { limits })
  /** The connection that a request went over. */
  const get = async (path: string, owner?: ConnectionOwner, fields = Fields.empty) => {
    const answer = await client.request(asking(origin.url(path), { owner, fields }))
    await textOf(answer.content)
    await until(() => client.counts().busy === 0)
    return origin.requests.at(-1)?.connection ?? 0
  }
  const owner = (identity?: string): ConnectionOwner => ({ connection: new Lifetime(), identity })
  return { origin, client, clock, get, owner }
}

t.test('without an identity only a step of the handshake goes on', async t => {
  const { get, owner } = await arranged(t)
  for (const [credentials, goesOn] of [
    ['NTLM TlRM', true],
    ['negotiate YII=', true],
    ['CredSSP TVNTUA==', true],
    ['Basic YTpi, Negotiate', false],
    ['Negotiate', false],
    ['Negotiate YII=, Basic YTpi', false],
    ['x NTLM TlRM', false],
  ] as const) {
    const edge = owner()
    const first = await get('/401', edge, ntlm)
    const second = await get('/401', edge, Fields.of(['Authorization', credentials]))
    t.equal(second === first, goesOn, credentials)
  }
})

t.test('without an owner a bound connection is closed after its response', async t => {
  const { client, get } = await arranged(t)
  t.equal(await get('/'), 1)
  t.equal(await get('/', undefined, ntlm), 1, 'a connection no one has authenticated may be taken')
  t.equal(await get('/401'), 2)
  t.equal(await get('/plain-401'), 3)
  t.equal(await get('/'), 4)
  t.match(client.counts(), { free: 1, bound: 0, busy: 0 })
})

t.test('an owner has it again, and no one else', async t => {
  const { client, get, owner } = await arranged(t)
  const [ada, bob] = [owner('ada'), owner('bob')]
  t.equal(await get('/', ada, ntlm), 1)
  t.match(client.counts(), { free: 0, bound: 1, busy: 0 })
  t.equal(await get('/', bob), 2)
  t.equal(await get('/'), 2)
  t.equal(await get('/', ada), 1)
  t.equal(await get('/', { ...ada, identity: 'bob' }), 2, 'another identity on that connection')
  t.equal(await get('/', { ...ada, identity: undefined }), 2, 'or none')
  t.equal(await get('/', ada), 1)
  t.equal(await get('/', { ...ada, identity: 'bob' }, ntlm), 2, 'the newest is kept')
  t.equal(await get('/', ada), 3)
  ada.connection.end(new Error('closed'))
  await until(() => client.counts().bound === 0)
})

t.test('without an identity only a handshake goes on', async t => {
  const { client, get, owner } = await arranged(t)
  const someone = owner()
  t.equal(await get('/401', someone, ntlm), 1)
  t.equal(await get('/'), 2)
  t.equal(await get('/', someone), 2, 'without credentials')
  t.equal(await get('/', someone, ntlm), 1)
  t.equal(client.counts().bound, 0)
  t.equal(await get('/plain-401', someone, ntlm), 2, 'which was not bound before')
  t.equal(client.counts().bound, 0, 'a refusal is the end of a handshake')
})

t.test(
  'a connection given on to a request that binds it is not the one before’s any more',
  async t => {
    const { origin, client, get, owner } = await arranged(t, { perOrigin: 1 })
    const gate = new Gate()
    origin.at('/slow', reply({ content: 'x', before: gate }))
    const [ada, bob] = [owner('ada'), owner('bob')]
    const first = client.request(asking(origin.url('/slow'), { owner: ada }))
    await gate.reached
    const second = client.request(asking(origin.url('/'), { owner: bob, fields: ntlm }))
    t.match(client.counts(), { busy: 1, waiting: 1 })
    gate.open()
    await textOf((await first).content)
    t.equal(await textOf((await second).content), 'hello')
    await until(() => client.counts().busy === 0)
    t.equal(origin.requests.at(-1)?.connection, 1)
    t.match(client.counts(), { free: 0, bound: 1 })
    t.equal(await get('/', ada), 2, 'it is bob’s')
  },
)

t.test('requests of the owner wait for the one before', async t => {
  const { origin, client, get, owner } = await arranged(t, { perOrigin: 4 })
  const gate = new Gate()
  origin.at('/slow', reply({ content: 'x', before: gate }))
  const ada = owner('ada')
  const ask = (path: string, fields = Fields.empty, signal?: AbortSignal) =>
    client.request(asking(origin.url(path), { owner: ada, fields, ...(signal && { signal }) }))
  const first = ask('/slow', ntlm)
  const stop = new AbortController()
  const left = ask('/left', Fields.empty, stop.signal)
  const second = ask('/')
  await gate.reached
  stop.abort()
  await t.rejects(left, { code: 'ORIGIN_ABORTED' })
  gate.open()
  for (const answer of [await first, await second]) await textOf(answer.content)
  t.equal(client.counts().opened, 1)
  t.equal(await get('/', ada), 1)
})

t.test('the next in line gets a connection when the first request fails', async t => {
  const { origin, client, owner } = await arranged(t)
  const gate = new Gate()
  origin.at('/cut', async answer => {
    await gate.pass()
    answer.end()
  })
  const ada = owner('ada')
  const first = client.request(asking(origin.url('/cut'), { owner: ada, fields: ntlm }))
  const second = client.request(asking(origin.url('/'), { owner: ada }))
  await gate.reached
  gate.open()
  await t.rejects(first, { code: 'ORIGIN_CLOSED' })
  t.equal((await second).status, 200)
})

t.test('bound connections are bounded, and give way', async t => {
  const { client, get, owner } = await arranged(t, { perOrigin: 3, freePerOrigin: 2 })
  const owners = Array.from({ length: 6 }, (_, i) => owner(String(i)))
  for (const one of owners) await get('/', one, ntlm)
  await until(() => client.counts().bound === 2)
  const last = owners[5]
  const kept = await get('/', last)
  const all = await Promise.all([1, 2, 3].map(() => get('/')))
  t.ok(all.every(connection => connection !== kept))
  t.ok(client.counts().bound <= 1)
})

t.test(
  'the connections of others that become free end none in the middle of a handshake',
  async t => {
    const { client, get, owner } = await arranged(t, { perOrigin: 4, freePerOrigin: 2 })
    const ada = owner('ada')
    const bound = await get('/401', ada, ntlm)
    await Promise.all([get('/'), get('/')])
    t.match(client.counts(), { free: 2, bound: 1 })
    t.equal(await get('/', ada, ntlm), bound)
  },
)

t.test('one that rests for long is closed', async t => {
  const { client, clock, get, owner } = await arranged(t)
  await get('/', owner('ada'), ntlm)
  clock.advance(89_000)
  t.equal(client.counts().bound, 1)
  clock.advance(2000)
  await until(() => client.counts().bound === 0)
})
