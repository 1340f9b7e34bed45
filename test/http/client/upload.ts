import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import t from 'tap'
import { Fields } from '../../../lib/http/message/field.ts'
import type { StreamedContent } from '../../../lib/http/message/message.ts'
import { asking, makeClient, textOf, until } from '../../fixtures/http/origin-client.ts'
import type { Teardown } from '../../fixtures/http/raw-client.ts'
import { sourceOf } from '../../fixtures/http/source-of.ts'
import { ByteReader, readHead } from '../../fixtures/http/wire.ts'
import { Gate } from '../../fixtures/time/gate.ts'

/** An origin whose connections the test reads and writes by hand. */
async function byHand(t: Teardown) {
  const server = createServer({ allowHalfOpen: true }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const sockets: Socket[] = []
  server.on('connection', socket => sockets.push(socket.on('error', () => {})))
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const accepted = async () => {
    if (sockets.length === 0) await once(server, 'connection')
    const socket = sockets.at(-1)
    if (socket === undefined) throw new Error('no connection')
    return { socket, reader: new ByteReader(socket, undefined) }
  }
  return { url: `http://127.0.0.1:${port}/`, accepted }
}

/** Content in these pieces, after each of which the gate of the same place is passed. */
function contentOf(pieces: readonly string[], options: Partial<StreamedContent> = {}, gate?: Gate) {
  const seen = { opened: 0, closed: 0 }
  const content: StreamedContent = {
    kind: 'stream',
    length: undefined,
    open: () => {
      seen.opened += 1
      return sourceOf(async function* () {
        try {
          for (const piece of pieces) {
            yield Buffer.from(piece)
            await gate?.pass()
          }
        } finally {
          seen.closed += 1
        }
      })
    },
    ...options,
  }
  return { content, seen }
}

const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

t.test('chunks go out with their trailers, and the connection is kept', async t => {
  const { url, accepted } = await byHand(t)
  const { client } = makeClient(t)
  const trailers = () => Fields.of(['X-Sum', '1'])
  const { content, seen } = contentOf(['he', '', 'llo'], { trailers })
  const answer = client.request(asking(url, { method: 'POST', content }))
  const { socket, reader } = await accepted()
  const head = await readHead(reader)
  t.equal(head?.fields.get('Transfer-Encoding'), 'chunked')
  const rest = '2\r\nhe\r\n3\r\nllo\r\n0\r\nX-Sum: 1\r\n\r\n'
  t.equal((await reader.exactly(rest.length)).toString(), rest)
  socket.write(ok)
  t.equal(await textOf((await answer).content), 'ok')
  await until(() => client.counts().free === 1)
  t.strictSame(seen, { opened: 1, closed: 1 })
})

t.test('content waits for 100 (Continue), or until the wait is long enough', async t => {
  for (const told of [true, false]) {
    const { url, accepted } = await byHand(t)
    const { client, clock } = makeClient(t)
    const { content, seen } = contentOf(['hello'], { length: 5 })
    const answer = client.request(asking(url, { method: 'PUT', content, awaitContinue: 2000 }))
    const { socket, reader } = await accepted()
    const head = await readHead(reader)
    t.equal(head?.fields.get('Expect'), '100-continue')
    t.equal(seen.opened, 0)
    if (told) socket.write('HTTP/1.1 100 Continue\r\n\r\n')
    else clock.advance(2000)
    t.equal((await reader.exactly(5)).toString(), 'hello')
    socket.write(ok)
    t.equal(await textOf((await answer).content), 'ok')
    await until(() => client.counts().free === 1)
  }
})

t.test(
  'content that is refused before it began is not sent, and the connection not used again',
  async t => {
    const { url, accepted } = await byHand(t)
    const { client } = makeClient(t)
    const { content, seen } = contentOf(['hello'], { length: 5 })
    const answer = client.request(asking(url, { method: 'PUT', content, awaitContinue: 2000 }))
    const { socket, reader } = await accepted()
    await readHead(reader)
    socket.write('HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno')
    t.equal((await answer).status, 413)
    t.equal(await textOf((await answer).content), 'no')
    t.equal((await reader.toEnd()).bytes.length, 0)
    await until(() => client.counts().busy + client.counts().free === 0)
    t.equal(seen.opened, 0)
  },
)

t.test('an answer ahead of the end of the content lets the content go on', async t => {
  const { url, accepted } = await byHand(t)
  const { client } = makeClient(t)
  const gate = new Gate()
  const { content, seen } = contentOf(['hel', 'lo'], { length: 5 }, gate)
  const asked = client.request(asking(url, { method: 'PUT', content }))
  const { socket, reader } = await accepted()
  await readHead(reader)
  await reader.exactly(3)
  socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no')
  const { status, content: answer } = await asked
  t.equal(status, 200)
  gate.open()
  t.equal((await reader.exactly(2)).toString(), 'lo')
  socket.write('k')
  t.equal(await textOf(answer), 'ok')
  await until(() => client.counts().free === 1)
  t.equal(seen.closed, 1)
})

t.test(
  'an answer that is whole before the content is ends the content and the connection',
  async t => {
    const { url, accepted } = await byHand(t)
    const { client } = makeClient(t)
    const gate = new Gate()
    t.teardown(() => gate.open())
    const { content, seen } = contentOf(['hel', 'lo'], { length: 5 }, gate)
    const answer = client.request(asking(url, { method: 'PUT', content }))
    const { socket, reader } = await accepted()
    await readHead(reader)
    socket.write(ok)
    t.equal(await textOf((await answer).content), 'ok')
    await until(() => client.counts().busy + client.counts().free === 0)
    gate.open()
    await until(() => seen.closed === 1)
  },
)

t.test('a source that breaks off after the answer has begun breaks off the answer', async t => {
  const { url, accepted } = await byHand(t)
  const { client } = makeClient(t)
  const gate = new Gate()
  async function* broken() {
    yield Buffer.from('hel')
    await gate.pass()
    throw new Error('the client has gone')
  }
  const content = { kind: 'stream', length: 5, open: () => sourceOf(broken) } as const
  const answer = client.request(asking(url, { method: 'PUT', content }))
  const { socket, reader } = await accepted()
  await readHead(reader)
  socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n')
  const reading = textOf((await answer).content)
  gate.open()
  const cause = { message: 'the client has gone' }
  await t.rejects(reading, { code: 'ORIGIN_ABORTED', phase: 'content', cause })
  await until(() => client.counts().busy === 0)
})
