/**
 * Requests on connections whose every byte, write, deadline and end comes at a random moment, with readers and clients that leave at
 * random: each ends exactly once, a connection is used again only when nothing of it is left unread, and memory comes back.
 */

import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'
import t from 'tap'
import { BlockPool } from '../../../lib/bytes/block-pool.ts'
import { Piece } from '../../../lib/bytes/piece.ts'
import type { Source, Take } from '../../../lib/bytes/source.ts'
import { defaultOriginDeadlines } from '../../../lib/http/client/client.ts'
import { OriginConnection, Transport } from '../../../lib/http/client/connection.ts'
import type { OriginFailure } from '../../../lib/http/client/errors.ts'
import { type ExchangeOwner, OriginExchange } from '../../../lib/http/client/exchange.ts'
import type {
  OriginResponse,
  OriginSwitched,
  WireRequest,
} from '../../../lib/http/client/request.ts'
import { RequestLife } from '../../../lib/http/client/request-life.ts'
import { LastBlock } from '../../../lib/http/wire/field-lines.ts'
import { type ResponseHead, ResponseHeadReader } from '../../../lib/http/wire/response-head.ts'
import { type Chance, seeded } from '../../fixtures/chance/seeded-random.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const { WALKS_FROM = '0', WALKS = '1500' } = process.env
const stepsOfOne = 60

type Written = (error?: Error | null) => void

/** A connection with the test at its other end, which says when it takes what is written. */
class ScriptedSocket extends Duplex {
  slow = false
  readonly #held: Written[] = []

  constructor() {
    super({ allowHalfOpen: false })
  }

  override _read(): void {}

