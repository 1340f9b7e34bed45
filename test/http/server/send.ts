/** What becomes of content that cannot be sent. */
import t from 'tap'
import { BlockPool, socketBlock } from '../../../lib/bytes/block-pool.ts'
import { Piece } from '../../../lib/bytes/piece.ts'
import type { Source } from '../../../lib/bytes/source.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import { noContent, type Request, type Response } from '../../../lib/http/message/message.ts'
import { until } from '../../fixtures/http/origin-client.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'
import { serveForTest } from '../../fixtures/http/server.ts'
import { sourceOf } from '../../fixtures/http/source-of.ts'
import { Gate } from '../../fixtures/time/gate.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

t.test(
  'content that comes after its client has gone, or cannot be announced, is closed',
  async t => {
    for (const fastPath of [true, false]) {
      let closed = 0
      const source = {
        next: () => t.fail('nobody reads it'),
        close() {
          closed += 1
        },
      }
      const answer = (length: number): Response => ({
        status: 200,
        fields: Fields.empty,
        content: { kind: 'stream', length, open: () => source },
      })
      const handler = async (request: Request): Promise<Response> => {
        if (request.target.form === 'origin' && request.target.path === '/odd')
          return { ...answer(3), reason: 'not\r\nwritable' }
        const { signal } = request.lifetime
        if (!signal.aborted) await new Promise(resolve => signal.addEventListener('abort', resolve))
        return answer(5)
      }
      const { port, exchanges } = await serveForTest(t, handler, { fastPath })
      const client = await RawClient.connect(t, port)
      await client.request('GET', '/late')
      await new Promise(resolve => setImmediate(resolve))
      await client.reset()
      while (exchanges.length < 1) await new Promise(resolve => setImmediate(resolve))
      t.equal(closed, 1)
      const odd = await RawClient.connect(t, port)
      await odd.request('GET', '/odd')
      await odd.rest()
      t.equal(closed, 2)
    }
  },
)

t.test('pieces that wait behind another response are let go when their client leaves', async t => {
  for (const fastPath of [true, false]) {
    const blocks = new BlockPool({ limit: 8 * socketBlock })
    /** One piece, and then silence. */
    const source = (): Source => {
      const block = blocks.take(socketBlock)
      let piece = block && new Piece(block.memory.subarray(0, 100), block)
      return {
        next(take) {
          if (piece === undefined) return
          take(undefined, piece)
          piece = undefined
        },
        close() {
          piece?.release()
          piece = undefined
        },
      }
    }
    const handler = async (): Promise<Response> => ({
      status: 200,
      fields: Fields.empty,
      content: { kind: 'stream', length: 1000, open: source },
    })
    const { port } = await serveForTest(t, handler, { fastPath })
    const client = await RawClient.connect(t, port)
    for (let i = 0; i < 4; i += 1) await client.request('GET', '/')
    await client.head()
    await until(() => blocks.used === 3 * socketBlock)
    await client.reset()
    await until(() => blocks.used === 0)
    t.equal(blocks.used, 0)
  }
})

t.test('content whose end only the connection tells is never cut by a plain end', async t => {
  const gate = new Gate()
  const broken = async function* () {
    yield Buffer.from('half of it')
    await gate.pass()
    throw new Error('it broke')
  }
  const { port } = await serveForTest(t, async () => ({
    status: 200,
    fields: Fields.empty,
    content: { kind: 'stream', length: undefined, open: () => sourceOf(broken) },
  }))
  const client = await RawClient.connect(t, port)
  await client.write('GET / HTTP/1.0\r\nHost: a\r\n\r\n')
  await client.head()
  t.equal((await client.bytes(10)).toString(), 'half of it')
  gate.open()
  t.equal(await client.ended, 'reset')
})

t.test('a response that fails does not cut the one before it', async t => {
  for (const fastPath of [true, false]) {
    const size = 16 * 1024 * 1024
    const failing = async function* () {
      await Promise.resolve()
      yield* []
      throw new Error('it broke')
    }
    const handler = async ({ target }: Request): Promise<Response> => ({
      status: 200,
      fields: Fields.empty,
      content:
        target.form === 'origin' && target.path === '/long'
          ? { kind: 'bytes', bytes: Buffer.alloc(size, 'a') }
          : { kind: 'stream', length: 10, open: () => sourceOf(failing) },
    })
    const { port, exchanges } = await serveForTest(t, handler, { fastPath })
    const client = await RawClient.connect(t, port)
    await client.write(
      'GET /long HTTP/1.1\r\nHost: a\r\n\r\nGET /short HTTP/1.1\r\nHost: a\r\n\r\n',
    )
    if (fastPath) await until(() => exchanges.some(({ complete }) => !complete))
    await client.head()
    const { length } = await client.bytes(size)
    t.equal(length, size)
    t.equal((await client.rest()).length, 0)
  }
})

t.test('a client that takes nothing of a response in memory is cut', async t => {
  for (const fastPath of [true, false]) {
    const clock = new ManualClock(0)
    const content = { kind: 'bytes', bytes: Buffer.alloc(32 * 1024 * 1024) } as const
    const { port, exchanges } = await serveForTest(
      t,
      async () => ({ status: 200, fields: Fields.empty, content }),
      { fastPath, clock, limits: { taking: 1000, stalled: 0, idle: 0, headTime: 0 } },
    )
    const client = await RawClient.connect(t, port)
    await client.request('GET', '/')
    await client.head()
    // What the kernel has taken meanwhile counts as read.
    await until(() => {
      clock.advance(250)
      return exchanges.length === 1
    })
    t.match(exchanges, [{ complete: false }])
    t.ok(clock.elapsed() < 60_000)
  }
})

