/**
 * Both ways through the gateway, the fast path and Node's server: the same bytes of a client reach the backend as the same
 * requests, and get the same answer. TWO_WAYS_SEED repeats a run, TWO_WAYS_REQUESTS changes its length.
 */
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { connect, createServer, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { type Chance, seeded } from '../fixtures/chance/seeded-random.ts'
import { startGateway } from '../fixtures/gateway/gateway.ts'
import { mutatedRequests } from '../fixtures/gateway/gateway-requests.ts'
import { ByteReader, readContent, readHead } from '../fixtures/http/wire.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

const { TWO_WAYS_SEED = '1', TWO_WAYS_REQUESTS = '10000' } = process.env
const seed = Number(TWO_WAYS_SEED)
const count = Number(TWO_WAYS_REQUESTS)

/** Cases that run at the same time, so that one that gets no answer holds up none of the others. */
const LANES = 8
/**
 * How many other requests are answered one after the other until a case that neither way has answered to its end is given up: it
 * announced content it has not. Requests measure time as the machine has it, be it ever so busy. They come on one connection: content
 * waits while new connections arrive, at most so long by the clock, and that stands still here.
 */
const GIVEN_UP = 10
/** The same for one way when the other has ended, so that it has to. */
const HUNG = 300

t.setTimeout(600_000)

t.test(`${count} mutated requests, seed ${seed}`, async t => {
  const { port, requests } = await recordingBackend(t)
  const gateway = await startGateway(t, {
    target: `http://127.0.0.1:${port}`,
    clock: new ManualClock(Date.parse('2025-03-14T12:00:00Z')),
    settings: {
      passthroughPaths: ['/open/'],
      passthroughTokens: [{ name: 'robot', token: 'robot-token-0123456789abcdef' }],
    },
  })
  const given = {
    host: gateway.domain,
    cookies: [
      await gateway.logIn({ email: ['ada@example.org'], groups: ['staff', 'a,b'] }),
      await gateway.logIn({ email: ['bob@example.org'] }),
    ],
    token: 'robot-token-0123456789abcdef',
  }
  const last = `GET /open/last HTTP/1.1\r\nHost: ${gateway.domain}\r\nConnection: close\r\n\r\n`
  const first = `OPTIONS /open/first HTTP/1.1\r\nHost: ${gateway.domain}\r\n\r\n`
  const another = `GET /open/another HTTP/1.1\r\nHost: ${gateway.domain}\r\n\r\n`
  const tally = { compared: 0, forwarded: 0, different: 0 }

  const compare = async (index: number, chance: Chance, size: number, other: Conversation) => {
    const bytes = Buffer.from(mutatedRequests(chance, given, size) + last, 'latin1')
    const cut = chance.below(3) === 0 ? chance.below(bytes.length) : 0
    const place = `${1 + (index >> 8)}.${index & 255}`
    const ways = [
      new Conversation(gateway.port, `127.1.${place}`),
      new Conversation(gateway.port, `127.2.${place}`),
    ] as const
    const [, node] = ways
    // What follows an OPTIONS on a connection is left to Node's server.
    await node.begin(first)
    await Promise.all(ways.map(way => way.send(bytes, cut)))
    for (let asked = 0; asked < (ways.some(way => way.over) ? HUNG : GIVEN_UP); asked += 1) {
      if (ways.every(way => way.over)) break
      await other.begin(another)
      requests.delete(other.address)
    }
    for (const way of ways) way.destroy()
    const got = ways.map(way => requests.get(way.address) ?? [])
    for (const way of ways) requests.delete(way.address)
    if (!ways.some(way => way.over)) return
    const told = ways.map((way, i) => {
      const seen = (got[i] ?? []).map(text => alike(text, way.address)).sort()
      return { answer: `${alike(way.text, way.address)}${way.over ? '' : ' and no end'}`, seen }
    })
    const [ofFast, ofNode] = told
    tally.compared += 1
    tally.forwarded += ofFast?.seen.length ?? 0
    const withoutFirst = ofNode?.seen.filter(text => !text.startsWith('OPTIONS /open/first '))
    const same =
      JSON.stringify(ofFast) === JSON.stringify({ answer: ofNode?.answer, seen: withoutFirst })
    if (same) return
    tally.different += 1
    if (tally.different > 5) return
    t.strictSame(
      ofFast,
      { answer: ofNode?.answer, seen: withoutFirst },
      JSON.stringify(bytes.toString('latin1').replaceAll(/ey[\w.-]{40,}/g, 'JWT')),
    )
  }
  let pieces = 0
  let sent = 0
  const lane = async (_: unknown, number: number) => {
    const other = new Conversation(gateway.port, `127.3.0.${1 + number}`)
    while (sent < count) {
      const chance = seeded(seed * 1_000_003 + pieces)
      const size = 1 + chance.below(7)
      sent += size
      pieces += 1
      await compare(pieces, chance, size, other)
    }
    other.destroy()
  }
  await Promise.all(Array.from({ length: LANES }, lane))
  t.comment(JSON.stringify(tally))
  t.equal(tally.different, 0)
  t.ok(tally.compared > pieces / 2, 'most pieces come to an end')
  t.ok(tally.forwarded > count / 4, 'many requests reach the backend')
})

/** What differs between two answers or two requests of the same meaning: the client, IDs, nonces, the lengths they change. */
function alike(text: string, address: string): string {
  const same = text
    .replaceAll(address, '127.0.0.1')
    .replace(/^Date: [^\r]*/gm, 'Date')
    // Whether the end is already known when the answer leaves is a matter of chance.
    .replace(/^(?:Connection|Keep-Alive): [^\r]*\r\n/gm, '')
    .replace(/nonce(-|=")[\w+/=-]+/g, 'nonce')
  const withoutIds = same.replace(/\b[0-9a-f]{8}-[0-9a-z]{1,6}\b/g, 'id')
  return withoutIds === same ? same : withoutIds.replace(/^Content-Length: \d+/gm, 'Content-Length')
}

/** One client from an address of its own. */
class Conversation {
  readonly address: string
  readonly #socket: Socket
  text = ''
  over = false
  readonly answer: Promise<void>

  constructor(port: number, address: string) {
    this.address = address
    this.#socket = connect({ host: '127.0.0.1', port, localAddress: address, allowHalfOpen: true })
    this.#socket.setNoDelay().on('error', () => undefined)
    this.#socket.on('data', block => {
      this.text += block.toString('latin1')
    })
    this.answer = new Promise(resolve => {
      const ended = () => {
        this.over = true
        resolve()
      }
      this.#socket.on('end', ended).on('close', ended)
    })
  }

  /** Sends a request and forgets its answer, which ends in `last`. */
  async begin(request: string): Promise<void> {
    this.#socket.write(request)
    while (!this.text.endsWith('short')) await once(this.#socket, 'data')
    this.text = ''
  }

  /** Sends the bytes in two pieces, the second one when the first has left. */
  async send(bytes: Buffer, cut: number): Promise<void> {
    if (cut > 0) {
      await new Promise<void>(resolve =>
        this.#socket.write(bytes.subarray(0, cut), () => resolve()),
      )
    }
    this.#socket.write(bytes.subarray(cut))
  }

  destroy(): void {
    this.#socket.destroy()
  }
}

/** A backend that answers by path and keeps what it was asked, by the client it was told of: heads byte for byte, and contents. */
async function recordingBackend(t: Test) {
  const requests = new Map<string, string[]>()
  const sockets = new Set<Socket>()
  const server = createServer(socket => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket)).on('error', () => undefined)
    void serve(socket).catch(() => socket.destroy())
  })
  const serve = async (socket: Socket) => {
    const reader = new ByteReader(socket, undefined)
    for (;;) {
      const head = await readHead(reader)
      if (head === undefined) return void socket.end()
      const { content } = await readContent(reader, head.fields, 'none')
      const client = head.fields.get('X-Real-IP') ?? ''
      const known = requests.get(client) ?? []
      requests.set(client, [...known, `${head.text}${content.toString('latin1')}`])
      const path = head.startLine.split(' ')[1]?.split('?')[0] ?? ''
      const answer = answersByPath[path] ?? short
      socket.write(
        head.startLine.startsWith('HEAD ') ? `${answer.split('\r\n\r\n')[0]}\r\n\r\n` : answer,
        'latin1',
      )
      if (path === '/until-close') return void socket.end()
    }
  }
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { port: (server.address() as AddressInfo).port, requests }
}

const short = 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nshort'
const answersByPath: Readonly<Record<string, string>> = {
  '/chunked':
    'HTTP/1.1 200 Fine\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-End: 1\r\n\r\n',
  '/none': 'HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n',
  '/unchanged': 'HTTP/1.1 304 Not Modified\r\nETag: "1"\r\nContent-Length: 9\r\n\r\n',
  '/cookies':
    'HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nSet-Cookie: __Host-authproxy_last=x\r\nConnection: X-Hop\r\nX-Hop: 1\r\nContent-Length: 0\r\n\r\n',
  '/until-close': 'HTTP/1.1 200 OK\r\nX-Name: \u00e9\r\nConnection: close\r\n\r\nuntil close',
  '/large': `HTTP/1.1 200 OK\r\nContent-Length: 70000\r\n\r\n${'x'.repeat(70_000)}`,
  '/broken': 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nshort',
}
