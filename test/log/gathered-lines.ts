import t from 'tap'
import { GatheredLines, type TextDestination } from '../../lib/log/gathered-lines.ts'

/** A destination that writes when it is told to. */
class Manual implements TextDestination {
  readonly texts: string[] = []
  readonly #acts: Array<{ event: string; act: (text: string) => void }> = []
  #flushed: () => void = () => undefined

  write(text: string): void {
    this.texts.push(text)
  }

  flush(done: () => void): void {
    this.#flushed = done
  }

  on(event: string, act: (text: string) => void): void {
    this.#acts.push({ event, act })
  }

  emit(event: string, text = ''): void {
    for (const one of this.#acts) if (one.event === event) one.act(text)
  }

  finish(): void {
    this.#flushed()
  }
}

const pause = () => new Promise(resolve => setTimeout(resolve, 20))

t.test('a line after a pause leaves at once, those behind it together', async t => {
  const to = new Manual()
  const lines = new GatheredLines(to, 1000)
  lines.write('1\n')
  t.strictSame(to.texts, ['1\n'])
  lines.write('2\n')
  lines.write('3\n')
  to.emit('drain')
  t.strictSame(to.texts, ['1\n'])
  await pause()
  t.strictSame(to.texts, ['1\n', '2\n3\n'])
  lines.write('4\n')
  await pause()
  t.equal(to.texts.length, 2, 'one text at a time')
  to.emit('drain')
  t.strictSame(to.texts.slice(2), ['4\n'])
})

t.test('what waits is bounded; what is lost is counted and told', async t => {
  const to = new Manual()
  const lines = new GatheredLines(to, 200)
  lines.write('first\n')
  for (let n = 0; n < 300; n += 1) lines.write('x\n')
  to.emit('drain')
  await pause()
  t.equal(to.texts[1], 'x\n'.repeat(100))
  to.emit('drain')
  to.emit('drop', 'a\nb\n')
  const flushed = lines.flush(1000)
  to.finish()
  await flushed
  t.match(to.texts.at(-1), /^\{"level":"warn",.*"lines":202\}\n$/)
})

t.test('after an error the next line tries again', async t => {
  const to = new Manual()
  const lines = new GatheredLines(to, 200)
  lines.write('1\n')
  to.emit('error')
  await pause()
  lines.write('2\n')
  t.strictSame(to.texts, ['1\n', '2\n'])
})

t.test('a flush sends what waits and does not wait for ever', async t => {
  const to = new Manual()
  const lines = new GatheredLines(to, 200)
  lines.write('1\n')
  lines.write('2\n')
  await lines.flush(10)
  t.strictSame(to.texts, ['1\n', '2\n'])
})
