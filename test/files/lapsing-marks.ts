/**
 * Marks that lapse, on disk: what was confirmed is found again after any crash, power cut or failure, at whichever step.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import t, { type Test } from 'tap'
import { readBounded } from '../../lib/files/bounded-file.ts'
import { type FileCalls, systemFiles } from '../../lib/files/file-calls.ts'
import { filesOfMarks, LapsingMarks } from '../../lib/files/lapsing-marks.ts'
import { type Chance, seeded } from '../fixtures/chance/seeded-random.ts'
import { type Mishap, processFiles } from '../fixtures/store/memory-file-calls.ts'
import { MemoryFiles } from '../fixtures/store/memory-files.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

type Mark = readonly [name: string, until: number]

/** A process that keeps marks in these files, as a list of sessions does. */
class Keeper {
  readonly marks = new Map<string, number>()
  readonly problems: string[] = []
  lost = 0
  readonly #file: LapsingMarks<Mark>

  constructor(path: string, files: FileCalls, clock = new ManualClock(0)) {
    this.#file = new LapsingMarks<Mark>({
      path,
      files,
      clock,
      livingMarks: () => this.marks,
      isMark: (found): found is Mark =>
        Array.isArray(found) && typeof found[0] === 'string' && typeof found[1] === 'number',
      merge: found => {
        for (const [name, until] of found) this.marks.set(name, until)
      },
      sentences: { lost: 'lost', changed: 'changed', unwritten: 'failed' },
      log: {
        error: (text, facts) => {
          if (text === 'lost') this.lost += 1
          else this.problems.push(`${text}: ${facts?.['error']}`)
        },
      },
    })
  }

  open(): Promise<void> {
    return this.#file.open()
  }

  /** Whether the marks are on disk. */
  async add(...names: readonly string[]): Promise<boolean> {
    for (const name of names) this.marks.set(name, 1)
    return this.#file.add(names.map(name => [name, 1] as const))
  }

  check(): Promise<void> {
    return this.#file.check()
  }

  close(): Promise<void> {
    return this.#file.close()
  }
}

const pathIn = (root: string) => join(root, 'app.json.revoked')

function memoryFiles(chance: Chance, root: string): MemoryFiles {
  const files = new MemoryFiles(chance, root)
  files.atomicRenames = true
  return files
}

function disk(t: Test) {
  const root = t.testdir()
  return { root, path: pathIn(root), files: memoryFiles(seeded(1), root) }
}

async function opened(path: string, files: FileCalls): Promise<Keeper> {
  const keeper = new Keeper(path, files)
  await keeper.open()
  return keeper
}

t.test('a line is appended, and all are written anew when more are dead than alive', async t => {
  const { path, files } = disk(t)
  const calls = processFiles(files)
  const one = await opened(path, calls)
  await one.add('a')
  const [name = ''] = await filesOfMarks(path, calls)
  const text = async () => (await readBounded(name, 1e6, calls)).bytes.toString()
  const first = await text()
  await one.add('b')
  t.match(await text(), first, 'what was there stays')
  t.match(await text(), /^\w{8} \{"marks":2.*\n\w{8} \["a",1\]\n.*"end":1\}\n\w{8} \["b",1\]\n$/)
  for (let i = 0; i < 998; i += 1) await one.add(`c${i}`)
  one.marks.clear()
  t.ok((await text()).startsWith(first))
  await one.add('d')
  await one.add('e')
  t.notMatch(await text(), /"c",/)
  t.match(await text(), /"d".*"e"/s)
  await one.close()
})

/** Three processes, one after the other, over what version 1.0.0 has left. */
async function lives(
  path: string,
  calls: (process: number) => FileCalls,
): Promise<{ confirmed: string[]; keepers: Keeper[] }> {
  const confirmed: string[] = []
  const keepers: Keeper[] = []
  for (const letters of ['abcd', 'efgh', 'ijkl']) {
    const keeper = new Keeper(path, calls(keepers.length))
    keepers.push(keeper)
    const add = async (...names: readonly string[]) => {
      if (await keeper.add(...names)) confirmed.push(...names)
    }
    const [a = '', b = '', c = '', d = ''] = letters
    await keeper.open()
    // A start that says it could not read a file may have lost what was confirmed before it, and nothing that came later.
    if (keeper.lost > 0) confirmed.splice(0)
    await add(a, b)
    await keeper.check()
    await Promise.all([add(c), add(d)])
    await keeper.close()
  }
  return { confirmed, keepers }
}

const before = ['v', 'w', 'x']

/** What version 1.0.0 leaves that is killed during a start: its own file, and that of the run before under its new name. */
async function withOldFiles(root: string, files: MemoryFiles): Promise<void> {
  const line = (content: object) => {
    const json = JSON.stringify(content)
    return `${crc32(json).toString(16).padStart(8, '0')} ${json}\n`
  }
  const write = async (name: string, marks: readonly string[]) => {
    const file = await processFiles(files).open(`${pathIn(root)}.${name}`, 'wx')
    const lines = marks.map(mark => line([mark, 1]))
    const head = line({ marks: 2, id: name.slice(0, 16) })
    await file.writeFile([head, line({ end: 0 }), ...lines].join(''))
    await file.sync()
    await file.close()
  }
  await write('0123456789abcdef.0011223344556677.old', ['v', 'w'])
  await write('89abcdef01234567', ['w', 'x'])
}

