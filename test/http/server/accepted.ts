/**
 * Accepted connections that read into memory that all share.
 */
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { connect as connectTls, createServer as createTlsServer } from 'node:tls'
import t, { type Test } from 'tap'
import { leaveReads, shareReadMemory, takeReads } from '../../../lib/http/server/connections.ts'
import { makeAuthority } from '../../fixtures/certificates/certificate.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'

/** A listener whose connections are moved. */
async function listener(t: Test) {
  const server = createServer({ allowHalfOpen: true })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  const open = async () => {
    const moved = once(server, 'connection').then(([accepted]: Socket[]) => {
      const socket = shareReadMemory(accepted as Socket)
      t.not(socket, accepted, 'this version of Node lets a connection be moved')
      t.teardown(() => socket.destroy())
      return socket
    })
    const [client, socket] = await Promise.all([RawClient.connect(t, port), moved])
    return { client, socket }
  }
  t.teardown(() => server.close())
  return { server, port, open }
}

/** The next read, as text, and the memory it lies in. */
const nextRead = (socket: Socket) =>
  new Promise<{ text: string; memory: ArrayBufferLike }>(resolve => {
    const take = (bytes: Buffer) => {
      leaveReads(socket, take)
      resolve({ text: bytes.toString('latin1'), memory: bytes.buffer })
      return false
    }
    takeReads(socket, take)
  })

t.test('two connections read into the same memory', async t => {
  const { open } = await listener(t)
  const one = await open()
  const other = await open()
  one.client.write('one')
  const first = await nextRead(one.socket)
  other.client.write('other')
  const second = await nextRead(other.socket)
  t.strictSame([first.text, second.text], ['one', 'other'])
  t.equal(first.memory, second.memory)
})

t.test('a read brings 64 KiB, and more when more is expected', async t => {
  const { open } = await listener(t)
  const { client, socket } = await open()
  const sizes: number[] = []
  const whole = new Promise<void>(resolve => {
    let left = 8 << 20
    takeReads(socket, bytes => {
      sizes.push(bytes.length)
      left -= bytes.length
      if (left === 0) resolve()
      return sizes.length >= 10
    })
  })
  await client.write(Buffer.alloc(8 << 20))
  await whole
  t.ok(Math.max(...sizes.slice(0, 10)) <= 65_536, 'at first')
  const most = Math.max(...sizes.slice(10))
  t.ok(most > 65_536 && most <= 262_144, `then up to ${most}`)
})

t.test('what nobody takes is copied into the stream', async t => {
  const { open } = await listener(t)
  const one = await open()
  const other = await open()
  const read = once(one.socket, 'data')
  one.client.write('one')
  const [bytes] = await read
  other.client.write('other')
  await nextRead(other.socket)
  t.equal(bytes.toString(), 'one', 'what came to another connection lies elsewhere')
})

t.test('what comes after reads are left goes to the stream, in order', async t => {
  const { open } = await listener(t)
  const { client, socket } = await open()
  client.write('taken')
  t.equal((await nextRead(socket)).text, 'taken')
  const read = once(socket, 'data')
  client.write('left')
  t.equal(String((await read)[0]), 'left')
  const end = once(socket, 'end')
  client.end()
  await end
})

t.test('a stream that is not read stops the client', async t => {
  const { open } = await listener(t)
  const { client, socket } = await open()
  socket.pause()
  socket.read(0)
  client.write(Buffer.alloc(16 * 1024 * 1024)).catch(() => {}) // it is never taken
  let before = -1
  while (socket.bytesRead !== before) {
    before = socket.bytesRead
    for (let turn = 0; turn < 20; turn += 1) await nextTurn()
  }
  t.ok(before <= 256 * 1024, `${before} bytes were read`)
})

t.test('a paused connection reads nothing, and reads on when it is resumed', async t => {
  const { open } = await listener(t)
  const { client, socket } = await open()
  const reads: string[] = []
  let told = (): void => {}
  takeReads(socket, bytes => {
    reads.push(bytes.toString())
    socket.pause()
    told()
    return false
  })
  const next = () =>
    new Promise<void>(resolve => {
      told = resolve
    })
  const first = next()
  client.write('a')
  await first
  client.write('b')
  for (let turn = 0; turn < 20; turn += 1) await nextTurn()
  t.strictSame(reads, ['a'])
  const second = next()
  socket.resume()
  await second
  t.strictSame(reads, ['a', 'b'])
})

t.test('the server counts a connection until it has closed', async t => {
  const { open, server } = await listener(t)
  const { client, socket } = await open()
  const count = () =>
    new Promise<number>((resolve, reject) =>
      server.getConnections((error, number) => (error ? reject(error) : resolve(number))),
    )
  t.equal(await count(), 1)
  let closed = false
  const over = new Promise<void>(resolve =>
    server.close(() => {
      closed = true
      resolve()
    }),
  )
  for (let turn = 0; turn < 20; turn += 1) await nextTurn()
  t.notOk(closed)
  socket.resume()
  client.end()
  socket.end()
  await over
  t.equal(await count(), 0)
})

t.test('what has no connection stays as it is', async t => {
  const { open } = await listener(t)
  const { socket } = await open()
  socket.destroy()
  t.equal(shareReadMemory(socket), socket)
})

t.test('reads of a TLS connection are the stream’s', async t => {
  const authority = makeAuthority()
  const identity = authority.issue({ names: ['127.0.0.1'] })
  const server = createTlsServer(identity)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as { port: number }
  const accepted = once(server, 'secureConnection')
  const client = connectTls({ port, host: '127.0.0.1', ca: authority.cert })
  t.teardown(() => client.destroy())
  const [socket] = await accepted
  t.teardown(() => socket.destroy())
  client.write('secret')
  t.equal((await nextRead(socket)).text, 'secret')
})
