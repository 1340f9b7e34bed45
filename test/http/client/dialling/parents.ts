/**
 * Several parent proxies: the next way when one fails, what that says of it, and whose credentials go where.
 */
import { createServer, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import type { OriginOptions } from '../../../../lib/http/client/client.ts'
import type { Parent } from '../../../../lib/http/client/dialling/parents.ts'
import type { OriginFailure } from '../../../../lib/http/client/errors.ts'
import { Fields } from '../../../../lib/http/message/field.ts'
import { asking, makeClient, textOf, until } from '../../../fixtures/http/origin-client.ts'
import { reply, ScriptedOrigin } from '../../../fixtures/http/scripted-origin.ts'

const uri = 'http://archive.example.org/f'
const basic = (credentials: string) => `Basic ${Buffer.from(credentials).toString('base64')}`

function at(port: number, credentials?: string): Parent {
  return { host: '127.0.0.1', port, credentials }
}

/** A client with these parents, what was told of their changes, and the lines of each parent. */
function clientBy(
  t: Test,
  parents: readonly Parent[],
  more: { direct?: boolean; options?: Partial<OriginOptions> } = {},
) {
  const changes: string[] = []
  const onChange = (name: string, failure: OriginFailure | undefined) => {
    changes.push(`${name} ${failure?.code ?? 'answers'}`)
  }
  const rules = { parents, asks: () => true, direct: more.direct ?? false, onChange }
  return { ...makeClient(t, { parents: rules, ...more.options }), changes }
}

/** A port that takes connections and never answers. */
async function silent(t: Test): Promise<{ port: number; sockets: Set<Socket> }> {
  const sockets = new Set<Socket>()
  const server = createServer(socket => {
    sockets.add(socket.on('error', () => undefined))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const address = server.address()
  return { port: typeof address === 'object' ? (address?.port ?? 0) : 0, sockets }
}

async function closedPort(t: Test): Promise<number> {
  const parent = await ScriptedOrigin.listen(t)
  await parent.close()
  return parent.port
}

t.test(
  'a parent that takes no connection: the next one, which is asked first from then on',
  async t => {
    const dead = await closedPort(t)
    const second = await ScriptedOrigin.listen(t)
    second.at('*', reply({ content: 'by the second' }))
    const { client, clock, changes } = clientBy(t, [
      at(dead, 'ann:one'),
      at(second.port, 'bob:two'),
    ])
    for (let i = 0; i < 3; i += 1) {
      const answer = await client.request(asking(uri))
      t.equal(await textOf(answer.content), 'by the second')
      t.equal(answer.parent, `127.0.0.1:${second.port}`)
    }
    for (const { fields } of second.requests) {
      t.equal(fields.get('Proxy-Authorization'), basic('bob:two'), 'its own credentials')
    }
    t.strictSame(changes, [`127.0.0.1:${dead} ORIGIN_PARENT_PROXY_FAILED`], 'said once')
    t.match(client.dialler.parents.states(), [
      { failed: 1, answered: 0, because: /could not be used/ },
      { failed: 0, answered: 3, because: undefined },
    ])
    clock.advance(10_000)
    await textOf((await client.request(asking(uri))).content)
    t.match(client.dialler.parents.states(), [{ failed: 2 }, { answered: 4 }], 'tried once more')
    clock.advance(10_000)
    await textOf((await client.request(asking(uri))).content)
    t.match(client.dialler.parents.states(), [{ failed: 2 }, {}], 'the rest has doubled')
  },
)

t.test(
  'a parent that hangs is passed over after ten seconds, and taken again when it answers',
  async t => {
    const hung = await ScriptedOrigin.listen(t)
    let hangs = true
    hung.at('*', async answer => {
      if (!hangs) await reply({ content: 'by the first' })(answer)
    })
    const second = await ScriptedOrigin.listen(t)
    second.at('*', reply({ content: 'by the second' }))
    const { client, clock, changes } = clientBy(t, [at(hung.port, 'ann:one'), at(second.port)])
    const waiting = client.request(asking(uri))
    await hung.arrived(uri)
    clock.advance(9999)
    t.equal(second.requests.length, 0)
    clock.advance(1)
    t.equal(await textOf((await waiting).content), 'by the second')
    t.notOk(second.requests[0]?.fields.has('Proxy-Authorization'), 'not those of the first')
    const at1 = hung.requests.length
    await textOf((await client.request(asking(uri))).content)
    t.equal(hung.requests.length, at1, 'nothing waits for it again')
    hangs = false
    clock.advance(10_000)
    t.equal(await textOf((await client.request(asking(uri))).content), 'by the first')
    t.strictSame(changes, [
      `127.0.0.1:${hung.port} ORIGIN_FIELDS_TIMEOUT`,
      `127.0.0.1:${hung.port} answers`,
    ])
  },
)

t.test('a slow origin is no failure of a parent that answers others meanwhile', async t => {
  const parent = await ScriptedOrigin.listen(t)
  parent.at(uri, () => Promise.resolve())
  parent.at('http://other.example.org/', reply({ content: 'here' }))
  const second = await ScriptedOrigin.listen(t)
  const { client, clock, changes } = clientBy(t, [at(parent.port), at(second.port)])
  const slow = client.request(asking(uri))
  await parent.arrived(uri)
  clock.advance(1)
  await textOf((await client.request(asking('http://other.example.org/'))).content)
  clock.advance(10_000)
  await t.rejects(slow, { code: 'ORIGIN_FIELDS_TIMEOUT' })
  t.strictSame([changes, second.requests.length], [[], 0])
})

t.test('407, 502, 503 and 504 go to the next, other answers count', async t => {
  const [first, second] = [await ScriptedOrigin.listen(t), await ScriptedOrigin.listen(t)]
  const { client, clock, changes } = clientBy(t, [at(first.port, 'ann:one'), at(second.port)])
  second.at('*', reply({ content: 'by the second' }))
  const status = async () => {
    const { status, content } = await client.request(asking(uri))
    await textOf(content)
    return status
  }
  for (const said of [502, 503, 504]) {
    first.at('*', reply({ status: said }))
    t.equal(await status(), 200, `${said}`)
  }
  t.strictSame(changes, [], 'the origin may be what fails')
  for (const said of [400, 403, 404, 500]) {
    first.at('*', reply({ status: said }))
    t.equal(await status(), said)
  }
  second.at('*', reply({ status: 504 }))
  first.at('*', reply({ status: 503 }))
  t.equal(await status(), 504, 'the answer of the last')
  second.at('*', reply({}))
  first.at('*', reply({ status: 407 }))
  t.equal(await status(), 200)
  t.strictSame(changes, [], 'the origin may have sent it')
  clock.advance(60_000)
  t.equal(await status(), 200)
  t.match(changes, [/ORIGIN_PARENT_PROXY_STATUS/], 'nothing else has come for a minute')
})

t.test('what may not be sent twice is not, and what was never sent goes on', async t => {
  const [first, second] = [await ScriptedOrigin.listen(t), await ScriptedOrigin.listen(t)]
  const { client, clock } = clientBy(t, [at(first.port), at(second.port)])
  second.at('*', reply({ content: 'by the second' }))
  first.at('*', reply({ status: 503 }))
  const post = (target = uri) =>
    asking(target, { method: 'POST', content: { kind: 'bytes', bytes: Buffer.from('hello') } })
  t.equal((await client.request(post())).status, 503)
  first.at('*', () => Promise.resolve())
  const waiting = client.request(post(`${uri}2`))
  await first.arrived(`${uri}2`)
  clock.advance(10_000)
  await t.rejects(waiting, { code: 'ORIGIN_FIELDS_TIMEOUT' })
  t.equal(second.requests.length, 0)
  const { client: other } = clientBy(t, [at(await closedPort(t)), at(second.port)])
  t.equal(await textOf((await other.request(post())).content), 'by the second')
})

t.test('tunnels and https: CONNECT goes to the next as well', async t => {
  const { port, sockets } = await silent(t)
  const refusing = await ScriptedOrigin.listen(t)
  refusing.at('*', reply({ status: 502 }))
  const last = await ScriptedOrigin.listen(t)
  last.at('*', async answer => {
    await answer.write('HTTP/1.1 200 OK\r\n\r\n')
    answer.takeOver()
  })
  const { client, clock, changes } = clientBy(t, [
    at(port, 'ann:one'),
    at(refusing.port, 'bob:two'),
    at(last.port, 'cyd:three'),
  ])
  const authority = { host: 'archive.example.org', port: 443 }
  const { signal } = new AbortController()
  const dialled = client.dialler.dial({ authority, use: 'tunnel', trusted: true, signal })
  await until(() => sockets.size === 1)
  clock.advance(10_000)
  const { transport } = await dialled
  transport.destroy()
  t.equal(refusing.requests[0]?.fields.get('Proxy-Authorization'), basic('bob:two'))
  t.equal(last.requests[0]?.fields.get('Proxy-Authorization'), basic('cyd:three'))
  t.strictSame(changes, [`127.0.0.1:${port} ORIGIN_PARENT_PROXY_TIMEOUT`])
  const secure = client.request(
    asking('https://archive.example.org/', { signal: AbortSignal.abort() }),
  )
  await t.rejects(secure, { code: 'ORIGIN_ABORTED' })
})

t.test(
  'directly when all fail: under the rules for addresses, and without any credentials',
  async t => {
    const origin = await ScriptedOrigin.listen(t)
    origin.at('/f', reply({ content: 'directly' }))
    const dead = at(await closedPort(t), 'ann:one')
    const { client } = clientBy(t, [dead], { direct: true })
    const answer = await client.request(asking(origin.url('/f')))
    t.equal(await textOf(answer.content), 'directly')
    t.equal(answer.parent, undefined)
    t.notOk(origin.requests[0]?.fields.has('Proxy-Authorization'))
    const lookup = async () => ['10.0.0.1']
    const { client: strict } = clientBy(t, [dead], { direct: true, options: { lookup } })
    const untrusted = asking('http://inside.example.org/', { trusted: false })
    await t.rejects(strict.request(untrusted), { code: 'ORIGIN_ADDRESS_REFUSED' })
  },
)

t.test('when all are passed over, they are tried all the same', async t => {
  const [one, two] = [await closedPort(t), await closedPort(t)]
  const { client } = clientBy(t, [at(one), at(two)])
  for (let i = 1; i < 3; i += 1) {
    await t.rejects(client.request(asking(uri)), { code: 'ORIGIN_PARENT_PROXY_FAILED' })
    t.match(client.dialler.parents.states(), [{ failed: i }, { failed: i }])
  }
})

t.test('a request that is given up tries no other way', async t => {
  const parent = await ScriptedOrigin.listen(t)
  parent.at('*', () => Promise.resolve())
  const second = await ScriptedOrigin.listen(t)
  const { client, changes } = clientBy(t, [at(parent.port), at(second.port)])
  const stop = new AbortController()
  const waiting = client.request(asking(uri, { signal: stop.signal, fields: Fields.empty }))
  await parent.arrived(uri)
  stop.abort()
  await t.rejects(waiting, { code: 'ORIGIN_ABORTED' })
  t.strictSame([changes, second.requests.length], [[], 0])
})

t.test('no origin has the parents passed over for others', async t => {
  const [first, second] = [await ScriptedOrigin.listen(t), await ScriptedOrigin.listen(t)]
  const good = 'http://good.example.org/'
  const { client, clock, changes } = clientBy(t, [at(first.port), at(second.port)])
  first.at(good, reply({ content: 'by the first' }))
  second.at('*', reply({ content: 'by the second' }))
  const from = async (target: string) => textOf((await client.request(asking(target))).content)
  t.equal(await from(good), 'by the first')
  const answers: ReadonlyArray<Parameters<typeof first.at>[1]> = [
    reply({ status: 407, fields: { 'Proxy-Authenticate': 'Basic realm="x"' } }),
    answer => answer.write('HTTP/1.1 200 OK\r\nno field\r\n\r\n'),
    answer => answer.write(`HTTP/1.1 200 OK\r\nX: ${'x'.repeat(300_000)}\r\n\r\n`),
    answer => answer.reset(),
  ]
  for (const [i, bad] of answers.entries()) {
    clock.advance(20_000)
    const target = `http://bad.example.org/${i}`
    first.at(target, bad)
    t.equal(await from(target), 'by the second', `${i}`)
    t.equal(await from(good), 'by the first')
  }
  t.strictSame(changes, [])
})

t.test('an origin that is silent to CONNECT, while the parent answers others', async t => {
  const [first, second] = [await ScriptedOrigin.listen(t), await ScriptedOrigin.listen(t)]
  const good = 'http://good.example.org/'
  const { client, clock, changes } = clientBy(t, [at(first.port), at(second.port)])
  first.at(good, reply({ content: 'by the first' }))
  first.at('bad.example.org:443', () => Promise.resolve())
  second.at('*', async answer => {
    await answer.write('HTTP/1.1 200 OK\r\n\r\n')
    answer.takeOver()
  })
  const authority = { host: 'bad.example.org', port: 443 }
  const { signal } = new AbortController()
  const dialled = client.dialler.dial({ authority, use: 'tunnel', trusted: true, signal })
  await first.arrived('bad.example.org:443')
  clock.advance(1)
  t.equal(await textOf((await client.request(asking(good))).content), 'by the first')
  clock.advance(10_000)
  ;(await dialled).transport.destroy()
  t.strictSame(changes, [])
})