  override _write(_bytes: Buffer, _encoding: string, done: Written): void {
    if (this.slow) this.#held.push(done)
    else done()
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    for (const held of this.#held.splice(0)) held(error ?? new Error('the socket is destroyed'))
    done(error)
  }

  drain(): void {
    for (const held of this.#held.splice(0)) held()
  }
}

/** What the origin says, and what it means. */
interface Script {
  readonly bytes: Buffer
  /** Where its response ends; undefined when only the end of the connection tells, or nothing does. */
  readonly end: number | undefined
  /** The content, as far as it is well-formed. */
  readonly content: Buffer
  /** Whether the connection may be used again when all of it was read. */
  readonly stays: boolean
  readonly switches: boolean
}

const interims = ['100 Continue', '102 Processing', '103 Early Hints']

function scriptOf(chance: Chance, upgrade: boolean, method: string): Script {
  const interim = Array.from(
    { length: chance.below(3) },
    () => `HTTP/1.1 ${chance.pick(interims)}\r\n\r\n`,
  ).join('')
  const before = Buffer.from(interim)
  const extra = chance.below(4) === 0 ? Buffer.alloc(1 + chance.below(300), 'z') : Buffer.alloc(0)
  if (chance.below(upgrade ? 2 : 15) === 0) {
    const head = Buffer.from('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n')
    const bytes = Buffer.concat([before, head, extra])
    const end = before.length + head.length
    return { bytes, end, content: Buffer.alloc(0), stays: false, switches: true }
  }
  const size = chance.pick([0, 0, 1, 50, 2000, 65_536, 65_537, 140_000, 400_000])
  const content = Buffer.alloc(size, 'content of an origin ')
  const closes = chance.below(4) === 0
  const close = closes ? 'Connection: close\r\n' : ''
  const kind = chance.pick(['length', 'length', 'chunked', 'chunked', 'close', 'broken', 'none'])
  const none = Buffer.alloc(0)
  const of = (fields: string, body: Buffer, rest: Partial<Script>): Script => {
    const head = Buffer.from(`HTTP/1.1 200 OK\r\n${fields}${close}\r\n`)
    const bytes = Buffer.concat([before, head, body, extra])
    const end = before.length + head.length + body.length
    return { bytes, end, content, stays: !closes, switches: false, ...rest }
  }
  if (method === 'HEAD') return of(`Content-Length: ${size}\r\n`, none, { content: none })
  if (kind === 'length') return of(`Content-Length: ${size}\r\n`, content, {})
  if (kind === 'close') {
    const all = Buffer.concat([content, extra])
    return of('', content, { content: all, end: undefined, stays: false })
  }
  if (kind === 'none') {
    const head = Buffer.from('HTTP/1.1 304 Not Modified\r\n\r\n')
    const bytes = Buffer.concat([before, head, extra])
    return { bytes, end: bytes.length - extra.length, content: none, stays: true, switches: false }
  }
  const parts: Buffer[] = []
  for (let at = 0; at < size; ) {
    const chunk = content.subarray(at, at + 1 + chance.below(100_000))
    parts.push(Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from('\r\n'))
    at += chunk.length
  }
  const last =
    kind === 'broken' ? 'no chunk\r\n' : chance.pick(['0\r\n\r\n', '0\r\nX-Sum: 1\r\n\r\n'])
  const chunked = Buffer.concat([...parts, Buffer.from(last)])
  const end = kind === 'broken' ? { end: undefined, stays: false } : {}
  return of('Transfer-Encoding: chunked\r\n', chunked, end)
}

/** Content of a request that comes, or breaks off, as the walk says. */
class ScriptedContent implements Source {
  opened = false
  closed = false
  ended = false
  /** Pieces that were given and not released. */
  held = 0
  readonly faults: string[]
  #take: Take | undefined

  constructor(faults: string[]) {
    this.faults = faults
  }

  open(): Source {
    if (this.opened) this.faults.push('the upload was opened twice')
    this.opened = true
    return this
  }

  next(take: Take): void {
    if (this.closed || this.ended) this.faults.push('the upload was asked after its end')
    if (this.#take !== undefined) this.faults.push('the upload was asked twice')
    this.#take = take
  }

  close(): void {
    this.closed = true
    this.#take = undefined
  }

  get asked(): boolean {
    return this.#take !== undefined
  }

  give(size: number): void {
    this.held += 1
    let released = false
    const release = (): void => {
      if (released) this.faults.push('a piece of the upload was released twice')
      released = true
      this.held -= 1
    }
    this.#given(undefined, Object.assign(new Piece(Buffer.alloc(size, 'u')), { release }))
  }

  end(error?: Error): void {
    this.ended = true
    this.#given(error, undefined)
  }

  #given(error: Error | undefined, piece: Piece | undefined): void {
    const take = this.#take
    this.#take = undefined
    take?.(error, piece)
  }
}

/** One request, from the first byte to the last. */
class Walk implements ExchangeOwner {
  readonly origin = 'origin.test:80'
  readonly parent = undefined
  readonly deadlines = defaultOriginDeadlines
  readonly faults: string[] = []
  readonly #chance: Chance
  readonly #clock = new ManualClock(0)
  readonly #blocks = new BlockPool({ limit: 3 << 20 })
  readonly #socket = new ScriptedSocket()
  readonly #script: Script
  readonly #upload: ScriptedContent | undefined
  readonly #length: number | undefined
  readonly #connection: OriginConnection
  readonly #exchange: OriginExchange
  readonly #life = new RequestLife()
  readonly #received: Buffer[] = []
  #fed = 0
  #given = 0
  /** Whether the origin has ended the connection, or it broke. */
  #cut = false
  #response: OriginResponse | OriginSwitched | undefined
  #done: boolean | undefined
  #failure: OriginFailure | undefined
  /** What came of reading the content. */
  #read: 'open' | 'asked' | 'ended' | 'failed' | 'closed' = 'open'

  constructor(seed: number) {
    this.#chance = seeded(seed)
    const chance = this.#chance
    const upgrade = chance.below(8) === 0
    const method = upgrade ? 'GET' : chance.pick(['GET', 'GET', 'HEAD', 'POST', 'PUT'])
    this.#script = scriptOf(chance, upgrade, method)
    const transport = Transport.over(this.#socket as unknown as Socket, this.#blocks)
    const last = new LastBlock<ResponseHead>()
    const heads = new ResponseHeadReader({ bytes: 65_536, lines: 1000 }, last)
    const dialled = { transport, address: '192.0.2.1', port: 80, others: 0 }
    this.#connection = new OriginConnection('key', dialled, { clock: this.#clock, heads })
    const streams = ['POST', 'PUT'].includes(method) && chance.below(4) > 0
    this.#length = chance.below(3) === 0 ? undefined : chance.pick([0, 10, 100_000])
    const length = this.#length
    if (streams) this.#upload = new ScriptedContent(this.faults)
    const content: WireRequest['content'] =
      this.#upload === undefined
        ? chance.pick([
            { kind: 'none' },
            { kind: 'bytes', bytes: Buffer.alloc(9000, 'b') },
          ] as const)
        : { kind: 'stream', length, open: () => (this.#upload as ScriptedContent).open() }
    this.#socket.slow = chance.below(3) === 0
    this.#exchange = new OriginExchange(
      this.#connection,
      {
        ...{ method, upgrade, content, binds: false, head: `${method} / HTTP/1.1\r\n\r\n` },
        awaitContinue: chance.below(2) === 0 ? undefined : 1000,
        onInterim: () => this.#perhapsLeave(),
      },
      { owner: this, life: this.#life },
    )
  }

  onLate(): number {
    if (this.#response !== undefined) this.faults.push('late after a head')
    if (this.#failure !== undefined) this.faults.push('late after a failure')
    this.#perhapsLeave()
    return this.#chance.below(2) === 0 ? 0 : 1000
  }

  onSilence(): void {
    if (this.#life.state === 'closed') this.faults.push('late after its end')
  }

  onHead(response: OriginResponse | OriginSwitched): void {
    if (this.#response !== undefined) this.faults.push('two heads')
    if (this.#failure !== undefined) this.faults.push('a head after a failure')
    this.#response = response
    if ('status' in response && this.#chance.below(3) === 0) this.#readOrClose()
    this.#perhapsLeave()
  }

  onFailure(failure: OriginFailure): void {
    if (this.#over) this.faults.push('a failure after the end')
    if (this.#response !== undefined) this.faults.push('a failure after the head')
    this.#failure = failure
    if (!this.#socket.destroyed) this.faults.push('failed, and the connection stays')
  }

  onDone(free: boolean): void {
    if (this.#over) this.faults.push('done twice')
    this.#done = free
    const { end, stays, switches } = this.#script
    const { destroyed } = this.#socket
    if (!free) {
      if (!destroyed && !switches) this.faults.push('not free, and not closed')
      return
    }
    if (destroyed) this.faults.push('free and closed')
    if (!stays) this.faults.push('used again though it must not be')
    const unread = this.#connection.transport.unread + this.#socket.readableLength
    // What Node holds back in the stream comes to the connection when it rests, and ends it.
    if (this.#fed - unread !== end) this.faults.push(`free after ${this.#fed - unread}, not ${end}`)
    const { opened = true, ended = true } = this.#upload ?? {}
    if (!opened || !ended) this.faults.push('free, and not all was sent')
    if (this.#life.state !== 'closed') this.faults.push('free while it lives')
    this.#connection.rest(1_000_000)
  }

  get end(): 'free' | 'closed' | 'failed' {
    if (this.#failure !== undefined) return 'failed'
    return this.#done === true ? 'free' : 'closed'
  }

  get #over(): boolean {
    return this.#done !== undefined || this.#failure !== undefined
  }

  /** Who asked leaves; nothing is told to a request that has ended (client.ts). */
  #leave(): void {
    if (!this.#over) this.#exchange.cancel(new Error('the client has left'))
  }

  #perhapsLeave(): void {
    if (this.#chance.below(15) === 0) this.#leave()
  }

  #readOrClose(): void {
    const { content } = this.#response as OriginResponse
    if (this.#read === 'asked' && this.#chance.below(3) > 0) return
    if (this.#read !== 'open' && this.#read !== 'asked') return
    if (this.#read === 'asked' || this.#chance.below(6) === 0) {
      this.#read = 'closed'
      return content.close()
    }
    this.#read = 'asked'
    let taken = false
    content.next((error, piece) => {
      if (taken) this.faults.push('a take was called twice')
      taken = true
      if (this.#read !== 'asked') this.faults.push(`a take was called when ${this.#read}`)
      if (error !== undefined) this.#read = 'failed'
      else if (piece === undefined) this.#read = 'ended'
      else {
        this.#read = 'open'
        this.#received.push(Buffer.from(piece.bytes))
        piece.release()
        if (this.#chance.below(2) === 0) this.#readOrClose()
        this.#perhapsLeave()
      }
    })
  }

  #feed(): void {
    const { bytes } = this.#script
    const most = this.#chance.pick([1, 20, 200, 5000, 70_000, 500_000])
    const part = bytes.subarray(this.#fed, this.#fed + 1 + this.#chance.below(most))
    if (part.length === 0 || this.#socket.destroyed || this.#cut) return
    this.#fed += part.length
    this.#socket.push(Buffer.from(part))
  }

  #cutOff(by: () => void): void {
    if (this.#cut || this.#socket.destroyed) return
    this.#cut = true
    by()
  }

  #upstream(): void {
    const upload = this.#upload
    if (upload === undefined || !upload.asked) return
    const left = (this.#length ?? 30_000) - this.#given
    if (this.#chance.below(40) === 0) return upload.end(new Error('the upload broke off'))
    if (left <= 0 || this.#chance.below(30) === 0) return upload.end()
    const size = Math.min(left, 1 + this.#chance.below(50_000))
    this.#given += size
    upload.give(size)
  }

  async #step(): Promise<void> {
    switch (this.#chance.below(12)) {
      case 0:
        this.#clock.advance(this.#chance.pick([1, 500, 1000, 29_000, 30_000]))
        break
      case 1:
        this.#socket.drain()
        this.#socket.slow = this.#chance.below(3) === 0
        break
      case 2:
        if (this.#chance.below(20) === 0)
          this.#cutOff(() => this.#socket.destroy(new Error('reset')))
        break
      case 3:
        if (this.#chance.below(20) === 0) this.#cutOff(() => this.#socket.push(null))
        break
      case 4:
        if (this.#chance.below(10) === 0) this.#leave()
        break
      case 5:
      case 6:
        if (this.#response !== undefined && 'status' in this.#response) this.#readOrClose()
        break
      case 7:
      case 8:
        this.#upstream()
        break
      default:
        this.#feed()
    }
    for (let turns = this.#chance.below(3); turns > 0; turns -= 1) await turn()
  }

  async run(): Promise<readonly string[]> {
    this.#life.on('connected')
    this.#exchange.begin()
    for (let step = 0; step < stepsOfOne && this.faults.length === 0; step += 1) await this.#step()
    await this.#finish()
    return this.faults
  }

  /** Lets it come to its end, and looks at what is left. */
  async #finish(): Promise<void> {
    const { content, switches, end } = this.#script
    const free = this.#done === true
    if (this.#response !== undefined && 'transport' in this.#response) {
      if (!switches) this.faults.push('switched, and was not asked to')
      if (this.#socket.destroyed) return
      this.#response.transport.destroy()
    }
    if (!this.#over) {
      this.#socket.destroy()
      await turn()
    }
    for (let at = 0; at < 3; at += 1) {
      await turn()
      this.#clock.advance(100_000)
    }
    if (!this.#over) this.faults.push('it does not end')
    if (free) {
      const dropped = this.#cut || this.#fed > (end ?? 0)
      if (this.#socket.destroyed !== dropped) {
        this.faults.push(dropped ? 'a connection rests after its end' : 'what was before ended it')
      }
    }
    while (
      this.#response !== undefined &&
      'status' in this.#response &&
      ['open', 'asked'].includes(this.#read)
    ) {
      this.#readOrClose()
      await turn()
    }
    const received = Buffer.concat(this.#received)
    const wanted = content.subarray(0, received.length)
    if (!received.equals(wanted)) this.faults.push('other content than was sent')
    if (this.#read === 'ended' && received.length !== content.length) {
      // Without a length the end of the connection is the end of the content.
      if (this.#script.end !== undefined || received.length > content.length)
        this.faults.push(`ended after ${received.length} of ${content.length}`)
    }
    if (this.#life.state !== 'closed') this.faults.push(`its life is ${this.#life.state}`)
    this.#socket.destroy()
    await turn()
    if (this.#blocks.used > 0) this.faults.push(`${this.#blocks.used} bytes of blocks are held`)
    const { held = 0, opened = false, closed = false } = this.#upload ?? {}
    if (held > 0) this.faults.push('pieces of the upload are held')
    if (opened && !closed) this.faults.push('the upload was not closed')
  }
}

function turn(): Promise<void> {
  return new Promise(resolve => setImmediate(resolve))
}

t.test('requests that meet everything at every moment end once', async t => {
  const from = Number(WALKS_FROM)
  const came = { free: 0, closed: 0, failed: 0 }
  for (let seed = from; seed < from + Number(WALKS); seed += 1) {
    const walk = new Walk(seed)
    const faults = await walk.run()
    if (faults.length > 0) t.fail(`walk ${seed}: ${faults.join('; ')}`)
    came[walk.end] += 1
  }
  if (Number(WALKS) < 100) return
  for (const [end, count] of Object.entries(came)) t.ok(count > 100, `${count} are ${end}`)
})
