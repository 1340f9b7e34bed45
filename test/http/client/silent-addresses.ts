/**
 * A name with several addresses, of which one accepts connections and says nothing: it is passed over, and comes last for a while.
 */
import t, { type Test } from 'tap'
import type { OriginOptions } from '../../../lib/http/client/client.ts'
import type { SilentAddress } from '../../../lib/http/client/dialling/silent-addresses.ts'
import { makeAuthority } from '../../fixtures/certificates/certificate.ts'
import { ScriptedDns } from '../../fixtures/http/dns.ts'
import { asking, makeClient, textOf, until } from '../../fixtures/http/origin-client.ts'
import { reply, type Script, ScriptedOrigin } from '../../fixtures/http/scripted-origin.ts'
import { Gate } from '../../fixtures/time/gate.ts'

const never = new Gate()
const silence: Script = () => never.pass()
const hosts = ['127.0.0.2', '127.0.0.3', '127.0.0.4']
const nextAddressAfter = 3000

/** Origins at several addresses of one name and a client that knows the name. */
async function addresses(
  t: Test,
  scripts: readonly Script[],
  options: Partial<OriginOptions> = {},
) {
  const origins: ScriptedOrigin[] = []
  for (const [n, script] of scripts.entries()) {
    const { port = 0 } = origins[0] ?? {}
    const origin = await ScriptedOrigin.listen(t, { host: hosts[n] ?? '', port })
    origins.push(origin.at('*', script))
  }
  const dns = new ScriptedDns({ 'archive.test': hosts.slice(0, scripts.length) })
  const silent: SilentAddress[] = []
  const onSilent = (one: SilentAddress) => void silent.push(one)
  const made = makeClient(t, { lookup: dns.lookup, onSilent, ...options })
  const port = origins[0]?.port ?? 0
  const url = `http://archive.test:${port}/file`
  return { ...made, origins, silent, url, port }
}

t.test('the next address is asked after three seconds of silence', async t => {
  const { client, clock, origins, silent, url, port } = await addresses(t, [
    silence,
    reply({ content: 'hello' }),
  ])
  const [first, second] = origins
  const answer = client.request(asking(url, { nextAddressAfter }))
  await first?.arrived('/file')
  clock.advance(2999)
  t.equal(second?.connections, 0)
  clock.advance(1)
  const response = await answer
  t.equal(response.address, '127.0.0.3')
  t.equal(await textOf(response.content), 'hello')
  await first?.seen('/file')[0]?.gone
  t.strictSame(silent, [{ address: `127.0.0.2:${port}`, origin: `archive.test:${port}` }])

  t.test('and the silent one comes last for two minutes', async t => {
    await until(() => client.counts().busy === 0)
    for (let n = 0; n < 5; n += 1) {
      const next = await client.request(asking(url, { nextAddressAfter, fresh: true }))
      t.equal(next.address, '127.0.0.3')
      await textOf(next.content)
    }
    t.equal(first?.seen('/file').length, 1)
    clock.advance(120_001)
    first?.at('*', reply({ content: 'again' }))
    const again = await client.request(asking(url, { nextAddressAfter, fresh: true }))
    t.equal(again.address, '127.0.0.2', 'it is tried again')
    await textOf(again.content)
    t.strictSame(client.dialler.silent.states(), [])
  })
})

t.test(
  'the next address takes the connection of a silent one where no more is allowed',
  async t => {
    const { client, clock, origins, silent, url } = await addresses(
      t,
      [silence, reply({ content: 'hello' })],
      { connectionsTo: () => 1 },
    )
    const [first, second] = origins
    const answer = client.request(asking(url, { nextAddressAfter }))
    await first?.arrived('/file')
    clock.advance(3000)
    await second?.arrived('/file')
    t.equal(client.counts().busy, 1)
    t.equal(await textOf((await answer).content), 'hello')
    t.equal(silent.length, 1)
  },
)

t.test('tries of several requests at two addresses keep to the limit', async t => {
  const { client, clock, origins, url } = await addresses(
    t,
    [silence, reply({ content: 'hello' })],
    { connectionsTo: () => 3 },
  )
  const all = [0, 1, 2, 3].map(async () => {
    const { content } = await client.request(asking(url, { nextAddressAfter }))
    return textOf(content)
  })
  await until(() => origins[0]?.seen('/file').length === 3)
  let most = 0
  origins[1]?.at('*', async answer => {
    most = Math.max(most, client.counts().busy)
    await reply({ content: 'hello' })(answer)
  })
  clock.advance(3000)
  t.strictSame(await Promise.all(all), ['hello', 'hello', 'hello', 'hello'])
  t.ok(most <= 3, `${most} at a time`)
})

t.test('three addresses, two of them silent', async t => {
  const { client, clock, origins, silent, url } = await addresses(t, [
    silence,
    silence,
    reply({ content: 'hello' }),
  ])
  const answer = client.request(asking(url, { nextAddressAfter }))
  await origins[0]?.arrived('/file')
  clock.advance(3000)
  await origins[1]?.arrived('/file')
  clock.advance(3000)
  t.equal((await answer).address, '127.0.0.4')
  t.equal(silent.length, 2)
  ;(await answer).content.close()
})

t.test(
  'addresses that are slow and not silent: the first head counts, and none is noted',
  async t => {
    const gate = new Gate()
    const slowly: Script = async answer => {
      await gate.pass()
      await reply({ content: 'slow' })(answer)
    }
    const { client, clock, origins, silent, url } = await addresses(t, [slowly, silence])
    const answer = client.request(asking(url, { nextAddressAfter, deadlines: { fields: 60_000 } }))
    await origins[0]?.arrived('/file')
    clock.advance(3000)
    await origins[1]?.arrived('/file')
    clock.advance(20_000)
    gate.open()
    t.equal((await answer).address, '127.0.0.2')
    t.equal(await textOf((await answer).content), 'slow')
    await origins[1]?.seen('/file')[0]?.gone
    t.strictSame(silent, [])
  },
)

