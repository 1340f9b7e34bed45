import { EventEmitter, once } from 'node:events'
import t from 'tap'
import { domain, startGateway } from '../fixtures/gateway/gateway.ts'
import { nodeBackend } from '../fixtures/gateway/node-backend.ts'
import { RawClient } from '../fixtures/http/raw-client.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'
import { atRest } from '../fixtures/time/until.ts'

t.test('an upload and a download are streamed with memory that stays flat', async t => {
  const size = 64 * 1024 * 1024
  let taken = 0
  const target = await nodeBackend(t, (request, response) => {
    if (request.method === 'POST') {
      request.on('data', (block: Buffer) => {
        taken += block.length
      })
      request.on('end', () => response.end(String(taken)))
      return
    }
    response.writeHead(200, { 'Content-Length': size })
    const block = Buffer.alloc(256 * 1024)
    let sent = 0
    const more = () => {
      while (sent < size) {
        sent += block.length
        if (!response.write(block)) return void response.once('drain', more)
      }
      response.end()
    }
    more()
  })
  const gateway = await startGateway(t, { target })
  const cookie = await gateway.logIn({ email: ['ada@example.org'] })
  const fields = { Host: domain, Cookie: cookie }
  const client = await RawClient.connect(t, gateway.port)
  await client.request('POST', '/', { ...fields, 'Transfer-Encoding': 'chunked' })
  const block = Buffer.alloc(1024 * 1024)
  for (let sent = 0; sent < size; sent += block.length) {
    await client.write(`${block.length.toString(16)}\r\n`)
    await client.write(block)
    await client.write('\r\n')
  }
  await client.write('0\r\n\r\n')
  t.equal((await client.response()).text, String(size))
  const before = process.memoryUsage().rss
  await client.request('GET', '/', fields)
  t.equal((await client.head()).status, 200)
  let got = 0
  while (got < size) got += (await client.bytes(Math.min(65_536, size - got))).length
  t.ok(process.memoryUsage().rss - before < 60 * 1024 * 1024, 'what is in flight is bounded')
})

t.test('a client that does not read stops the backend', async t => {
  let written = 0
  const target = await nodeBackend(t, (_, response) => {
    const block = Buffer.alloc(1024 * 1024)
    const more = () => {
      while (written < 400) {
        written += 1
        if (!response.write(block)) return void response.once('drain', more)
      }
    }
    more()
  })
  const gateway = await startGateway(t, { target, settings: { passthroughPaths: ['/big'] } })
  const client = await RawClient.connect(t, gateway.port)
  await client.request('GET', '/big', { Host: domain })
  await client.head()
  await atRest(() => written)
  t.ok(written < 100, `${written} MiB were taken`)
})

t.test('an answer that comes before the end of an upload arrives', async t => {
  const target = await nodeBackend(t, (_, response) => {
    response.writeHead(413, { Connection: 'close' })
    response.end('too much')
  })
  const gateway = await startGateway(t, { target })
  const cookie = await gateway.logIn({ email: ['ada@example.org'] })
  const client = await RawClient.connect(t, gateway.port)
  await client.request('POST', '/', { Host: domain, Cookie: cookie, 'Content-Length': '10000000' })
  await client.write(Buffer.alloc(100_000))
  const answer = await client.response()
  t.equal(answer.status, 413)
  t.equal(answer.text, 'too much')
})

t.test('100 (Continue) comes from the backend, and a refusal comes before the content', async t => {
  const target = await nodeBackend(
    t,
    () => {},
    server =>
      server.on('checkContinue', (request, response) => {
        if (request.url === '/no') return void response.writeHead(417).end('no')
        response.writeContinue()
        request.on('data', () => {}).on('end', () => response.end('taken'))
      }),
  )
  const gateway = await startGateway(t, { target })
  const cookie = await gateway.logIn({ email: ['ada@example.org'] })
  const fields = { Host: domain, Cookie: cookie, Expect: '100-continue', 'Content-Length': '5' }
  const client = await RawClient.connect(t, gateway.port)
  await client.request('POST', '/yes', fields)
  t.equal((await client.head()).status, 100)
  await client.write('12345')
  t.equal((await client.response()).text, 'taken')
  await client.request('POST', '/no', fields)
  const refused = await client.response()
  t.equal(refused.status, 417)
  t.same(refused.interim, [])
  const stranger = await RawClient.connect(t, gateway.port)
  await stranger.request('POST', '/', {
    Host: domain,
    Expect: '100-continue',
    'Content-Length': '5',
  })
  const unknown = await stranger.response()
  t.equal(unknown.status, 401)
  t.same(unknown.interim, [], 'nobody is asked for content that will not be taken')
})

t.test(
  'an event stream is handed on at once, and ends in good order when the service stops',
  async t => {
    const target = await nodeBackend(t, (_, response) => {
      response.writeHead(200, { 'Content-Type': 'text/event-stream' })
      response.write('data: 1\n\n')
    })
    const gateway = await startGateway(t, { target })
    const cookie = await gateway.logIn({ email: ['ada@example.org'] })
    const client = await RawClient.connect(t, gateway.port)
    await client.request('GET', '/', { Host: domain, Cookie: cookie, Accept: 'text/event-stream' })
    t.equal((await client.head()).status, 200)
    t.equal((await client.bytes(14)).toString(), '9\r\ndata: 1\n\n\r\n')
    const stopped = gateway.stop()
    t.equal((await client.bytes(5)).toString(), '0\r\n\r\n')
    t.equal(await client.ended, 'fin')
    client.end()
    await stopped
  },
)

t.test('a stop waits for no event stream that renewed a session in place of a 304', async t => {
  const target = await nodeBackend(t, (_, response) => {
    response.writeHead(200, { 'Content-Type': 'text/event-stream' })
    response.write('data: 1\n\n')
  })
  const clock = new ManualClock(Date.UTC(2030, 0, 1))
  const settings = { session: { idle: '1h' }, timeouts: { drain: '30s' } }
  const gateway = await startGateway(t, { target, clock, settings })
  const cookie = await gateway.logIn({ email: ['ada@example.org'] })
  clock.advance(30 * 60_000)
  const client = await RawClient.connect(t, gateway.port)
  await client.request('GET', '/', { Host: domain, Cookie: cookie, 'If-None-Match': '"1"' })
  const { status, fields } = await client.head()
  t.equal(status, 200)
  t.ok(fields.has('Set-Cookie'), 'the session was renewed')
  await client.bytes(14)
  // The clock stands still: a stop that waited would never end.
  const stopped = gateway.stop()
  t.equal((await client.bytes(5)).toString(), '0\r\n\r\n')
  client.end()
  await stopped
})

t.test('a malformed chunk is refused at once and the connection to the backend let go', async t => {
  const events = new EventEmitter()
  const target = await nodeBackend(t, request => {
    request.on('data', () => events.emit('seen'))
    request.on('error', () => {})
    request.on('close', () => events.emit('left'))
  })
  const gateway = await startGateway(t, { target, settings: { passthroughPaths: ['/up/'] } })
  const client = await RawClient.connect(t, gateway.port)
  const head = `POST /up/ HTTP/1.1\r\nHost: ${domain}\r\nTransfer-Encoding: chunked`
  const [seen, left] = [once(events, 'seen'), once(events, 'left')]
  await client.write(`${head}\r\n\r\n3\r\nabc\r\n`)
  await seen
  await client.write('zz\r\n')
  t.equal((await client.response()).status, 400)
  t.ok(await client.ended)
  await left
  t.match(JSON.stringify(gateway.log.lines), /content_malformed/)
})
