import t from 'tap'
import { DiskHung, type End, Slots } from '../../../../lib/cache/store/disk/disk.ts'
import { ManualClock } from '../../../fixtures/time/manual-clock.ts'

/** Lets time pass, with a turn of the event loop for each tick. */
async function pass(clock: ManualClock, time: number): Promise<void> {
  for (let rest = time; rest > 0; rest -= 1_000) {
    clock.advance(Math.min(rest, 1_000))
    await new Promise(resolve => setImmediate(resolve))
  }
}

/** Operations that end when the test says so. */
function bench(options: { slots?: number } = {}) {
  const clock = new ManualClock(0)
  const hung: DiskHung[] = []
  const slots = new Slots({
    clock,
    deadline: 10_000,
    onHung: error => hung.push(error),
    ...options,
  })
  const begun: string[] = []
  const said: string[] = []
  const ends = new Map<string, End<string>>()
  const run = (
    name: string,
    how: { patience?: number; insists?: boolean; certain?: boolean } = {},
  ) =>
    slots.run<string>(
      {
        ...how,
        begin: end => {
          begun.push(name)
          ends.set(name, end)
        },
        over: late => said.push(`${name} over${late === undefined ? '' : ` ${late}`}`),
      },
      (error, value) =>
        said.push(`${name} ${error instanceof DiskHung ? 'hung' : (error?.message ?? value)}`),
    )
  return {
    clock,
    slots,
    begun,
    said,
    hung,
    run,
    end: (name: string) => ends.get(name)?.(null, name),
  }
}

t.test('so many run at once, the others in their order', async t => {
  const { begun, said, run, end } = bench({ slots: 2 })
  for (const name of ['a', 'b', 'c', 'd']) run(name)
  t.strictSame(begun, ['a', 'b'])
  end('b')
  t.strictSame(begun, ['a', 'b', 'c'])
  end('a')
  end('c')
  end('d')
  t.strictSame(begun, ['a', 'b', 'c', 'd'])
  t.strictSame(said.join(), 'b b,b over,a a,a over,c c,c over,d d,d over')
})

t.test(
  'past the deadline the caller knows, the slot stays taken, and nothing new begins',
  async t => {
    const { clock, slots, begun, said, hung, run, end } = bench({ slots: 2 })
    run('slow')
    await pass(clock, 5_000)
    run('young')
    run('waiting')
    await pass(clock, 5_999)
    t.notOk(slots.hung)
    await pass(clock, 1)
    t.ok(slots.hung)
    t.strictSame(said, ['slow hung', 'waiting hung', 'waiting over'])
    t.equal(hung.length, 1)
    run('new')
    t.strictSame(said.splice(0).slice(3), ['new hung', 'new over'])
    end('young')
    run('close', { insists: true })
    t.strictSame(begun, ['slow', 'young', 'close'], 'what insists takes the free slot')
    end('slow')
    t.notOk(slots.hung, 'it has answered')
    t.strictSame(said, ['young young', 'young over', 'slow over slow'], 'late, and told as late')
    run('again')
    t.strictSame(begun.slice(3), ['again'])
    await pass(clock, 20_000)
    t.equal(hung.length, 2, 'told anew')
  },
)

t.test('while the disk hangs, closing waits for a slot', async t => {
  const { clock, begun, run, end } = bench({ slots: 1 })
  run('slow')
  run('close', { insists: true })
  await pass(clock, 60_000)
  t.strictSame(begun, ['slow'])
  end('slow')
  t.strictSame(begun, ['slow', 'close'])
})

t.test('what must be certain is told when it has really ended', async t => {
  const { clock, slots, said, run, end } = bench()
  run('rename', { certain: true })
  await pass(clock, 11_000)
  t.ok(slots.hung)
  t.strictSame(said, [])
  end('rename')
  t.notOk(slots.hung)
  t.strictSame(said, ['rename rename', 'rename over'])
})

t.test('a flush may take longer', async t => {
  const { clock, slots, said, run } = bench()
  run('flush', { patience: 6 })
  await pass(clock, 60_999)
  t.notOk(slots.hung)
  await pass(clock, 1_000)
  t.strictSame(said, ['flush hung'])
})

t.test('a process that stood still does not blame the disk', async t => {
  const { clock, slots, run, end, said } = bench()
  run('a')
  clock.advance(60_000)
  t.notOk(slots.hung)
  end('a')
  t.strictSame(said, ['a a', 'a over'])
})

t.test('the queue is bounded', async t => {
  const { said, run } = bench({ slots: 1 })
  for (let n = 0; n <= 16_384; n += 1) run(String(n))
  t.strictSame(said, [])
  run('one more')
  t.match(said, [/operations wait for the disk/, 'one more over'])
})