t.test('an address that is slow answers although the next one is broken', async t => {
  for (const status of [429, 500, 503]) {
    const gate = new Gate()
    const { client, clock, origins, silent, url } = await addresses(t, [
      async answer => {
        await gate.pass()
        await reply({ content: 'slow' })(answer)
      },
      reply({ status, content: 'broken' }),
    ])
    const answer = client.request(asking(url, { nextAddressAfter }))
    await origins[0]?.arrived('/file')
    clock.advance(3000)
    await origins[1]?.arrived('/file')
    await until(() => client.counts().free === 1)
    clock.advance(5000)
    gate.open()
    t.equal(await textOf((await answer).content), 'slow')
    t.strictSame(silent, [])
  }
})

t.test('a broken address answers for one that stays silent, or fails', async t => {
  for (const end of ['silent', 'fails']) {
    const gate = new Gate()
    const { client, clock, origins, url } = await addresses(t, [
      async answer => {
        await gate.pass()
        if (end === 'fails') return answer.reset()
        await silence(answer)
      },
      reply({ status: 503, content: 'broken' }),
    ])
    const answer = client.request(asking(url, { nextAddressAfter }))
    await origins[0]?.arrived('/file')
    clock.advance(3000)
    await origins[1]?.arrived('/file')
    await until(() => client.counts().free === 1)
    gate.open()
    if (end === 'silent') clock.advance(10_000)
    t.equal((await answer).status, 503)
    t.equal(await textOf((await answer).content), 'broken')
    await until(() => client.counts().busy === 0)
  }
})

t.test('without the option a deadline notes the address, and the failure names it', async t => {
  const { client, clock, origins, url, port } = await addresses(t, [
    silence,
    reply({ content: 'hello' }),
  ])
  const failed = client.request(asking(url)).then(
    () => undefined,
    (error: unknown) => error,
  )
  await origins[0]?.arrived('/file')
  clock.advance(30_000)
  t.match(await failed, {
    code: 'ORIGIN_FIELDS_TIMEOUT',
    message: `archive.test:${port} at 127.0.0.2 did not begin its response within 30000 ms`,
  })
  t.equal(origins[1]?.connections, 0, 'no request is sent twice')
  const response = await client.request(asking(url, { method: 'POST' }))
  t.equal(response.address, '127.0.0.3')
  await textOf(response.content)
})

t.test('a name with one address is asked once, and its address is not noted', async t => {
  const { client, clock, origins, silent, url } = await addresses(t, [silence])
  const failed = client.request(asking(url, { nextAddressAfter })).catch((error: unknown) => error)
  await origins[0]?.arrived('/file')
  clock.advance(30_000)
  t.match(await failed, { code: 'ORIGIN_FIELDS_TIMEOUT' })
  t.equal(origins[0]?.requests.length, 1)
  t.strictSame(silent, [])
})

t.test('content that stops notes the address too', async t => {
  const stops: Script = async answer => {
    await answer.write('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc')
    await never.pass()
  }
  const { client, clock, silent, url } = await addresses(t, [stops, reply({ content: 'hello' })])
  const response = await client.request(asking(url, { nextAddressAfter }))
  const text = textOf(response.content).catch((error: unknown) => error)
  await until(() => client.counts().busy === 1)
  await new Promise(resolve => setImmediate(resolve))
  clock.advance(30_000)
  t.match(await text, { code: 'ORIGIN_CONTENT_TIMEOUT' })
  t.equal(silent.length, 1)
})

t.test('a TLS handshake that hangs: the next address is asked', async t => {
  const authority = makeAuthority()
  const tls = authority.issue({ names: ['archive.test'] })
  const deaf = await ScriptedOrigin.listen(t, { host: '127.0.0.2', deaf: true })
  const secure = await ScriptedOrigin.listen(t, { host: '127.0.0.3', port: deaf.port, tls })
  secure.at('*', reply({ content: 'hello' }))
  const dns = new ScriptedDns({ 'archive.test': ['127.0.0.2', '127.0.0.3'] })
  const { client, clock } = makeClient(t, { lookup: dns.lookup, ca: [authority.cert] })
  const url = `https://archive.test:${deaf.port}/file`
  const answer = client.request(asking(url, { nextAddressAfter }))
  await deaf.opened(1)
  await new Promise(resolve => setImmediate(resolve))
  clock.advance(3000)
  t.equal((await answer).address, '127.0.0.3')
  t.equal(await textOf((await answer).content), 'hello')
  t.match(client.dialler.silent.states(), [{ address: `127.0.0.2:${deaf.port}` }])
})

t.test('a family of addresses: the others are not tried', async t => {
  const dns = new ScriptedDns({ 'archive.test': ['::1', '127.0.0.2'], 'six.test': ['::1'] })
  const origin = await ScriptedOrigin.listen(t, { host: '127.0.0.2' })
  origin.at('*', reply({ content: 'hello' }))
  const { client } = makeClient(t, {
    lookup: dns.lookup,
    familyOf: ({ host }) => (host === 'archive.test' || host === 'six.test' ? 'ipv4' : 'any'),
  })
  const response = await client.request(asking(`http://archive.test:${origin.port}/`))
  t.equal(response.address, '127.0.0.2')
  await textOf(response.content)
  await t.rejects(client.request(asking(`http://six.test:${origin.port}/`)), {
    code: 'ORIGIN_ADDRESS_FAMILY',
    facts: { family: 'ipv4' },
  })
})
