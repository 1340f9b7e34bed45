/** Content in every framing and size, over TCP and TLS, read fast, slowly and not at all. */
import { createHash } from 'node:crypto'
import t from 'tap'
import { BlockPool, socketBlock } from '../../../lib/bytes/block-pool.ts'
import type { Piece } from '../../../lib/bytes/piece.ts'
import { iterate, type Source } from '../../../lib/bytes/source.ts'
import { makeAuthority } from '../../fixtures/certificates/certificate.ts'
import { Noise } from '../../fixtures/chance/noise.ts'
import { asking, makeClient, textOf, until } from '../../fixtures/http/origin-client.ts'
import { type Answer, reply, ScriptedOrigin } from '../../fixtures/http/scripted-origin.ts'
import { Gate } from '../../fixtures/time/gate.ts'

async function digestOf(content: Source): Promise<string> {
  const hash = createHash('sha256')
  for await (const block of iterate(content)) hash.update(block)
  return hash.digest('hex')
}

function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}

/** Chunks of sizes that repeat, each written by itself or several together. */
function chunkedIn(bytes: Buffer, sizes: readonly number[]) {
  return async (answer: Answer) => {
    await answer.head(200, 'OK', { 'Transfer-Encoding': 'chunked' })
    const parts: Buffer[] = []
    for (let at = 0, i = 0; at < bytes.length; i += 1) {
      const block = bytes.subarray(at, at + (sizes[i % sizes.length] ?? 1))
      parts.push(Buffer.from(`${block.length.toString(16)};x=y\r\n`), block, Buffer.from('\r\n'))
      at += block.length
    }
    await answer.write(Buffer.concat(parts))
    await answer.write('0\r\nX-Sum: 1\r\n\r\n')
  }
}

t.test('every byte arrives, whatever its framing, over TCP and TLS', async t => {
  const authority = makeAuthority()
  const tls = authority.issue({ names: ['127.0.0.1'] })
  const noise = new Noise('content')
  for (const options of [{}, { tls }]) {
    const origin = await ScriptedOrigin.listen(t, options)
    for (const limit of [0, 64]) {
      const blocks = new BlockPool({ limit: limit * socketBlock })
      const { client } = makeClient(t, { ca: [authority.cert], blocks })
      for (const size of [0, 1, 1000, 65_535, 65_536, 65_537, 300_000, 5_000_000]) {
        const content = noise.bytes(size)
        for (const framing of ['length', 'chunked', 'close'] as const) {
          origin.at('/f', reply({ content, framing }))
          const answer = await client.request(asking(origin.url('/f')))
          const name = `${origin.scheme} ${framing} ${size} ${limit}`
          t.equal(await digestOf(answer.content), sha256(content), name)
        }
        for (const sizes of [[1], [10, 3000], [16_384], [20_000, 1, 70_000]]) {
          if (size > 300_000 && sizes[0] === 1) continue
          origin.at('/f', chunkedIn(content, sizes))
          const answer = await client.request(asking(origin.url('/f')))
          const name = `${origin.scheme} chunks of ${sizes} ${size} ${limit}`
          t.equal(await digestOf(answer.content), sha256(content), name)
          t.equal(answer.trailers?.().get('X-Sum'), '1')
        }
        await until(() => client.counts().busy === 0)
        t.equal(blocks.used, 0)
      }
    }
  }
})

t.test(
  'large content is handed out in blocks it was read into, small content in one piece',
  async t => {
    const origin = await ScriptedOrigin.listen(t)
    origin.at('/large', reply({ content: Buffer.alloc(4 << 20) }))
    const gate = new Gate()
    origin.at('/small', reply({ content: Buffer.alloc(20_000, 'x'), pauses: [{ at: 9000, gate }] }))
    const { client, blocks } = makeClient(t)
    const large = await client.request(asking(origin.url('/large')))
    const pieces: Piece[] = []
    await new Promise<void>((resolve, reject) => {
      const take = (error: Error | undefined, piece: Piece | undefined): void => {
        if (error !== undefined) return reject(error)
        if (piece === undefined) return resolve()
        pieces.push(piece)
        large.content.next(take)
      }
      large.content.next(take)
    })
    t.ok(blocks.used >= 4 << 20, 'which stay as long as the pieces do')
    for (const piece of pieces) piece.release()
    t.equal(blocks.used, 0)

    const small = await client.request(asking(origin.url('/small')))
    await gate.reached
    gate.open()
    await until(() => client.counts().busy === 0)
    t.equal(blocks.used, 0)
    const { value } = await iterate(small.content).next()
    t.equal(value?.length, 20_000)
  },
)

t.test(
  'content that came whole with its head is one piece, which gives its block back',
  async t => {
    const origin = await ScriptedOrigin.listen(t)
    const { client, blocks } = makeClient(t)
    for (const size of [10, 65_536, 65_537, 200_000]) {
      const content = new Noise('whole').bytes(size)
      const head = Buffer.from(`HTTP/1.1 200 OK\r\nContent-Length: ${size}\r\n\r\n`)
      origin.at('/f', answer => answer.write(Buffer.concat([head, content])))
      const answer = await client.request(asking(origin.url('/f')))
      const whole = answer.content.whole?.()
      if (size > 65_536) t.equal(whole, undefined, 'a block is handed on as a piece alone')
      const rest = await digestOf(answer.content)
      t.equal(whole === undefined ? rest : sha256(whole), sha256(content))
      await until(() => client.counts().busy === 0)
      t.equal(blocks.used, 0)
    }
  },
)

t.test('content that is not asked for yet waits in memory, and the connection is free', async t => {
  const origin = await ScriptedOrigin.listen(t)
  origin.at('/small', reply({ content: 'hello' }))
  const { client } = makeClient(t)
  const first = await client.request(asking(origin.url('/small')))
  await until(() => client.counts().free === 1)
  const second = await client.request(asking(origin.url('/small')))
  t.equal(second.reused, true)
  t.equal(await textOf(first.content), 'hello')
  second.content.close()
  second.content.close()
})

t.test('content that trickles holds no block while it is silent', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const gates = [new Gate(), new Gate(), new Gate()]
  origin.at('/events', async answer => {
    await answer.head(200, 'OK', { 'Transfer-Encoding': 'chunked' })
    for (const gate of gates) {
      await answer.chunk('data: x\n\n')
      await gate.pass()
    }
    await answer.chunk('')
  })
  const { client, blocks } = makeClient(t)
  const events = iterate((await client.request(asking(origin.url('/events')))).content)
  for (const gate of gates) {
    t.equal((await events.next()).value?.toString(), 'data: x\n\n')
    t.equal(blocks.used, 0)
    gate.open()
  }
  t.match(await events.next(), { done: true })
})

t.test('readers that are stuck keep their blocks, and the others go on without', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const content = new Noise('stuck').bytes(3_000_000)
  origin.at('/f', reply({ content }))
  const blocks = new BlockPool({ limit: 2 * socketBlock })
  const { client } = makeClient(t, { blocks, limits: { perOrigin: 10 } })
  const stuck = await Promise.all([1, 2, 3].map(() => client.request(asking(origin.url('/f')))))
  const held = stuck.map(answer => iterate(answer.content))
  for (const one of held) await one.next()
  await until(() => blocks.used === 2 * socketBlock)
  const other = await client.request(asking(origin.url('/f')))
  t.equal(await digestOf(other.content), sha256(content))
  for (const one of held) await one.return?.()
  await until(() => client.counts().busy === 0)
  t.equal(blocks.used, 0)
})
