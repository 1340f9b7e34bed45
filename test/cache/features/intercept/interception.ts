/**
 * Interception as clients see it, through the whole service: what comes through an opened tunnel, who does not trust us, what
 * is refused.
 */
import { writeFile } from 'node:fs/promises'
import { connect as connectTcp } from 'node:net'
import { join } from 'node:path'
import type { TLSSocket } from 'node:tls'
import t, { type Test } from 'tap'
import { fetchThrough } from '../../../fixtures/cache/lab.ts'
import { startForTest, type TestService } from '../../../fixtures/cache/service.ts'
import { makeAuthority } from '../../../fixtures/certificates/certificate.ts'
import { clientHello } from '../../../fixtures/http/client-hello.ts'
import { RawClient } from '../../../fixtures/http/raw-client.ts'
import { file, ScriptedOrigin } from '../../../fixtures/http/scripted-origin.ts'
import { eventually, freePort } from '../../../fixtures/process/ports.ts'

type T = Test

const content = 'hello, this is a package'
const lastModified = 'Wed, 01 Jan 2025 00:00:00 GMT'

async function bench(t: T, https: Readonly<Record<string, unknown>> = {}, more = {}) {
  const directory = t.testdir()
  const authority = makeAuthority()
  const tls = authority.issue({ names: ['127.0.0.1', 'localhost', 'other.localhost'] })
  const origin = await ScriptedOrigin.listen(t, { tls })
  origin.at('*', file({ content, lastModified }))
  await writeFile(join(directory, 'origin.pem'), authority.cert)
  const { port } = origin
  const service = await startForTest(t, {
    domains: [`127.0.0.1:${port}`, `localhost:${port}`],
    https: { intercept: true, origin_ca: [join(directory, 'origin.pem')], ...https },
    ...more,
  })
  const ca = await service.page('/_cachesvc/cachesvc.crt')
  const connect = async (to = `127.0.0.1:${port}`, head = '', field = '') => {
    const client = await RawClient.connect(t, service.port)
    await client.write(`CONNECT ${to} HTTP/1.1\r\nHost: ${to}\r\n${field}\r\n${head}`)
    return { client, answer: await client.response({ to: 'CONNECT' }) }
  }
  const opened = async (to?: string, servername?: string, field?: string) => {
    const { client, answer } = await connect(to, '', field)
    t.equal(answer.status, 200)
    return client.secure(t, {
      ca,
      ...(servername === undefined ? { host: '127.0.0.1' } : { servername }),
    })
  }
  return { authority, origin, service, ca, connect, opened, host: `127.0.0.1:${port}`, port }
}

const outcomes = ({ log }: TestService) =>
  log.lines
    .filter(({ facts }) => facts['method'] === 'CONNECT')
    .map(({ facts }) => `${facts['outcome']} ${facts['because']}`)