t.test('a response may wait behind another for any time', async t => {
  for (const fastPath of [true, false]) {
    const clock = new ManualClock(0)
    const gate = new Gate()
    const first = async function* () {
      yield Buffer.from('one')
      await gate.pass()
      yield Buffer.from('two')
    }
    const second = async function* () {
      await Promise.resolve()
      yield Buffer.from('behind')
    }
    const { port } = await serveForTest(
      t,
      async ({ target }) => {
        const leads = target.form === 'origin' && target.path === '/first'
        const open = () => sourceOf(leads ? first : second)
        return { status: 200, fields: Fields.empty, content: { kind: 'stream', length: 6, open } }
      },
      { fastPath, clock, limits: { taking: 1000, stalled: 0, idle: 0, headTime: 0 } },
    )
    const client = await RawClient.connect(t, port)
    await client.write('GET /first HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n')
    await client.head()
    t.equal((await client.bytes(3)).toString(), 'one')
    for (let passed = 0; passed < 3000; passed += 250) clock.advance(250)
    gate.open()
    t.equal((await client.bytes(3)).toString(), 'two')
    t.equal((await client.response()).text, 'behind')
  }
})

t.test('a 204 has no Content-Length, whatever an origin said', async t => {
  const bare = { status: 204, fields: Fields.empty, announcedLength: 5, content: noContent }
  const { port } = await serveForTest(t, async () => bare)
  const client = await RawClient.connect(t, port)
  const { status, fields } = await client.get('/')
  t.equal(status, 204)
  t.notOk(fields.has('Content-Length'))
})

t.test('a client that pipelines and reads slowly is not cut', async t => {
  const clock = new ManualClock(0)
  const [count, size] = [48, 448 * 1024]
  const open = () =>
    sourceOf(async function* () {
      yield Buffer.alloc(size)
    })
  const { port } = await serveForTest(
    t,
    async () => ({
      status: 200,
      fields: Fields.empty,
      content: { kind: 'stream', length: size, open },
    }),
    { clock, limits: { taking: 5000, stalled: 0, idle: 0, headTime: 0 } },
  )
  const client = await RawClient.connect(t, port)
  await client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(count))
  for (let n = 0; n < count; n += 1) {
    t.equal((await client.response()).content.length, size)
    clock.advance(250)
  }
})

t.test('what the client has not taken is not reported as sent', async t => {
  const [count, size] = [48, 448 * 1024]
  const open = () =>
    sourceOf(async function* () {
      yield Buffer.alloc(size)
    })
  let answered = 0
  const { port, exchanges, contentErrors } = await serveForTest(t, async () => {
    answered += 1
    return { status: 200, fields: Fields.empty, content: { kind: 'stream', length: size, open } }
  })
  const client = await RawClient.connect(t, port)
  await client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(count))
  await client.head()
  await until(() => answered === count)
  await client.reset()
  await until(() => exchanges.length === count)
  t.strictSame(contentErrors, [], 'nor is it an error of ours')
  t.ok(exchanges.some(({ complete }) => !complete))
})

t.test('an upgrade refused late, with a large answer, is not cut', async t => {
  const clock = new ManualClock(0)
  const gate = new Gate()
  const bytes = Buffer.alloc(16 * 1024 * 1024)
  const { port } = await serveForTest(
    t,
    async () => ({ status: 204, fields: Fields.empty, content: noContent }),
    {
      upgrade: async () => {
        await gate.pass()
        return { status: 200, fields: Fields.empty, content: { kind: 'bytes', bytes } }
      },
      clock,
      limits: { taking: 1000, stalled: 0, idle: 0, headTime: 0 },
    },
  )
  const client = await RawClient.connect(t, port)
  await client.get('/')
  clock.advance(500)
  await client.request('GET', '/', {
    ...{ Connection: 'upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Version': '13' },
    'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
  })
  await gate.reached
  clock.advance(3000)
  gate.open()
  await client.head()
  clock.advance(500)
  t.equal((await client.bytes(bytes.length)).length, bytes.length)
})

t.test('a client that says its last gets what is ready', async t => {
  const size = 16 * 1024 * 1024
  const [ready, gate] = [new Gate(), new Gate()]
  const { port, exchanges } = await serveForTest(t, async ({ target }) => {
    const first = target.form === 'origin' && target.path === '/first'
    if (!first) ready.open()
    if (first) await gate.pass()
    const bytes = first ? Buffer.alloc(size) : Buffer.from('behind')
    return { status: 200, fields: Fields.empty, content: { kind: 'bytes', bytes } }
  })
  const client = await RawClient.connect(t, port)
  await client.write('GET /first HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n')
  await ready.pass()
  gate.open()
  await client.head()
  client.end()
  for (let n = 0; n < 20; n += 1) await new Promise(resolve => setImmediate(resolve))
  t.equal((await client.bytes(size)).length, size)
  t.equal((await client.response()).text, 'behind')
  await until(() => exchanges.length === 2)
})
