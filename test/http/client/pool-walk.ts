/**
 * Many requests at once over few connections, to origins that answer well, badly, half, too much and not at all, by clients that leave:
 * nobody gets the answer to another's request, nobody gets a connection that belongs to another, and at the end no place is taken.
 */
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import t from 'tap'
import { Lifetime } from '../../../lib/async/lifetime.ts'
import type { OriginResponse } from '../../../lib/http/client/client.ts'
import type { ConnectionOwner } from '../../../lib/http/client/request.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import { type Chance, seeded } from '../../fixtures/chance/seeded-random.ts'
import { asking, makeClient, textOf, until } from '../../fixtures/http/origin-client.ts'

const { POOL_WALKS_FROM = '1', POOL_WALKS = '10' } = process.env
const requests = 150

t.setTimeout(120_000)

/** How an origin answers; the request names it. */
const ways = [
  ...(['length', 'length', 'length', 'chunked', 'chunked', 'close'] as const),
  ...(['closes-after', 'closes-before', 'half', 'half-head', 'extra', 'late-extra'] as const),
  ...(['silent', 'interim', 'early', 'ntlm', 'persistent', 'switch', 'nothing'] as const),
  ...(['slow', 'slow'] as const),
] as const
type Way = (typeof ways)[number]

/** What the origin has of one connection. */
interface Known {
  /** Whose it is, once it is bound. */
  owner: string | undefined
  requests: number
}

class WalkOrigin {
  readonly faults: string[] = []
  readonly server: Server
  readonly sockets = new Set<Socket>()
  readonly #chance: Chance

  constructor(chance: Chance) {
    this.#chance = chance
    this.server = createServer(socket => this.#serve(socket))
  }

  #serve(socket: Socket): void {
    const known: Known = { owner: undefined, requests: 0 }
    let text = ''
    this.sockets.add(socket)
    socket.on('close', () => this.sockets.delete(socket)).on('error', () => undefined)
    socket.on('data', bytes => {
      text += bytes.toString('latin1')
      for (;;) {
        const end = text.indexOf('\r\n\r\n')
        if (end < 0) return
        const head = text.slice(0, end)
        const length = Number(/^content-length: (\d+)/im.exec(head)?.[1] ?? 0)
        const early = head.includes('/early/')
        if (!early && text.length < end + 4 + length) return
        text = early ? '' : text.slice(end + 4 + length)
        known.requests += 1
        void this.#answer(socket, head, known)
        if (early) return
      }
    })
  }

  async #answer(socket: Socket, head: string, known: Known): Promise<void> {
    const [, id = '', way = ''] = /^\S+ \/(\d+)\/([a-z-]+)/.exec(head) ?? []
    const owner = /^x-owner: (.*)$/im.exec(head)?.[1] ?? ''
    const isStep = /^authorization: ntlm/im.test(head)
    // Without an identity nobody knows who asks next, and only a handshake goes on.
    const mayGoOn = owner === known.owner && (isStep || !owner.endsWith('undefined'))
    if (known.owner !== undefined && !mayGoOn) {
      this.faults.push(`${id} of ${owner} came over a connection of ${known.owner}`)
    }
    if (way === 'ntlm' || way === 'persistent' || isStep) known.owner = owner
    for (let turns = this.#chance.below(4); turns > 0; turns -= 1) await turn()
    const content = contentOf(id)
    const keep = `HTTP/1.1 200 OK\r\nContent-Length: ${content.length}\r\n`
    const whole = `${keep}\r\n${content}`
    const answers: Readonly<Record<Way, () => unknown>> = {
      length: () => socket.write(whole),
      chunked: () =>
        socket.write(
          `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${content.length.toString(16)}\r\n${content}\r\n0\r\n\r\n`,
        ),
      close: () => socket.end(`HTTP/1.1 200 OK\r\n\r\n${content}`),
      'closes-after': () => socket.end(whole),
      'closes-before': () => (known.requests > 1 ? socket.destroy() : socket.write(whole)),
      half: () => socket.end(`${keep}\r\n${content.slice(0, 5)}`),
      'half-head': () => socket.end('HTTP/1.1 200 OK\r\nContent-Le'),
      extra: () => socket.write(`${whole}${whole}`),
      'late-extra': () => socket.write(whole, () => setImmediate(() => socket.write(whole))),
      silent: () => undefined,
      interim: () => socket.write(`HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n${whole}`),
      early: () => socket.write(whole),
      ntlm: () =>
        socket.write(
          `HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: NTLM TlRM\r\nContent-Length: ${content.length}\r\n\r\n${content}`,
        ),
      persistent: () => socket.write(`${keep}Persistent-Auth: true\r\n\r\n${content}`),
      switch: () =>
        socket.write(
          /^upgrade:/im.test(head)
            ? 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n'
            : whole,
        ),
      slow: async () => {
        socket.write(keep)
        for (let turns = 40; turns > 0; turns -= 1) await turn()
        socket.write(`\r\n${content}`)
      },
      nothing: () => socket.write('HTTP/1.1 304 Not Modified\r\n\r\n'),
    }
    if (!socket.destroyed) answers[way as Way]?.()
  }
}