t.test('the same pipeline runs inside: miss, hit, HEAD, range, many in a row', async t => {
  const { opened, host, origin, service } = await bench(t)
  const client = await opened()
  const first = await client.get('/pool/a.deb', { Host: host })
  t.strictSame([first.status, first.text, first.fields.get('X-Cache')], [200, content, 'MISS'])
  // Until it has been stored others join the fetch.
  const hit = async () => (await client.get('/pool/a.deb', { Host: host })).fields.get('X-Cache')
  t.ok(await eventually(async () => (await hit()) === 'HIT'))
  const head = await client.headOf('/pool/a.deb', { Host: host })
  t.strictSame([head.status, head.fields.get('Content-Length')], [200, String(content.length)])
  const range = await client.get('/pool/a.deb', { Host: host, Range: 'bytes=7-' })
  t.strictSame([range.status, range.text], [206, content.slice(7)])
  const many = Array.from(
    { length: 10 },
    (_, i) => `GET /pool/${i}.deb HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
  )
  await client.write(many.join(''))
  for (const _ of many) t.equal((await client.response()).text, content)
  t.equal((await client.finish()).length, 0)
  t.equal(origin.requests.length, 11)
  t.equal(origin.requests[0]?.fields.get('Host'), host)
  t.ok(await eventually(() => outcomes(service).join() === 'intercept intercepted'))
  const { totals } = JSON.parse(await service.page('/_cachesvc/api/stats'))
  t.equal(totals.tunnel, 0)
  t.ok(totals.hits >= 3 && totals.misses >= 11 && totals.requests === totals.hits + totals.misses)
  const logged = service.log.lines.find(({ facts }) => facts['target'] === `${host}/pool/a.deb`)
  t.match(logged?.facts, { client: '127.0.0.1', key: `https://${host}/pool/a.deb` })
})

t.test('a build that the CONNECT names is that of the requests inside', async t => {
  const more = { builds: { clients: ['127.0.0.1'] }, freshness: { floor: '0s' } }
  const { opened, host, origin, service } = await bench(t, {}, more)
  const field = `Proxy-Authorization: Basic ${Buffer.from('build:image').toString('base64')}\r\n`
  const within = async (name?: string) => {
    const client = await opened(host, name, field)
    const { status, text } = await client.get('/dists/a', {
      Host: name ? `${name}:${origin.port}` : host,
    })
    return [status, text]
  }
  t.strictSame(await within(), [200, content])
  const recorded = () => service.log.lines.some(({ facts }) => facts['because'] === 'recorded')
  t.ok(await eventually(async () => (await within()).join() === `200,${content}` && recorded()))
  origin.at('*', file({ content: 'another', etag: '"2"' }))
  t.strictSame(await within(), [200, content], 'the first answer is the answer')
  t.strictSame(await within('localhost'), [200, 'another'], 'of a host in the handshake as well')
  const plain = await opened()
  const update = { Host: host, 'Cache-Control': 'no-cache' }
  t.equal((await plain.get('/dists/a', update)).text, 'another', 'others get the new one')
  const builds = service.log.lines.filter(({ facts }) => facts['build'] === 'image')
  t.ok(builds.length >= 4)
  t.notOk(origin.requests.some(({ fields }) => fields.has('Proxy-Authorization')))
})

t.test('what is asked inside is the origin’s, and has to be', async t => {
  const { opened, host, origin } = await bench(t)
  const client = await opened()
  for (const path of ['/', '/robots.txt', '/_cachesvc/', '/HTTPS///archive.example.org/d']) {
    const answer = await client.get(path, { Host: host })
    t.strictSame([answer.status, answer.text], [200, content], path)
  }
  t.equal(origin.requests.length, 4)
  t.equal((await client.get('/d', { Host: 'other.example.org' })).status, 421)
  t.equal((await client.get('http://archive.example.org/d', { Host: host })).status, 421)
  t.equal((await client.get('/d', { Host: host })).status, 200, 'the connection goes on')
  await client.write(`CONNECT ${host} HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
  const nested = await client.response()
  t.strictSame([nested.status, nested.text], [400, 'There are no tunnels within a tunnel.\n'])
  t.equal(origin.requests.length, 5)
})

t.test('the name in the handshake chooses the host, if it may be reached', async t => {
  const { opened, port, host, connect, ca, service } = await bench(t)
  const named = await opened(host, 'localhost')
  const socket = named.socket as TLSSocket
  t.equal(socket.getPeerCertificate().subjectaltname, 'DNS:localhost')
  t.equal((await named.get('/d', { Host: `localhost:${port}` })).status, 200)
  t.equal((await named.get('/d', { Host: host })).status, 421)
  const { client } = await connect(host)
  await t.rejects(client.secure(t, { ca, servername: 'other.localhost' }))
  t.ok(await eventually(() => outcomes(service).includes('intercept broken')))
  t.equal((await opened()).socket.destroyed, false, 'which is not held against the client')
})

t.test('a handshake that comes with the CONNECT', async t => {
  const { service, host, ca } = await bench(t)
  const socket = connectTcp(service.port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  // Everything the TLS client writes first goes out in one segment with the CONNECT, and the 200 is taken off the answer.
  const hello = await clientHello(t)
  socket.write(
    Buffer.concat([Buffer.from(`CONNECT ${host} HTTP/1.1\r\nHost: ${host}\r\n\r\n`), hello]),
  )
  const answered = await new Promise<Buffer>(resolve => {
    let all = Buffer.alloc(0)
    socket.on('data', block => {
      all = Buffer.concat([all, block])
      if (all.length > 500) resolve(all)
    })
  })
  const head = 'HTTP/1.1 200 Connection Established\r\n\r\n'
  t.equal(answered.toString('latin1', 0, head.length), head)
  t.strictSame([...answered.subarray(head.length, head.length + 3)], [0x16, 3, 3], 'a ServerHello')
  t.ok(ca)
})

t.test('a client that rejects our certificate is tunnelled the next time', async t => {
  const { authority, connect, host, origin, service } = await bench(t)
  const first = await connect()
  await t.rejects(first.client.secure(t, { ca: authority.cert, host: '127.0.0.1' }), {
    code: /SELF_SIGNED|UNABLE_TO/,
  })
  t.ok(await eventually(() => outcomes(service).length === 1))
  t.strictSame(outcomes(service), ['intercept distrusted'])
  const second = await (await connect()).client.secure(t, { ca: authority.cert, host: '127.0.0.1' })
  const answer = await second.get('/pool/a.deb', { Host: host })
  t.strictSame(
    [answer.status, answer.fields.get('X-Cache')],
    [200, undefined],
    'from the origin itself',
  )
  t.equal(origin.requests.length, 1)
  second.end()
  t.ok(await eventually(() => outcomes(service)[1] === 'tunnel ended'))
  t.match(service.log.lines, [{ message: 'a CA has been made' }, { message: /request|client/ }])
  t.match(
    service.log.lines.filter(({ level }) => level === 'warn'),
    [
      {
        message: 'a client does not accept our certificate',
        facts: {
          client: '127.0.0.1',
          host: '127.0.0.1',
          advice: /cachesvc\.crt .*https\.remember_distrust/,
        },
      },
    ],
  )
  t.match(
    await service.page('/_cachesvc/configuration'),
    /rejected a certificate[\s\S]+<code>127\.0\.0\.1<\/code>/,
  )
  t.match(await service.page('/_cachesvc/metrics'), /cachesvc_distrusting_clients 1\n/)
  t.match(
    await service.page('/_cachesvc/metrics'),
    /cachesvc_interceptions_total\{end="distrusted"\} 1\n/,
  )
})

t.test('also when it names another host in the handshake than in the CONNECT', async t => {
  const { authority, connect, host, port, service } = await bench(t)
  const named = { ca: authority.cert, servername: 'localhost' }
  await t.rejects((await connect()).client.secure(t, named), { code: /SELF_SIGNED|UNABLE_TO/ })
  t.ok(await eventually(() => outcomes(service).length === 1))
  for (const to of [host, `localhost:${port}`]) {
    t.ok(await (await connect(to)).client.secure(t, named), to)
  }
})

t.test('so is one that leaves without a word, in the handshake or right after it', async t => {
  const { connect, ca, service, host } = await bench(t)
  const hello = await clientHello(t)
  const silent = await connect()
  await silent.client.write(hello)
  await silent.client.bytes(500)
  silent.client.end()
  t.ok(await eventually(() => outcomes(service).length === 1))
  t.strictSame(outcomes(service), ['intercept distrusted'])

  const other = await bench(t)
  const late = await (await other.connect()).client.secure(t, { rejectUnauthorized: false })
  late.end()
  t.ok(await eventually(() => outcomes(other.service).length === 1))
  t.strictSame(outcomes(other.service), ['intercept distrusted'])
  t.ok(ca && host)
})

t.test('but not one that speaks no TLS, leaves before it has seen anything, or waits', async t => {
  const { connect, service } = await bench(t, {}, { timeouts: { client_head: '1s', drain: '1s' } })
  const plain = await connect()
  await plain.client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  await plain.client.ended
  const early = await connect()
  early.client.end()
  await early.client.ended
  const slow = await connect()
  await slow.client.ended
  t.ok(await eventually(() => outcomes(service).length === 3))
  t.strictSame(outcomes(service), Array(3).fill('intercept broken'))
  t.match(await service.page('/_cachesvc/configuration'), 'No client has rejected')
})

t.test('with remember_distrust 0 nobody is remembered', async t => {
  const { authority, connect, service } = await bench(t, { remember_distrust: 0 })
  for (let i = 0; i < 2; i += 1) {
    await t.rejects((await connect()).client.secure(t, { ca: authority.cert, host: '127.0.0.1' }))
  }
  t.ok(await eventually(() => outcomes(service).length === 2))
  t.strictSame(outcomes(service), ['intercept distrusted', 'intercept distrusted'])
  t.match(await service.page('/_cachesvc/configuration'), 'are not remembered')
})

t.test('modes: tunnel, intercept and refuse by host', async t => {
  const port = await freePort()
  const { connect, service, host, authority } = await bench(
    t,
    {
      refuse_domains: ['refused.example.org'],
      tunnel_domains: ['127.0.0.1'],
    },
    {
      domains: ['127.0.0.1', 'localhost', 'refused.example.org'],
      connect_ports: [443, port],
      ports: [80, 443, port],
    },
  )
  const refused = await connect('refused.example.org:443')
  t.equal(refused.answer.status, 403)
  t.match(refused.answer.text, /`https\.refuse_domains`; remove refused\.example\.org there/)
  const denied = await connect('elsewhere.example.org:443')
  t.match(denied.answer.text, /refused by `domains`/)
  t.ok(authority && host)
  t.strictSame(outcomes(service), ['refused https.refuse_domains', 'refused domains'])
})

t.test('https.prevent refuses CONNECT by name, and HTTPS/// is still served', async t => {
  const { connect, service, host, origin } = await bench(t, { prevent: true })
  const { answer } = await connect()
  t.equal(answer.status, 403)
  t.match(answer.text, /refused by `https\.prevent`/)
  const fetched = await fetchThrough(service.port, `http://HTTPS///${host}/pool/a.deb`)
  t.strictSame([fetched.status, fetched.content.toString()], [200, content])
  t.equal(origin.requests.length, 1)
  t.match(await service.page('/_cachesvc/configuration'), '>Disabled<')
})

t.test('the certificate of the origin is verified', async t => {
  const { opened, host, origin } = await bench(t, { origin_ca: [] })
  const answer = await (await opened()).get('/pool/a.deb', { Host: host })
  t.equal(answer.status, 503)
  t.match(answer.text, /certificate/)
  t.equal(origin.requests.length, 0)
})

t.test('an end of the service ends idle connections inside and waits for busy ones', async t => {
  const { opened, host, origin, service } = await bench(t)
  const idle = await opened()
  t.equal((await idle.get('/pool/a.deb', { Host: host })).status, 200)
  let release = () => {}
  const gate = new Promise<void>(resolve => {
    release = resolve
  })
  origin.at('/pool/slow.deb', async answer => {
    await gate
    await answer.write(
      `HTTP/1.1 200 OK\r\nContent-Length: 4\r\nLast-Modified: ${lastModified}\r\n\r\nslow`,
    )
  })
  const busy = await opened()
  await busy.request('GET', '/pool/slow.deb', { Host: host })
  await origin.arrived('/pool/slow.deb', 1)
  const stopped = service.stop()
  t.equal(await idle.ended, 'fin')
  release()
  t.equal((await busy.response()).text, 'slow')
  await busy.ended
  await stopped
})
