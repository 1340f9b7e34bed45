import t from 'tap'
import { BlockPool, socketBlock } from '../../lib/bytes/block-pool.ts'
import { Piece } from '../../lib/bytes/piece.ts'
import {
  bytesSource,
  concatenatedSource,
  iterate,
  prefixedSource,
  type Source,
  type Take,
} from '../../lib/bytes/source.ts'
import { sourceOf } from '../fixtures/http/source-of.ts'

function next(source: Source): Promise<Piece | undefined> {
  return new Promise((resolve, reject) => {
    source.next((error, piece) => (error === undefined ? resolve(piece) : reject(error)))
  })
}

async function* blocks(...texts: string[]): AsyncGenerator<Buffer> {
  for (const text of texts) yield Buffer.from(text)
}

t.test('a source as an iteration releases each block when the next is asked for', async t => {
  const released: string[] = []
  class Noted extends Piece {
    override release(): void {
      released.push(this.bytes.toString())
    }
  }
  const texts = ['a', 'b']
  let closed = 0
  const source: Source = {
    next(take) {
      const text = texts.shift()
      take(undefined, text === undefined ? undefined : new Noted(Buffer.from(text)))
    },
    close() {
      closed += 1
    },
  }
  const seen: string[] = []
  for await (const block of iterate(source)) {
    t.notOk(released.includes(block.toString()))
    seen.push(block.toString())
  }
  t.strictSame(seen, ['a', 'b'])
  t.strictSame(released, ['a', 'b'])
  t.equal(closed, 1)
})

t.test('pieces that are here come before the rest, and go with it', async t => {
  let closed = 0
  const rest: Source = { next: take => take(undefined, undefined), close: () => (closed += 1) }
  const source = prefixedSource([new Piece(Buffer.from('a')), new Piece(Buffer.from('b'))], rest)
  t.equal((await next(source))?.bytes.toString(), 'a')
  t.equal((await next(source))?.bytes.toString(), 'b')
  t.equal(await next(source), undefined)
  const pool = new BlockPool({ limit: 0 })
  const block = pool.take(socketBlock)
  prefixedSource(block === undefined ? [] : [new Piece(block.memory, block)], rest).close()
  t.equal(pool.used, 0, 'their memory is let go')
  t.equal(closed, 1)
})

t.test('leaving while a block is awaited ends at once', async t => {
  let closed = false
  const source: Source = {
    next() {},
    close() {
      closed = true
    },
  }
  const blocks = iterate(source)
  const waiting = blocks.next()
  await blocks.return?.()
  t.ok(closed)
  t.strictSame(await waiting, { done: true, value: undefined })
  t.strictSame(await blocks.next(), { done: true, value: undefined })
})

t.test('sources follow each other, each opened in its turn', async t => {
  const opened: number[] = []
  const part = (n: number, source: Source) => () => {
    opened.push(n)
    return n % 2 === 0 ? source : Promise.resolve(source)
  }
  const all = concatenatedSource([
    part(0, bytesSource(Buffer.from('a'))),
    part(
      1,
      sourceOf(() => blocks()),
    ),
    part(
      2,
      sourceOf(() => blocks('b', 'c')),
    ),
  ])
  t.strictSame(opened, [])
  t.equal((await next(all))?.bytes.toString(), 'a')
  t.strictSame(opened, [0])
  t.equal((await next(all))?.bytes.toString(), 'b')
  t.strictSame(opened, [0, 1, 2])
  t.equal((await next(all))?.bytes.toString(), 'c')
  t.equal(await next(all), undefined)
})

t.test(
  'one that cannot be opened breaks off, and closing closes the present one alone',
  async t => {
    const broken = concatenatedSource([() => Promise.reject(new Error('gone'))])
    await t.rejects(next(broken), /gone/)
    const closed: number[] = []
    const part = (n: number) => () => ({
      next: (take: Take) => take(undefined, new Piece(Buffer.from('x'))),
      close: () => void closed.push(n),
    })
    const all = concatenatedSource([part(0), part(1)])
    await next(all)
    all.close()
    t.strictSame(closed, [0])
    const late = concatenatedSource([
      () => new Promise<Source>(resolve => setImmediate(() => resolve(part(2)()))),
    ])
    late.next(() => t.fail('it is closed'))
    late.close()
    await new Promise(resolve => setImmediate(() => setImmediate(resolve)))
    t.strictSame(closed, [0, 2], 'what opens afterwards is closed at once')
  },
)

t.test('a source that has ended is closed before the next one is opened', async t => {
  const told: string[] = []
  const part = (name: string) => () => {
    told.push(`open ${name}`)
    const source = bytesSource(Buffer.from(name))
    return { ...source, close: () => void told.push(`close ${name}`) }
  }
  const all = concatenatedSource([part('a'), part('b')])
  for (let piece = await next(all); piece !== undefined; piece = await next(all)) piece.release()
  t.strictSame(told, ['open a', 'close a', 'open b', 'close b'])
})
