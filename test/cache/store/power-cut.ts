/**
 * The power is cut at random moments of a random life, several times in a row: what is served afterwards always has its
 * digest, and what a checkpoint has covered is there.
 */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { openStore, type Store } from '../../../lib/cache/store/store.ts'
import { type Chance, seeded } from '../../fixtures/chance/seeded-random.ts'
import { createMemoryLog } from '../../fixtures/log/memory-log.ts'
import { MemoryFiles } from '../../fixtures/store/memory-files.ts'
import { contentBytes, entryOf, keep, sha256 } from '../../fixtures/store/opened.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const generations = 5
const keyOf = (n: number): string => `http://archive.example.org/pool/${n}_1_all.deb`

/** A content by number; some are alike, one is large. */
function contentOf(n: number): Buffer {
  return Buffer.alloc(n % 12 === 0 ? 1_200_000 : 100 + n * 37, `content ${n} `)
}

class Life {
  readonly #chance: Chance
  readonly #store: Store
  readonly #clock: ManualClock
  readonly #work = new Set<Promise<unknown>>()
  /** What each key named when it was last known to survive, undefined when something has begun since. */
  readonly certain: Map<string, string | undefined>
  readonly #current = new Map<string, string>()
  /** How many contents are on their way to each key. */
  readonly #busy = new Map<string, number>()
  readonly #changed = new Map<string, number>()
  /** For each checkpoint under way, what has changed since it began. */
  readonly #watching = new Set<Set<string>>()

  constructor(
    chance: Chance,
    store: Store,
    clock: ManualClock,
    certain: Map<string, string | undefined>,
  ) {
    this.#chance = chance
    this.#store = store
    this.#clock = clock
    this.certain = certain
    for (const [key, digest] of certain) if (digest !== undefined) this.#current.set(key, digest)
  }

  async run(steps: number): Promise<void> {
    for (let step = 0; step < steps; step += 1) {
      this.#step()
      for (let turns = this.#chance.below(12); turns > 0; turns -= 1) {
        await new Promise(resolve => setImmediate(resolve))
      }
    }
  }

  #step(): void {
    const { certain } = this
    const key = keyOf(this.#chance.below(20))
    const content = contentOf(this.#chance.below(30))
    switch (this.#chance.below(14)) {
      case 0: {
        const before = [...this.#current].filter(([one]) => !this.#busy.has(one))
        const touched = new Set<string>()
        this.#watching.add(touched)
        this.#start(
          this.#store.checkpoint().then(() => {
            this.#watching.delete(touched)
            for (const [key, digest] of before) if (!touched.has(key)) certain.set(key, digest)
          }),
        )
        break
      }
      case 1:
        this.#changes(key)
        this.#store.remove(key)
        break
      case 2:
        this.#changes(key)
        for (const [other, digest] of this.#current) {
          if (digest === sha256(content)) this.#changes(other)
        }
        for (const other of [...this.#busy.keys()]) this.#changes(other)
        this.#start(this.#store.evict(key, { digest: sha256(content), content: true }))
        break
      case 3:
        this.#changes(key)
        this.#store.put(entryOf(key, content))
        break
      case 4:
        this.#clock.advance(this.#chance.below(90_000))
        break
      case 5:
        this.#start(this.#store.sweep({ unusedDays: 0, now: this.#clock.now() }))
        break
      default: {
        this.#changes(key)
        const changed = this.#changed.get(key)
        this.#busy.set(key, (this.#busy.get(key) ?? 0) + 1)
        this.#start(
          keep(this.#store, key, content).then(({ digest }) => {
            const others = (this.#busy.get(key) ?? 1) - 1
            const alone = others === 0 && this.#changed.get(key) === changed
            this.#busy.set(key, others)
            this.#changes(key)
            if (others === 0) this.#busy.delete(key)
            if (alone) this.#current.set(key, digest)
          }),
        )
      }
    }
  }

  #changes(key: string): void {
    this.#changed.set(key, (this.#changed.get(key) ?? 0) + 1)
    this.certain.delete(key)
    this.#current.delete(key)
    for (const touched of this.#watching) touched.add(key)
  }

  #start(work: Promise<unknown>): void {
    const settled = work.catch(() => undefined)
    this.#work.add(settled)
    void settled.finally(() => this.#work.delete(settled))
  }
}

async function open(directory: string, files: MemoryFiles, clock: ManualClock) {
  const log = createMemoryLog()
  const disk = { files, deadline: 1e12 }
  const memory = 1 << 20
  return { store: await openStore({ directory, clock, log, disk, memory }), log }
}

/** Everything that is served has its digest. Answers what that was. */
async function served(t: Test, store: Store): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>()
  for await (const { key } of store.entries()) {
    const entry = await store.get(key)
    const bytes = entry && (await contentBytes(await store.content(entry)))
    if (entry === undefined || bytes === undefined) continue
    if (sha256(bytes) !== entry.digest)
      t.fail(
        `${key} has other bytes: ${entry.digest.slice(0, 8)} of ${entry.size}, ${bytes.length}`,
      )
    found.set(key, entry.digest)
  }
  return found
}

t.test('never a wrong byte, and what was durable is there', async t => {
  let survivors = 0
  let promised = 0
  for (
    let seed = Number(process.env['FIRST'] ?? 1);
    seed <= Number(process.env['SEEDS'] ?? 20);
    seed += 1
  ) {
    const chance = seeded(seed)
    const clock = new ManualClock(1_735_689_600_000)
    const root = join(t.testdirName, String(seed))
    let directory = join(root, '0')
    let files = new MemoryFiles(chance, directory)
    let certain = new Map<string, string | undefined>()
    for (let generation = 1; generation <= generations; generation += 1) {
      mkdirSync(directory, { recursive: true })
      const { store } = await open(directory, files, clock)
      // Sometimes it is not looked at between two cuts.
      if (chance.below(3) > 0) {
        const found = await served(t, store)
        survivors += found.size
        for (const [key, digest] of certain) {
          promised += 1
          if (found.get(key) !== digest)
            t.fail(
              `seed ${seed}: ${key} is lost: ${digest?.slice(0, 8)} is ${found.get(key)?.slice(0, 8)}`,
            )
        }
      }
      const life = new Life(chance, store, clock, certain)
      await life.run(chance.below(120))
      certain = new Map(life.certain)
      const next = join(root, String(generation))
      const after = files.cut(directory, next)
      files.dead = true
      await store.close()
      files = after
      directory = next
    }
  }
  t.ok(survivors > 300, `${survivors} contents were served`)
  t.ok(promised > 100, `${promised} of them had to be`)
})
