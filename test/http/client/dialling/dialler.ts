import { once } from 'node:events'
import { createServer } from 'node:net'
import { TLSSocket } from 'node:tls'
import t from 'tap'
import {
  Dialler,
  type DialOptions,
  type DialRequest,
} from '../../../../lib/http/client/dialling/dialler.ts'
import { singleParent } from '../../../../lib/http/client/dialling/parents.ts'
import { OriginFailure } from '../../../../lib/http/client/errors.ts'
import { makeAuthority } from '../../../fixtures/certificates/certificate.ts'
import { noSuchName, ScriptedDns } from '../../../fixtures/http/dns.ts'
import { standstill } from '../../../fixtures/http/origin-client.ts'
import { ScriptedOrigin } from '../../../fixtures/http/scripted-origin.ts'
import { Gate } from '../../../fixtures/time/gate.ts'
import { ManualClock } from '../../../fixtures/time/manual-clock.ts'

const never = new AbortController().signal

function makeDialler(options: Partial<DialOptions> = {}) {
  const clock = new ManualClock(0)
  const deadlines = { lookup: 10, connect: 20, parent: 30, tls: 40 }
  return { clock, dialler: new Dialler({ clock, deadlines, isPublic: () => false, ...options }) }
}

function to(host: string, port: number, options: Partial<DialRequest> = {}): DialRequest {
  return { authority: { host, port }, use: 'tunnel', trusted: true, signal: never, ...options }
}

function failureOf(request: Promise<unknown>): Promise<OriginFailure> {
  return request.then(
    () => Promise.reject(new Error('it did not fail')),
    error => (error instanceof OriginFailure ? error : Promise.reject(error)),
  )
}

/** A port of loopback nobody listens on. */
async function closedPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('not listening')
  await new Promise(resolve => server.close(resolve))
  return address.port
}

t.test('a name that does not exist, or that nobody answers for', async t => {
  const gate = new Gate()
  const dns = new ScriptedDns({
    'hangs.example.org': () => gate.pass().then(() => []),
    'broken.example.org': Object.assign(new Error('no'), { code: 'EAI_AGAIN' }),
  })
  const { dialler, clock } = makeDialler({ lookup: dns.lookup })
  t.match(await failureOf(dialler.dial(to('none.example.org', 80))), {
    ...{ code: 'ORIGIN_DNS_NOT_FOUND', phase: 'dns', fault: 'upstream', timedOut: false },
    facts: { origin: 'none.example.org:80' },
  })
  t.match(await failureOf(dialler.dial(to('broken.example.org', 80))), {
    code: 'ORIGIN_DNS_FAILED',
  })
  const late = failureOf(dialler.dial(to('hangs.example.org', 80)))
  await gate.reached
  clock.advance(10)
  t.match(await late, { code: 'ORIGIN_DNS_TIMEOUT', timedOut: true, facts: { after: 10 } })
  const control = new AbortController()
  const aborted = failureOf(dialler.dial(to('hangs.example.org', 80, { signal: control.signal })))
  await standstill()
  control.abort()
  t.match(await aborted, { code: 'ORIGIN_ABORTED', phase: 'dns', fault: 'downstream' })
  gate.open()
})