/** What is answered to a request, which no other request is answered with. */
function contentOf(id: string): string {
  const of = `content of ${id} `
  return of.repeat(1 + (Number(id) % 7) * (Number(id) % 5 === 0 ? 9000 : 3))
}

function turn(): Promise<void> {
  return new Promise(resolve => setImmediate(resolve))
}

type Clients = ReturnType<typeof makeClient>

class Walk {
  readonly faults: string[] = []
  readonly ends: Record<string, number> = {}
  readonly #chance: Chance
  readonly #client: Clients['client']
  readonly #clock: Clients['clock']
  readonly #ports: readonly number[]
  /** Of clients. */
  readonly #connections: Lifetime[] = []
  readonly #names = new Map<Lifetime, number>()
  readonly #under = new Set<Promise<void>>()
  readonly #stops = new Set<AbortController>()

  constructor(chance: Chance, { client, clock }: Clients, ports: readonly number[]) {
    this.#chance = chance
    this.#client = client
    this.#clock = clock
    this.#ports = ports
    for (let n = 0; n < 4; n += 1) this.#connections.push(new Lifetime())
  }

  async run(): Promise<void> {
    for (let id = 1; id <= requests; id += 1) {
      const asked = this.#ask(id)
      this.#under.add(asked)
      void asked.finally(() => this.#under.delete(asked))
      const chance = this.#chance.below(12)
      if (chance === 0) this.#clock.advance(this.#chance.pick([20, 500, 1000, 4000]))
      if (chance === 1)
        for (const stop of this.#stops) if (this.#chance.below(3) === 0) stop.abort()
      if (chance === 2) {
        const n = this.#chance.below(this.#connections.length)
        this.#connections[n]?.end(new Error('the client has closed'))
        this.#connections[n] = new Lifetime()
      }
      for (let turns = this.#chance.below(6); turns > 0; turns -= 1) await turn()
    }
    while (this.#under.size > 0) {
      this.#clock.advance(31_000)
      for (let turns = 0; turns < 10; turns += 1) await turn()
    }
  }

  async #ask(id: number): Promise<void> {
    const chance = this.#chance
    const way = chance.pick(ways)
    const connection = chance.pick(this.#connections)
    const identity = chance.below(3) === 0 ? undefined : `user ${chance.below(2)}`
    const owner: ConnectionOwner | undefined =
      chance.below(3) > 0 ? { connection, identity } : undefined
    const stop = new AbortController()
    this.#stops.add(stop)
    const step: [string, string][] = chance.below(4) === 0 ? [['Authorization', 'NTLM TlRM']] : []
    const by = owner === undefined ? `${id}` : `${this.#nameOf(connection)} ${identity}`
    const fields = Fields.of(['X-Owner', by], ...step)
    const uploads = way === 'early' || chance.below(6) === 0
    const bytes = Buffer.alloc(chance.pick([10, 200_000]), 'u')
    const options = {
      ...{ owner, fields, signal: stop.signal, client: `192.0.2.${id % 5}` },
      ...(uploads && { method: 'POST', content: { kind: 'bytes', bytes } as const }),
      fresh: chance.below(10) === 0,
    }
    // What an origin sends unasked behind the next request is the answer to that for every client: such an origin is one by itself, and
    // what it answers to others does not count.
    const [faulty = 0, ...ports] = this.#ports
    const isFaulty = way === 'extra' || way === 'late-extra' || chance.below(20) === 0
    const port = isFaulty ? faulty : chance.pick(ports)
    const asked = asking(`http://127.0.0.1:${port}/${id}/${way}`, options)
    let end: string
    try {
      if (way === 'switch') {
        const answer = await this.#client.upgrade(asked)
        if ('transport' in answer) answer.transport.destroy()
        else await this.#read(id, isFaulty ? undefined : way, answer)
      } else {
        await this.#read(id, isFaulty ? undefined : way, await this.#client.request(asked))
      }
      end = 'answered'
    } catch (error) {
      end = String((error as { code?: string }).code ?? error)
    }
    this.#stops.delete(stop)
    this.ends[end] = (this.ends[end] ?? 0) + 1
  }

  #nameOf(connection: Lifetime): number {
    const known = this.#names.get(connection) ?? this.#names.size
    this.#names.set(connection, known)
    return known
  }

  async #read(
    id: number,
    way: Way | undefined,
    { content, status }: OriginResponse,
  ): Promise<void> {
    for (let turns = this.#chance.below(5); turns > 0; turns -= 1) await turn()
    if (this.#chance.below(5) === 0) return content.close()
    const text = await textOf(content)
    const expected = status === 304 ? '' : contentOf(String(id))
    if (way !== undefined && text !== expected)
      this.faults.push(`${id} (${way}) got ${text.slice(0, 30)}`)
  }
}

t.test('many requests at once to origins of every kind', async t => {
  const from = Number(POOL_WALKS_FROM)
  const ends: Record<string, number> = {}
  for (let seed = from; seed < from + Number(POOL_WALKS); seed += 1) {
    const chance = seeded(seed)
    const origins = Array.from({ length: 3 }, () => new WalkOrigin(chance))
    const [, ...sound] = origins
    const ports: number[] = []
    for (const { server } of origins) {
      await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
      ports.push((server.address() as AddressInfo).port)
      t.teardown(() => server.close())
    }
    const limits = { perOrigin: 3, all: 7, freePerOrigin: 2, free: 3, waiting: 40, lasting: 2 }
    const clients = makeClient(t, { limits })
    const { client, clock } = clients
    const walk = new Walk(chance, clients, ports)
    await walk.run()
    await until(() => client.counts().busy === 0)
    const { waiting, lasting, free, bound } = client.counts()
    const faults = [...walk.faults, ...sound.flatMap(origin => origin.faults)]
    if (waiting + lasting !== 0) faults.push(`${waiting} wait and ${lasting} last`)
    if (free + bound > 3) faults.push(`${free} are free and ${bound} bound`)
    clock.advance(200_000)
    await until(() => origins.every(({ sockets }) => sockets.size === 0))
    const { busy, free: freeAfter, bound: boundAfter } = client.counts()
    if (busy + freeAfter + boundAfter !== 0) faults.push('connections are counted that are closed')
    if (faults.length > 0) t.fail(`walk ${seed}: ${faults.slice(0, 5).join('; ')}`)
    for (const [end, count] of Object.entries(walk.ends)) ends[end] = (ends[end] ?? 0) + count
  }
  t.ok((ends['answered'] ?? 0) > 50 * Number(POOL_WALKS), JSON.stringify(ends))
})
