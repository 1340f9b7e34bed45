import t from 'tap'
import { GatheredLines } from '../../lib/log/log.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

/** A destination that writes when it is told to. */
class Manual {
  readonly texts: string[] = []
  #done: (error: Error | null, written: number) => void = () => undefined

  readonly write = (
    parts: Buffer[],
    done: (error: Error | null, written: number) => void,
  ): void => {
    this.texts.push(Buffer.concat(parts).toString())
    this.#done = done
  }

  /** Ends the write under way; all of it was written unless told. */
  written(count = Buffer.byteLength(this.texts.at(-1) ?? '')): void {
    this.#done(null, count)
  }

  failed(code: string): void {
    this.#done(Object.assign(new Error(code), { code }), 0)
  }
}

t.test('a line after a pause is written at once, those behind it together', async t => {
  const to = new Manual()
  const clock = new ManualClock(0)
  const lines = new GatheredLines(to.write, { clock, most: 1000 })
  lines.write('1\n')
  t.strictSame(to.texts, ['1\n'])
  lines.write('2\n')
  lines.write('3\n')
  to.written()
  t.strictSame(to.texts, ['1\n'])
  clock.advance(30)
  t.strictSame(to.texts, ['1\n', '2\n3\n'])
  lines.write('4\n')
  clock.advance(30)
  t.equal(to.texts.length, 2, 'one text at a time')
  to.written()
  t.strictSame(to.texts.slice(2), ['4\n'])
})

t.test('what does not fit into one block is written together, in its order', async t => {
  const to = new Manual()
  const clock = new ManualClock(0)
  const lines = new GatheredLines(to.write, { clock, most: 8 * 1024 * 1024 })
  lines.write('first\n')
  const many = Array.from({ length: 400 }, (_, n) => `${n} ${'x'.repeat(1000)}\n`)
  const long = `${'y'.repeat(30_000)}\n`
  const texts = [...many.slice(0, 100), long, ...many.slice(100)]
  for (const text of texts) lines.write(text)
  to.written()
  clock.advance(30)
  t.equal(to.texts.length, 2)
  t.ok(to.texts[1] === texts.join(''), 'all of them, one behind the other')
  to.written(200_000)
  t.ok(to.texts[2] === texts.join('').slice(200_000), 'the rest, from the middle of a block on')
  to.written()
  await lines.flush(1000)
  t.equal(to.texts.length, 3)
})

t.test('what was written in part is written to its end', async t => {
  const to = new Manual()
  const clock = new ManualClock(0)
  const lines = new GatheredLines(to.write, { clock, most: 1000 })
  lines.write('äbc\n')
  to.written(3)
  t.strictSame(to.texts, ['äbc\n', 'c\n'])
  to.failed('EAGAIN')
  t.equal(to.texts.length, 2)
  clock.advance(30)
  t.strictSame(to.texts.slice(2), ['c\n'], 'a full pipe is tried again')
})

t.test('memory of a long line is never written to again', async t => {
  // As Node.js 26 has it: what a long line is encoded into is a part of memory that is shared.
  const { poolSize } = Buffer
  Buffer.poolSize = 64 * 1024
  t.teardown(() => {
    Buffer.poolSize = poolSize
  })
  Buffer.from('more than the memory of before'.repeat(300))
  const others = Array.from({ length: 8 }, () => Buffer.from('other'.repeat(800)))
  const to = new Manual()
  const clock = new ManualClock(0)
  const lines = new GatheredLines(to.write, { clock, most: 8 * 1024 * 1024 })
  lines.write(`${'y'.repeat(22_000)}\n`)
  to.written()
  clock.advance(30)
  for (let n = 0; n < 3000; n += 1) lines.write(`${'z'.repeat(100)}\n`)
  to.written()
  clock.advance(30)
  t.ok(others.every(other => other.toString() === 'other'.repeat(800)))
})

t.test('of lines that an error cuts off those already written are not lost', async t => {
  const to = new Manual()
  const clock = new ManualClock(0)
  const lines = new GatheredLines(to.write, { clock, most: 8 * 1024 * 1024 })
  lines.write('first\n')
  for (let n = 0; n < 100; n += 1) lines.write(`${'x'.repeat(1000)}\n`)
  to.written()
  clock.advance(30)
  // 65 of them were in the first block, or fewer.
  to.written(80_000)
  to.failed('ENOSPC')
  const flushed = lines.flush(1000)
  to.written()
  await flushed
  const [, lost] = /"lines":(\d+)\}/.exec(to.texts.at(-1) ?? '') ?? []
  t.ok(Number(lost) > 0 && Number(lost) < 100, `${lost} lost`)
})

t.test('lines to a reader that has gone take no memory', async t => {
  const allocate = t.capture(Buffer, 'allocUnsafeSlow', Buffer.allocUnsafeSlow)
  const to = new Manual()
  const clock = new ManualClock(0)
  const lines = new GatheredLines(to.write, { clock, most: 1000 })
  lines.write('1\n')
  lines.write('2\n')
  to.failed('EPIPE')
  clock.advance(30)
  allocate()
  for (let n = 0; n < 100; n += 1) lines.write('x\n')
  await lines.flush(1000)
  t.equal(allocate().length, 0)
  t.strictSame(to.texts, ['1\n'])
})

t.test('waiting lines are bounded; lost ones are counted and told', async t => {
  const to = new Manual()
  const clock = new ManualClock(0)
  const lines = new GatheredLines(to.write, { clock, most: 200 })
  lines.write('first\n')
  for (let n = 0; n < 300; n += 1) lines.write('x\n')
  to.written()
  clock.advance(30)
  t.equal(to.texts[1], 'x\n'.repeat(100))
  to.failed('EIO')
  const flushed = lines.flush(1000)
  to.written()
  await flushed
  t.match(to.texts.at(-1), /^\{"level":"warn",.*"lines":300\}\n$/)
})

t.test('after an error the next line is tried; after a broken pipe none is', async t => {
  const to = new Manual()
  const clock = new ManualClock(0)
  const lines = new GatheredLines(to.write, { clock, most: 200 })
  lines.write('1\n')
  to.failed('EIO')
  clock.advance(30)
  lines.write('2\n')
  t.match(to.texts, ['1\n', /"lines":1\}\n2\n$/])
  to.failed('EPIPE')
  clock.advance(30)
  lines.write('3\n')
  await lines.flush(1000)
  t.equal(to.texts.length, 2)
})

t.test('a flush writes waiting lines at once and ends at its deadline', async t => {
  const to = new Manual()
  const clock = new ManualClock(0)
  const lines = new GatheredLines(to.write, { clock, most: 200 })
  lines.write('1\n')
  lines.write('2\n')
  const late = lines.flush(10)
  clock.advance(10)
  await late
  t.strictSame(to.texts, ['1\n'])
  const flushed = lines.flush(1000)
  to.written()
  t.strictSame(to.texts, ['1\n', '2\n'])
  to.written()
  await flushed
})
