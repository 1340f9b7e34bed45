/**
 * Damaged responses over real connections, cut into parts: the client makes of them what the readers of `lib/http/wire` do, and
 * keeps nothing. WIRE_SEED repeats a run.
 */
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { seeded } from '../../fixtures/chance/seeded-random.ts'
import { damagedResponse } from '../../fixtures/http/damaged-response.ts'
import { asking, makeClient, textOf } from '../../fixtures/http/origin-client.ts'
import { readResponse } from '../../fixtures/http/read-response.ts'

const { WIRE_SEED: seed = '1' } = process.env
// A busy machine has minutes for what takes seconds.
t.setTimeout(600_000)

t.test('two thousand damaged responses', async t => {
  const chance = seeded(Number(seed))
  const responses = Array.from({ length: 2000 }, () => damagedResponse(chance))
  const answer = async (socket: Socket, bytes: Buffer) => {
    const { end, surplus } = readResponse([bytes])
    // What stands behind a response comes with it: later it might meet the next request, and no client could tell.
    const cuts =
      surplus === ''
        ? [0, chance.below(bytes.length + 1), chance.below(bytes.length + 1), bytes.length]
        : [0, bytes.length]
    cuts.sort((a, b) => a - b)
    const endless = readResponse([bytes, Buffer.from('x')]).surplus === ''
    const last = end !== 'whole' || endless || chance.below(2) === 0
    for (let i = 1; i < cuts.length; i += 1) {
      if (!socket.writable) return
      socket.write(bytes.subarray(cuts[i - 1], cuts[i]))
      if (last && i + 1 === cuts.length) socket.end()
      else await nextTurn()
    }
  }
  const server = createServer({ noDelay: true }, socket => {
    socket.on('error', () => {})
    socket.on('data', request => {
      const [, index] = /^GET \/(\d+) /.exec(request.toString('latin1')) ?? []
      void answer(socket, responses[Number(index)] ?? Buffer.alloc(0))
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const address = server.address()
  const port = typeof address === 'object' ? address?.port : 0
  const { client } = makeClient(t, { limits: { perOrigin: 4 } })
  const counts = { taken: 0, refused: 0 }
  const read = async (index: number) => {
    const { end, status, reason, fields, content, trailers } = readResponse([
      responses[index] ?? Buffer.alloc(0),
    ])
    const interim: number[] = []
    try {
      const uri = `http://127.0.0.1:${port}/${index}`
      const onInterim = (status: number) => interim.push(status)
      const response = await client.request(asking(uri, { onInterim }))
      const text = await textOf(response.content)
      const head = {
        status: response.status,
        reason: response.reason,
        fields: response.fields.flat,
      }
      const got = {
        ...head,
        content: text,
        trailers: response.trailers?.().flat ?? [],
        end: 'whole',
      }
      const wanted = { status, reason, fields, content, trailers, end }
      counts.taken += 1
      if (JSON.stringify(got) !== JSON.stringify(wanted)) t.same(got, wanted, `response ${index}`)
    } catch (error) {
      counts.refused += 1
      if (end === 'whole') t.fail(`response ${index}: ${error}`)
    }
  }
  let next = 0
  const reader = async () => {
    for (let index = next++; index < responses.length; index = next++) await read(index)
  }
  await Promise.all([reader(), reader(), reader(), reader(), reader(), reader()])
  t.comment({ ...counts, ...client.counts() })
  t.ok(counts.taken > 200 && counts.refused > 200 && client.counts().reused > 100)
})