t.test('a host that is not trusted is reached only at public addresses', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const dns = new ScriptedDns({
    'private.example.org': ['127.0.0.1', '10.0.0.1'],
    'mixed.example.org': ['10.0.0.1', '127.0.0.1'],
  })
  const asked: string[] = []
  const isPublic = (address: string) => {
    asked.push(address)
    return false
  }
  const { dialler } = makeDialler({ lookup: dns.lookup, isPublic })
  const untrusted = { trusted: false }
  const refused = await failureOf(dialler.dial(to('private.example.org', origin.port, untrusted)))
  t.match(refused, { code: 'ORIGIN_ADDRESS_REFUSED', phase: 'address' })
  t.match(refused.message, /is at 127\.0\.0\.1, 10\.0\.0\.1, which is not public/)
  t.notMatch(refused.publicText, /127/)
  const literal = await failureOf(dialler.dial(to('127.0.0.1', origin.port, untrusted)))
  t.match(literal, { code: 'ORIGIN_ADDRESS_REFUSED', facts: { address: '127.0.0.1' } })
  t.strictSame(asked, ['127.0.0.1', '10.0.0.1', '127.0.0.1'])
  t.equal(origin.connections, 0)

  const choosy = makeDialler({ lookup: dns.lookup, isPublic: address => address === '127.0.0.1' })
  const dialled = await choosy.dialler.dial(to('mixed.example.org', origin.port, untrusted))
  t.equal(dialled.address, '127.0.0.1', 'the private one is not even tried')
  t.equal(dialled.transport.socket.remoteAddress, '127.0.0.1')
  dialled.transport.socket.destroy()
  const trusted = await dialler.dial(to('private.example.org', origin.port))
  trusted.transport.socket.destroy()
})

t.test('a name that changes its answer after the check gains nothing', async t => {
  const origin = await ScriptedOrigin.listen(t, { host: '127.0.0.2' })
  let answers = 0
  const dns = new ScriptedDns()
  dns.set('rebinds.example.org', async () => {
    answers += 1
    return answers === 1 ? ['127.0.0.2'] : ['127.0.0.1']
  })
  const { dialler } = makeDialler({ lookup: dns.lookup, isPublic: one => one === '127.0.0.2' })
  const request = to('rebinds.example.org', origin.port, { trusted: false })
  const { socket } = (await dialler.dial(request)).transport
  t.equal(socket.remoteAddress, '127.0.0.2')
  t.equal(dns.asked('rebinds.example.org'), 1)
  socket.destroy()
})

t.test('a connection that is refused, or does not come about in time', async t => {
  const { dialler, clock } = makeDialler()
  const port = await closedPort()
  const refused = await failureOf(dialler.dial(to('127.0.0.1', port)))
  t.match(refused, { code: 'ORIGIN_CONNECT_REFUSED', phase: 'connect', fault: 'upstream' })
  const origin = await ScriptedOrigin.listen(t)
  const late = failureOf(dialler.dial(to('127.0.0.1', origin.port)))
  await standstill()
  clock.advance(20)
  t.match(await late, { code: 'ORIGIN_CONNECT_TIMEOUT', facts: { after: 20 } })
  const control = new AbortController()
  const request = to('127.0.0.1', origin.port, { signal: control.signal })
  const aborted = failureOf(dialler.dial(request))
  await standstill()
  control.abort()
  t.match(await aborted, { code: 'ORIGIN_ABORTED', phase: 'connect' })
  const own = failureOf(dialler.dial(to('127.0.0.1', origin.port, { deadlines: { connect: 5 } })))
  await standstill()
  clock.advance(5)
  t.match(await own, { facts: { after: 5 } }, 'a request may have a deadline of its own')
})

t.test('certificates are always verified, and the reason is a sentence', async t => {
  const authority = makeAuthority()
  const { cert } = authority
  const stranger = makeAuthority('Stranger')
  const names = ['localhost', '127.0.0.1']
  const from = new Date('2048-01-01')
  const until = new Date('2021-01-01')
  const cases = [
    [authority.issue({ names, until }), 'has expired'],
    [authority.issue({ names, from }), 'is not valid yet'],
    [authority.issue({ names: ['other.example.org'] }), 'is for another name'],
    [stranger.issue({ names }), 'issuer of the origin'],
    [makeAuthority('Itself'), 'is not meant for servers'],
  ] as const
  for (const host of names) {
    const { dialler } = makeDialler({ ca: [cert], lookup: async () => ['127.0.0.1'] })
    for (const [tls, sentence] of cases) {
      const origin = await ScriptedOrigin.listen(t, { tls })
      const failure = await failureOf(dialler.dial(to(host, origin.port, { use: 'https' })))
      t.match(failure, { code: 'ORIGIN_TLS_CERTIFICATE', phase: 'tls', fault: 'upstream' })
      t.match(failure.publicText, sentence)
    }
  }
})

