import { once } from 'node:events'
import { type AddressInfo, connect as connectTcp, createServer, type Socket } from 'node:net'
import t from 'tap'
import { BlockPool } from '../../../lib/bytes/block-pool.ts'
import { type Reader, Transport } from '../../../lib/http/client/connection.ts'
import { until } from '../../fixtures/http/origin-client.ts'
import type { Teardown } from '../../fixtures/http/raw-client.ts'

/** A transport of either kind, and the peer at its other end. */
async function connected(t: Teardown, kind: 'direct' | 'copied') {
  const server = createServer({ allowHalfOpen: true }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const accepted = once(server, 'connection')
  const blocks = new BlockPool({ limit: 0 })
  const to = { port, host: '127.0.0.1' }
  const transport =
    kind === 'direct' ? Transport.connect(to, blocks) : Transport.over(connectTcp(to), blocks)
  const [peer] = (await accepted) as [Socket]
  peer.on('error', () => {})
  t.teardown(() => {
    transport.destroy()
    peer.destroy()
    server.close()
  })
  return { transport, peer }
}

/** Takes what comes in rooms of `size`, until it has `most` bytes. */
class Taking implements Reader {
  readonly #memory: Buffer
  text = ''
  most = Number.POSITIVE_INFINITY
  end: string | undefined

  constructor(size: number) {
    this.#memory = Buffer.alloc(size)
  }

  room(): Buffer {
    return this.#memory
  }

  read(count: number): boolean {
    this.text += this.#memory.toString('latin1', 0, count)
    return this.text.length < this.most
  }

  ended(): void {
    this.end ??= 'ended'
  }

  closed(error: Error | undefined): void {
    this.end ??= error === undefined ? 'closed' : 'broke'
  }
}

for (const kind of ['direct', 'copied'] as const) {
  t.test(`${kind}: what arrives goes to the present reader, and its end`, async t => {
    const { transport, peer } = await connected(t, kind)
    const reader = new Taking(3)
    transport.handTo(reader)
    transport.resume()
    peer.write('hello, world')
    await until(() => reader.text === 'hello, world')
    const next = new Taking(100)
    transport.handTo(next)
    peer.end(' and more')
    await until(() => next.end === 'ended')
    t.equal(next.text, ' and more')
    t.equal(reader.text, 'hello, world')
  })

  t.test(`${kind}: what comes before there is a reader is kept for it`, async t => {
    const { transport, peer } = await connected(t, kind)
    peer.write('early')
    if (kind === 'direct') await until(() => transport.unread === 5)
    const reader = new Taking(100)
    transport.handTo(reader)
    transport.resume()
    await until(() => reader.text === 'early')
    t.equal(transport.unread, 0)
  })

  t.test(`${kind}: a reader that wants no more stops the peer until it does`, async t => {
    const { transport, peer } = await connected(t, kind)
    const reader = new Taking(10_000)
    reader.most = 1
    transport.handTo(reader)
    transport.resume()
    const block = Buffer.alloc(1 << 20, 'x')
    let written = 0
    for (let i = 0; i < 32; i += 1) peer.write(block, () => (written += 1))
    for (let i = 0; i < 100; i += 1) await new Promise(resolve => setImmediate(resolve))
    t.ok(written < 32, `${written} MiB have left the peer`)
    t.ok(reader.text.length <= 10_000, 'and no more than one room was filled')
    reader.most = Number.POSITIVE_INFINITY
    transport.resume()
    await until(() => reader.text.length === 32 << 20)
  })

  t.test(`${kind}: a reader leaves to the next one what is not its own`, async t => {
    const { transport, peer } = await connected(t, kind)
    const next = new Taking(4)
    next.most = 2
    const first: Reader = {
      room: () => memory,
      read(count) {
        transport.handTo(next)
        transport.give(memory.subarray(5, count))
        return false
      },
      ended() {},
      closed() {},
    }
    const memory = Buffer.alloc(100)
    transport.handTo(first)
    transport.resume()
    peer.write('hello, world')
    await until(() => next.text !== '')
    t.equal(next.text, ', wo')
    t.equal(transport.unread, 3, 'the rest waits until it is wanted')
    next.most = 100
    transport.resume()
    t.equal(next.text, ', world')
    peer.write('!')
    await until(() => next.text === ', world!')
  })

  t.test(`${kind}: a connection that breaks tells its reader`, async t => {
    const { transport, peer } = await connected(t, kind)
    const reader = new Taking(10)
    transport.handTo(reader)
    transport.resume()
    peer.resetAndDestroy()
    await until(() => reader.end !== undefined)
    t.equal(reader.end, 'broke')
  })
}

t.test('a stream that is left to other hands has every byte', async t => {
  const { transport, peer } = await connected(t, 'copied')
  const reader = new Taking(4)
  reader.most = 4
  transport.handTo(reader)
  transport.resume()
  peer.write('hello, world')
  await until(() => reader.text === 'hell')
  const socket = transport.detach()
  let text = ''
  socket.on('data', (bytes: Buffer) => {
    text += bytes
  })
  socket.resume()
  await until(() => text === 'o, world')
})