const all = [...'abcdefghijkl', ...before]

t.test('without a mishap all is confirmed and found again', async t => {
  const { root, path, files } = disk(t)
  await withOldFiles(root, files)
  const { confirmed, keepers } = await lives(path, () => processFiles(files))
  t.same([...confirmed, ...before].sort(), all)
  for (const { problems, lost } of keepers) {
    t.same(problems, [])
    t.equal(lost, 0)
  }
  const last = await opened(path, processFiles(files))
  t.same([...last.marks.keys()].sort(), all)
  await last.close()
  const names = await processFiles(files).readdir(root)
  t.equal(names.length, 1, 'one file remains')
})

interface AfterMishap {
  readonly root: string
  readonly files: MemoryFiles
  readonly confirmed: readonly string[]
  /** A start has told that it could not read a file. */
  readonly told: boolean
}

/** Every step of every process meets the mishap once; `judge` answers what is wrong after it. */
async function eachStep(
  t: Test,
  mishap: (files: MemoryFiles) => ReturnType<Mishap>,
  judge: (of: AfterMishap) => Promise<readonly string[]>,
): Promise<void> {
  const { root } = disk(t)
  const problems: string[] = []
  let tried = 0
  for (const process of [0, 1, 2]) {
    for (let met = true, step = 1; met; step += 1) {
      const files = memoryFiles(seeded(step), root)
      await withOldFiles(root, files)
      met = false
      const { confirmed, keepers } = await lives(pathIn(root), number =>
        processFiles(files, at => {
          if (number !== process || at !== step) return undefined
          met = true
          return mishap(files)
        }),
      )
      tried += met ? 1 : 0
      const told = keepers.some(({ lost }) => lost > 0)
      const wrong = await judge({ root, files, confirmed, told })
      problems.push(...wrong.map(what => `step ${step} of process ${process}: ${what}`))
    }
  }
  t.same(problems, [])
  t.ok(tried > 80, `${tried} steps`)
}

/** What is wrong with what a start finds. */
async function judged(
  { root, confirmed, told }: AfterMishap,
  files: MemoryFiles,
): Promise<readonly string[]> {
  const keeper = await opened(pathIn(root), processFiles(files))
  await keeper.close()
  const expected = told ? confirmed : [...confirmed, ...before]
  const missing = expected.filter(name => !keeper.marks.has(name))
  return [...missing, ...(keeper.lost > 0 ? ['told a loss'] : []), ...keeper.problems]
}

t.test('a process that is killed at any step loses nothing that was confirmed', async t => {
  await eachStep(
    t,
    () => 'kill',
    after => judged(after, after.files),
  )
})

t.test('nor does a power cut at any step, and the next start goes on from it', async t => {
  const off = (files: MemoryFiles) => {
    files.dead = true
    return 'kill' as const
  }
  await eachStep(t, off, async after => {
    const cut = after.files.cut(after.root, after.root)
    const wrong = await judged(after, cut)
    return [...wrong, ...(await judged(after, cut.cut(after.root, after.root)))]
  })
})

for (const code of ['ENOSPC', 'EIO'] as const) {
  t.test(`a call that fails once with ${code} loses nothing, or it is told`, async t => {
    await eachStep(
      t,
      () => code,
      after => judged(after, after.files),
    )
  })
}

t.test('where nothing can be written the files are read and left, until it can', async t => {
  const { root, path, files } = disk(t)
  await withOldFiles(root, files)
  let readOnly = true
  const calls = processFiles(files, (_, changes) => (readOnly && changes ? 'EROFS' : undefined))
  const names = await calls.readdir(root)
  const first = await opened(path, calls)
  t.same([...first.marks.keys()].sort(), before)
  t.equal(first.lost, 0)
  t.notOk(await first.add('a'))
  t.match(first.problems, [/failed.*EROFS/, /failed.*EROFS/])
  t.same(await calls.readdir(root), names)
  readOnly = false
  t.ok(await first.add('b'))
  const second = await opened(path, processFiles(files))
  t.same([...second.marks.keys()].sort(), ['a', 'b', ...before])
  for (const keeper of [first, second]) await keeper.close()
})