t.test('TLS: the name is sent, ALPN says http/1.1, sessions are resumed', async t => {
  const authority = makeAuthority()
  const tls = { ...authority.issue({ names: ['localhost'] }), ALPNProtocols: ['h2', 'http/1.1'] }
  const origin = await ScriptedOrigin.listen(t, { tls })
  const { dialler } = makeDialler({ ca: [authority.cert], lookup: async () => ['127.0.0.1'] })
  for (const resumed of [false, true]) {
    const { socket } = (await dialler.dial(to('localhost', origin.port, { use: 'https' })))
      .transport
    if (!(socket instanceof TLSSocket)) throw new Error('not TLS')
    t.equal(socket.alpnProtocol, 'http/1.1')
    t.equal(socket.isSessionReused(), resumed)
    socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    await once(socket, 'data')
    socket.destroy()
  }
  t.equal(origin.requests.length, 2)
})

t.test('a peer that is no TLS server, an old one, or a silent one', async t => {
  const old = { ...makeAuthority(), minVersion: 'TLSv1', maxVersion: 'TLSv1.1' } as const
  const plain = await ScriptedOrigin.listen(t)
  plain.at('*', () => {})
  const talks = createServer(socket => socket.on('error', () => {}).write('220 hello\r\n'))
  talks.listen(0, '127.0.0.1')
  t.teardown(() => talks.close())
  await once(talks, 'listening')
  const address = talks.address()
  if (address === null || typeof address === 'string') throw new Error('not listening')
  const aged = await ScriptedOrigin.listen(t, { tls: { ...old, ciphers: 'DEFAULT@SECLEVEL=0' } })
  const { dialler, clock } = makeDialler()
  for (const port of [address.port, aged.port]) {
    const failure = await failureOf(dialler.dial(to('127.0.0.1', port, { use: 'https' })))
    t.match(failure, { code: 'ORIGIN_TLS_FAILED', phase: 'tls' })
  }
  const deaf = await ScriptedOrigin.listen(t, { deaf: true })
  const late = failureOf(dialler.dial(to('127.0.0.1', deaf.port, { use: 'https' })))
  await deaf.opened(1)
  await new Promise(resolve => setImmediate(resolve))
  clock.advance(40)
  t.match(await late, { code: 'ORIGIN_TLS_TIMEOUT', facts: { after: 40, address: '127.0.0.1' } })
  const control = new AbortController()
  const request = to('127.0.0.1', deaf.port, { use: 'https', signal: control.signal })
  const aborted = failureOf(dialler.dial(request))
  while (deaf.connections < 2) await new Promise(resolve => setImmediate(resolve))
  await new Promise(resolve => setImmediate(resolve))
  control.abort()
  t.match(await aborted, { code: 'ORIGIN_ABORTED', phase: 'tls' })
})

t.test('with a parent an untrusted address is still refused, the parent itself is not', async t => {
  const parent = await ScriptedOrigin.listen(t)
  const through = { host: '127.0.0.1', port: parent.port, credentials: undefined }
  const { dialler } = makeDialler({
    parents: singleParent(through),
    lookup: async name => Promise.reject(noSuchName(name)),
  })
  const failure = await failureOf(dialler.dial(to('10.0.0.1', 80, { trusted: false })))
  t.match(failure, { code: 'ORIGIN_ADDRESS_REFUSED' })
  const dialled = await dialler.dial(to('far.example.org', 80, { use: 'http', trusted: false }))
  t.equal(dialled.address, '127.0.0.1')
  dialled.transport.socket.destroy()
})
