import type { Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { flushWrites, writeSoon } from '../../lib/bytes/small-writes.ts'

/** Bytes of a write that waits, at most. */
const mostSmall = 64 * 1024

/** A connection whose kernel takes everything at once, unless told otherwise. */
class Connection {
  readonly written: Array<string | Buffer> = []
  readonly told: Array<(error?: Error) => void> = []
  /** Bytes that wait. */
  writableLength = 0
  destroyed = false
  errored: Error | null = null
  /** Whether the kernel takes what is written. */
  takes = true
  readonly #log: string[]
  readonly #name: string

  constructor(name = '', log: string[] = []) {
    this.#name = name
    this.#log = log
  }

  get socket(): Socket {
    return this as unknown as Socket
  }

  get text(): string {
    return this.written.map(part => part.toString('latin1')).join('')
  }

  write(part: string | Buffer, _encoding: string, taken: (error?: Error) => void): void {
    this.#log.push(`${this.#name} is written`)
    // What the kernel takes is a copy; what waits is not.
    if (!this.takes) this.writableLength += part.length
    this.written.push(this.takes && typeof part !== 'string' ? Buffer.from(part) : part)
    this.told.push(taken)
  }
}

t.test(
  'writes leave at the end of the turn, and who waits for them is told when all have',
  async t => {
    const log: string[] = []
    const a = new Connection('a', log)
    const b = new Connection('b', log)
    writeSoon(a.socket, ['head ', Buffer.from('content')], () => log.push('a is told'))
    writeSoon(b.socket, ['text é'], () => log.push('b is told'))
    t.same(log, [])
    await turn()
    t.same(log, ['a is written', 'b is written', 'a is told', 'b is told'])
    t.same([a.text, b.text], ['head content', 'text é'])
    a.told[0]?.()
    t.equal(log.length, 4, 'once')
  },
)

t.test('what one connection is given in a row leaves in one write, in order', async t => {
  const a = new Connection()
  const b = new Connection()
  let told = 0
  const taken = () => {
    told += 1
  }
  writeSoon(a.socket, ['1', Buffer.from('2')], taken)
  writeSoon(a.socket, ['3'], taken)
  writeSoon(b.socket, ['x'], taken)
  writeSoon(b.socket, ['y', 'z'], taken)
  writeSoon(a.socket, ['4'], taken)
  await turn()
  t.equal(a.text, '1234')
  t.equal(a.written.length, 2)
  t.equal(b.text, 'xyz')
  t.equal(told, 5)
})

t.test('what is flushed leaves at once, and who is told may write again', async t => {
  const a = new Connection()
  writeSoon(a.socket, ['first ', ''], () => writeSoon(a.socket, ['second ', ''], () => {}))
  flushWrites()
  t.equal(a.text, 'first ')
  await turn()
  t.equal(a.text, 'first second ')
})

t.test('many writes do not wait for the end of the turn', async t => {
  const a = new Connection()
  const size = mostSmall - 10
  for (let i = 0; i < 9; i += 1) writeSoon(a.socket, [Buffer.alloc(size, String(i))], () => {})
  t.equal(a.written.length, 8, 'all blocks were full')
  await turn()
  t.equal(a.text.length, 9 * size)
})

t.test(
  'nobody is told, and so nothing is read, before bytes in shared memory are copied',
  async t => {
    const a = new Connection()
    const b = new Connection()
    const shared = Buffer.from('good')
    const size = mostSmall - 2
    for (let i = 0; i < 8; i += 1) {
      writeSoon(a.socket, [Buffer.alloc(size)], () => shared.fill('evil'))
    }
    writeSoon(b.socket, [shared], () => {})
    t.equal(shared.toString(), 'evil', 'the blocks were full')
    await turn()
    t.equal(b.text, 'good')
  },
)

t.test('bytes that the kernel does not take stay as they are', async t => {
  const slow = new Connection()
  let told = 0
  slow.takes = false
  writeSoon(slow.socket, ['slow ', Buffer.from('bytes')], () => {
    told += 1
  })
  await turn()
  const other = new Connection()
  for (let i = 0; i < 20; i += 1) {
    writeSoon(other.socket, [Buffer.alloc(mostSmall, 'x')], () => {})
    await turn()
  }
  writeSoon(slow.socket, [Buffer.from(', and more')], () => {})
  await turn()
  t.equal(slow.text, 'slow bytes, and more')
  t.equal(told, 0)
  slow.told[0]?.()
  slow.told[0]?.()
  t.equal(told, 1)
  for (let i = 0; i < 20; i += 1) writeSoon(other.socket, [Buffer.alloc(mostSmall, 'y')], () => {})
  await turn()
  t.match(slow.written[0]?.toString(), /^y+$/, 'its block is used again')
  t.equal(slow.written[1]?.toString(), ', and more', 'what waits behind it has no block')
})

t.test('a connection that has gone meanwhile is told why by its own write', async t => {
  const a = new Connection()
  const told: unknown[] = []
  writeSoon(a.socket, ['lost'], error => told.push(error))
  a.destroyed = true
  await turn()
  t.same(told, [])
  const gone = new Error('gone')
  a.told[0]?.(gone)
  t.same(told, [gone])
})

t.test('a write that fails at once is told why, not that it is done', async t => {
  const a = new Connection()
  const told: unknown[] = []
  const broken = new Error('broken')
  writeSoon(a.socket, ['lost'], error => told.push(error))
  a.errored = broken
  await turn()
  t.same(told, [])
  a.told[0]?.(broken)
  t.same(told, [broken])
})
