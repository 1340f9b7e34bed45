import { connect, Socket } from 'node:net'
import t from 'tap'
import { systemClock } from '../../../../lib/async/clock.ts'
import { BlockPool } from '../../../../lib/bytes/block-pool.ts'
import { Transport } from '../../../../lib/http/client/connection.ts'
import { singleParent } from '../../../../lib/http/client/dialling/parents.ts'
import { OriginFailure } from '../../../../lib/http/client/errors.ts'
import { join } from '../../../../lib/http/proxy/tunnel.ts'
import { makeAuthority } from '../../../fixtures/certificates/certificate.ts'
import { noSuchName } from '../../../fixtures/http/dns.ts'
import { asking, makeClient, textOf, until } from '../../../fixtures/http/origin-client.ts'
import { type Answer, reply, ScriptedOrigin } from '../../../fixtures/http/scripted-origin.ts'
import { Gate } from '../../../fixtures/time/gate.ts'

const credentials = 'user:pa:ss'
const basic = `Basic ${Buffer.from(credentials).toString('base64')}`
const never = new AbortController().signal

/** Nothing but the parent can be reached: names are its business. */
const lookup = (name: string) => Promise.reject(noSuchName(name))

function parentAt(port: number) {
  return { host: '127.0.0.1', port, credentials }
}

/** Answers CONNECT and joins the connection with `port` of this machine. */
function tunnelTo(port: number) {
  return async (answer: Answer) => {
    await answer.write('HTTP/1.1 200 Go ahead\r\n\r\n')
    const client = answer.takeOver()
    if (!(client instanceof Socket)) throw new Error('not on a socket')
    const far = Transport.over(connect(port, '127.0.0.1'), new BlockPool({ limit: 0 }))
    await join({ client, far, idle: 10_000, clock: systemClock, signal: never })
  }
}

function failureOf(request: Promise<unknown>): Promise<OriginFailure> {
  return request.then(
    () => Promise.reject(new Error('it did not fail')),
    error => (error instanceof OriginFailure ? error : Promise.reject(error)),
  )
}

t.test('http goes to the parent in absolute-form, with its credentials', async t => {
  const parent = await ScriptedOrigin.listen(t)
  parent.at('http://archive.example.org/debian/f?q', reply({ content: 'hello' }))
  const { client } = makeClient(t, { parents: singleParent(parentAt(parent.port)), lookup })
  const asked = asking('http://archive.example.org/debian/f?q', { trusted: false })
  const answer = await client.request(asked)
  t.equal(await textOf(answer.content), 'hello')
  t.equal(answer.address, '127.0.0.1')
  const { fields } = parent.requests[0] ?? {}
  t.equal(fields?.get('Host'), 'archive.example.org')
  t.equal(fields?.get('Proxy-Authorization'), basic)
})

t.test('https goes through CONNECT, and the origin sees nothing of the parent', async t => {
  const authority = makeAuthority()
  const tls = authority.issue({ names: ['secure.example.org'] })
  const origin = await ScriptedOrigin.listen(t, { tls })
  origin.at('/f', reply({ content: 'hello' }))
  const parent = await ScriptedOrigin.listen(t)
  parent.at('secure.example.org:8443', tunnelTo(origin.port))
  const options = { parents: singleParent(parentAt(parent.port)), lookup, ca: [authority.cert] }
  const { client } = makeClient(t, options)
  for (const reused of [false, true]) {
    const answer = await client.request(asking('https://secure.example.org:8443/f'))
    t.equal(answer.reused, reused)
    t.equal(await textOf(answer.content), 'hello')
    await until(() => client.counts().free === 1)
  }
  t.match(parent.requests, { length: 1 })
  t.equal(parent.requests[0]?.method, 'CONNECT')
  t.equal(parent.requests[0]?.fields.get('Proxy-Authorization'), basic)
  t.equal(origin.requests[0]?.fields.get('Proxy-Authorization'), undefined)
  t.equal(origin.requests[0]?.target, '/f')
  await client.close()
})

t.test('failures of the parent are told apart from those of the origin', async t => {
  const gate = new Gate()
  t.teardown(() => gate.open())
  const parent = await ScriptedOrigin.listen(t)
  const say = (text: string) => async (answer: Answer) => {
    await answer.write(text)
    answer.end()
  }
  parent.at('denied.example.org:443', reply({ status: 407, content: 'who are you?' }))
  parent.at('down.example.org:443', reply({ status: 502, content: 'no such host' }))
  parent.at('garbage.example.org:443', say('what?\r\n\r\n'))
  parent.at('closes.example.org:443', say(''))
  parent.at('not-tls.example.org:443', say('HTTP/1.1 200 OK\r\n\r\nhello there'))
  parent.at('hangs.example.org:443', () => gate.pass())
  parent.at('http://denied.example.org/', reply({ status: 407, content: 'who are you?' }))
  parent.at('http://down.example.org/', reply({ status: 502 }))
  const { client, clock } = makeClient(t, { parents: singleParent(parentAt(parent.port)), lookup })
  const code = 'ORIGIN_PARENT_PROXY_STATUS'
  const failed = { code: 'ORIGIN_PARENT_PROXY_FAILED', phase: 'parent-proxy' }
  for (const [uri, expected] of [
    ['https://denied.example.org/', { code, facts: { status: 407 }, publicText: /credentials/ }],
    ['https://down.example.org/', { code, facts: { status: 502, origin: 'down.example.org:443' } }],
    ['https://garbage.example.org/', failed],
    ['https://closes.example.org/', failed],
    ['https://not-tls.example.org/', { code: 'ORIGIN_TLS_FAILED' }],
    ['http://denied.example.org/', { code, facts: { status: 407 } }],
  ] as const) {
    const failure = await failureOf(client.request(asking(uri)))
    t.match(failure, { fault: 'upstream', ...expected }, uri)
    const everything = `${failure.message} ${JSON.stringify(failure.facts)} ${failure.stack}`
    t.notMatch(everything, new RegExp(`pa:ss|${basic}`), 'and no credentials in it')
  }
  t.match(await client.request(asking('http://down.example.org/')), { status: 502 })
  const hanging = failureOf(client.request(asking('https://hangs.example.org/')))
  const { gone } = await parent.arrived('hangs.example.org:443')
  clock.advance(20_000)
  t.match(await hanging, { code: 'ORIGIN_PARENT_PROXY_TIMEOUT', facts: { after: 20_000 } })
  await gone

  await parent.close()
  for (const uri of ['http://other.example.org/', 'https://other.example.org/']) {
    const unreachable = await failureOf(client.request(asking(uri)))
    t.match(unreachable, { ...failed, cause: { code: 'ORIGIN_CONNECT_REFUSED' } })
  }
  await until(() => client.counts().busy === 0)
})