t.test('whatever is put in the place of the file, each mark is written', async t => {
  const path = pathIn(t.testdir())
  const things: ReadonlyArray<(at: string) => void> = [
    at => execFileSync('mkfifo', [at]),
    at => mkdirSync(at),
    at => symlinkSync(`${path}.elsewhere`, at),
    at => symlinkSync('/dev/full', at),
    at => writeFileSync(at, 'x'.repeat(100)),
    () => undefined,
  ]
  for (const [i, put] of things.entries()) {
    const keeper = new Keeper(path, systemFiles)
    await keeper.open()
    await keeper.add(`${i} a`)
    const [own = ''] = await filesOfMarks(path)
    rmSync(own)
    put(own)
    await keeper.add(`${i} b`)
    if (i === 1) rmSync(own, { recursive: true })
    await keeper.add(`${i} c`)
    await keeper.add(`${i} d`)
    const next = new Keeper(path, systemFiles)
    await next.open()
    t.strictSame(
      [...next.marks.keys()].filter(name => name.startsWith(`${i}`)),
      ['a', 'b', 'c', 'd'].map(letter => `${i} ${letter}`),
    )
    await keeper.close()
    await next.close()
  }
  t.notOk(existsSync(`${path}.elsewhere`), 'nothing is written through a link')
})

t.test('a line without its line feed does not count, and one that is whole does', async t => {
  const { path, files } = disk(t)
  const calls = processFiles(files)
  const one = await opened(path, calls)
  await one.add('a')
  await one.add('b')
  await one.close()
  const [name = ''] = await filesOfMarks(path, calls)
  const { bytes } = await readBounded(name, 1e6, calls)
  for (const [end, known] of [
    [bytes.length - 1, ['a']],
    [bytes.length, ['a', 'b']],
  ] as const) {
    for (const left of await filesOfMarks(path, calls)) await calls.rm(left, { force: true })
    const file = await calls.open(name, 'wx')
    await file.writeFile(bytes.subarray(0, end))
    await file.close()
    const next = await opened(path, calls)
    t.same([...next.marks.keys()], known)
    t.equal(next.lost, 0)
    await next.close()
  }
})

/** A process that starts, enters marks, is killed and ends at random moments, again and again. */
class Machine {
  files: MemoryFiles
  readonly #root: string
  readonly #chance: Chance
  #running: { readonly keeper: Keeper; readonly kill: () => void } | undefined
  #begun: Array<Promise<unknown>> = []
  #names = 0
  readonly confirmed = new Set<string>()
  readonly problems: string[] = []
  /** After a power cut a line may be damaged that was never confirmed: a start may then say that it has lost something. */
  #mayLose = false

  constructor(root: string, chance: Chance) {
    this.#root = root
    this.#chance = chance
    this.files = memoryFiles(chance, root)
  }

  async run(steps: number): Promise<void> {
    for (let step = 0; step < steps; step += 1) {
      await this.#step()
      for (let turns = this.#chance.below(30); turns > 0; turns -= 1) {
        await new Promise(resolve => setImmediate(resolve))
      }
    }
    await this.#settle()
  }

  async cut(): Promise<void> {
    this.files.dead = true
    this.#running?.kill()
    await this.#settle()
    this.files = this.files.cut(this.#root, this.#root)
    this.#mayLose = true
    await this.#start()
    this.#mayLose = false
  }

  async #settle(): Promise<void> {
    await Promise.all(this.#begun)
    this.#begun = []
  }

  async #step(): Promise<void> {
    if (this.#running === undefined) return this.#start()
    const { keeper, kill } = this.#running
    switch (this.#chance.below(12)) {
      case 0:
        kill()
        await this.#settle()
        return this.#start()
      case 1:
        this.#begun.push(keeper.close())
        await this.#settle()
        return this.#start()
      case 2:
        this.#begun.push(keeper.check())
        break
      default:
        this.#begun.push(this.#add(keeper))
    }
  }

  async #start(): Promise<void> {
    const calls = processFiles(this.files)
    const keeper = new Keeper(pathIn(this.#root), calls)
    this.#running = { keeper, kill: () => calls.kill() }
    await keeper.open()
    if (keeper.lost > 0 && !this.#mayLose) this.problems.push('told a loss')
    const missing = [...this.confirmed].filter(name => !keeper.marks.has(name))
    if (missing.length === 0) return
    if (keeper.lost === 0) this.problems.push(`started without ${missing.join(' ')}`)
    for (const name of missing) this.confirmed.delete(name)
  }

  async #add(keeper: Keeper): Promise<void> {
    const names = Array.from({ length: this.#chance.pick([1, 1, 2, 20]) }, () => {
      this.#names += 1
      return `n${this.#names}`
    })
    if (await keeper.add(...names)) for (const name of names) this.confirmed.add(name)
  }
}

t.test('a process that comes and goes loses nothing, nor do power cuts', async t => {
  const { root } = disk(t)
  let confirmed = 0
  for (let seed = 1; seed <= 10; seed += 1) {
    const machine = new Machine(root, seeded(seed))
    for (let life = 0; life < 3; life += 1) {
      await machine.run(40)
      await machine.cut()
    }
    t.same(machine.problems, [], `seed ${seed}`)
    confirmed += machine.confirmed.size
  }
  t.ok(confirmed > 1_500, `${confirmed} marks`)
})
