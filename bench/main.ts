/**
 * The bench: measures every subject in turn, row by row and round by round, and writes the results.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { command } from '../test/fixtures/process/command.ts'
import { Contents } from './bare/content.ts'
import { LoadClient } from './load.ts'
import { plot } from './plot.ts'
import { circumstances, page, treeVersion } from './report.ts'
import { columnOf, Results } from './results.ts'
import type { Effort, Row } from './rows/row.ts'
import { type RowName, rows } from './rows/rows.ts'
import {
  lackingFor,
  type Program,
  type SubjectName,
  startOrigin,
  startSubject,
  subjectNames,
} from './subject.ts'

const usage = `bench/run [--quick] [--rounds N] [--with SUBJECT,...] [--json FILE]
          [--before DIRECTORY] [--out DIRECTORY] [ROW...]

  Without names all rows are measured, and a run of all rows of five rounds or more writes bench/results.md and bench/results.svg.
  --quick   one short round without squid and apt-cacher-ng, for development
  --rounds  measurements of each row and subject (5)
  --with    only these subjects: ${subjectNames.join(', ')}
  --before  measures cachesvc and authproxy of another built checkout too, in turns with those of this one
  --out     writes results.md and results.svg there, whatever was measured
  --json    every measurement, for comparing two versions
  Rows: ${Object.keys(rows).join(', ')}
`

const full: Effort = {
  seconds: 4,
  settle: 6000,
  rest: 3000,
  downloads: 1000,
  requests: 100_000,
  gigabytes: 20,
  entries: 1_000_000,
}
const quick: Effort = {
  seconds: 1,
  settle: 200,
  rest: 300,
  downloads: 100,
  requests: 4000,
  gigabytes: 1,
  entries: 100_000,
}
const shortened = `A quick run: ${quick.requests} requests, ${quick.gigabytes} GB and ${quick.entries} entries where the titles say more`
/** squid and apt-cacher-ng take minutes. */
const quickSubjects: readonly string[] = subjectNames.filter(
  name => name !== 'squid' && name !== 'apt-cacher-ng',
)
/** Rounds from which on results are written. */
const enough = 5

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    quick: { type: 'boolean', default: false },
    rounds: { type: 'string' },
    with: { type: 'string' },
    json: { type: 'string' },
    out: { type: 'string' },
    before: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
})

interface Plan {
  readonly names: readonly RowName[]
  readonly subjects: readonly SubjectName[]
  readonly rounds: number
  readonly effort: Effort
  /** A built checkout whose daemons are measured beside those of this one. */
  readonly before: string | undefined
}

/** One measurement to make: of a row, of a subject, of this tree or of the one before. */
interface Turn {
  readonly name: RowName
  readonly subject: SubjectName
  readonly tree: string | undefined
}

class Bench {
  readonly results = new Results()
  readonly #directory: string
  readonly #contents = new Contents()
  readonly #running = new Map<string, Program>()
  readonly #print: (text: string) => void
  #origin: Promise<Program> | undefined
  #serial = 0

  constructor(directory: string, print: (text: string) => void) {
    this.#directory = directory
    this.#print = print
  }

  async run({ names, subjects, rounds, effort, before }: Plan): Promise<void> {
    const load = await LoadClient.compile(this.#directory)
    for (const name of names) {
      const row: Row = rows[name]
      // What an earlier row wrote is not to disturb this one.
      await command('sync', [], { deadline: 300_000 })
      const release = row.memoryInUse && effort === full ? await this.#holdMemory() : undefined
      for (let round = 0; round < (row.once === true ? 1 : rounds); round += 1) {
        for (const subject of row.subjects.filter(one => subjects.includes(one))) {
          for (const tree of treesOf(subject, before, round)) {
            await this.#measure({ name, subject, tree }, { load, effort })
          }
        }
      }
      await release?.()
    }
  }

  /** Has another process keep the memory in use. Answers what lets go of it. */
  async #holdMemory(): Promise<() => Promise<unknown>> {
    const file = join(this.#directory, 'held')
    const holder = fork(join(import.meta.dirname, 'hold.js'), [String(forFiles), file])
    await once(holder, 'message')
    return async () => {
      const gone = once(holder, 'exit')
      holder.disconnect()
      await gone
      await rm(file)
    }
  }

  async close(): Promise<void> {
    for (const program of this.#running.values()) await program.stop()
    await (await this.#origin)?.stop()
    await rm(this.#directory, { recursive: true, force: true })
  }

  /** A measurement that fails is said and left out. */
  async #measure(
    { name, subject, tree }: Turn,
    { load, effort }: { load: LoadClient; effort: Effort },
  ): Promise<void> {
    this.#serial += 1
    const label = String(this.#serial)
    const directory = join(this.#directory, label)
    const row: Row = rows[name]
    const column = tree === undefined ? columnOf(subject) : 'before'
    const said = tree === undefined ? subject : `${subject} before`
    this.#origin ??= startOrigin(join(this.#directory, 'origin'))
    const origin = await this.#origin
    await mkdir(directory, { mode: 0o755 })
    try {
      const program = await this.#program(subject, origin, tree)
      const figures = await row.run({
        subject,
        program,
        origin,
        load,
        label,
        directory,
        effort,
        contents: this.#contents,
        start: (place, settings) => startSubject(subject, place, { origin, settings, tree }),
      })
      this.results.add({ row: name, column, figures })
      this.#print(`${name} ${said} ${JSON.stringify(figures)}\n`)
    } catch (error) {
      this.#print(`${name} ${said} failed: ${error instanceof Error ? error.message : error}\n`)
    } finally {
      await rm(directory, { recursive: true })
    }
  }

  async #program(subject: SubjectName, origin: Program, tree?: string): Promise<Program> {
    const name = `${subject.replaceAll(' ', '-')}${tree === undefined ? '' : '-before'}`
    const known = this.#running.get(name)
    if (known !== undefined) return known
    const program = await startSubject(subject, join(this.#directory, name), { origin, tree })
    this.#running.set(name, program)
    return program
  }
}

/** The trees whose program is measured in a round. Each begins every other round, so that neither always has the disk or the core first. */
function treesOf(subject: SubjectName, before: string | undefined, round: number) {
  if (before === undefined || (subject !== 'cachesvc' && subject !== 'authproxy'))
    return [undefined]
  return round % 2 === 0 ? [before, undefined] : [undefined, before]
}

/** Memory that is not held: that of files. */
const forFiles = 1.5e9

function isRow(name: string): name is RowName {
  return Object.hasOwn(rows, name)
}

async function main(print: (text: string) => void): Promise<void> {
  const unknown = positionals.filter(name => !isRow(name))
  if (unknown.length > 0) throw new Error(`no such row: ${unknown.join(', ')}\n${usage}`)
  const all = Object.keys(rows).filter(isRow)
  const names = all.filter(name => positionals.length === 0 || positionals.includes(name))
  const wanted = values.with?.split(',') ?? (values.quick ? quickSubjects : subjectNames)
  const asked = subjectNames.filter(name => wanted.includes(name))
  const subjects = asked.filter(name => lackingFor(name) === undefined)
  const remarks = asked.flatMap(name => {
    const program = lackingFor(name)
    return program === undefined
      ? []
      : [`Left out: ${name}, because this machine has no ${program}`]
  })
  if (values.quick) remarks.push(shortened)
  for (const remark of remarks) print(`${remark}\n`)
  const rounds = Number(values.rounds ?? (values.quick ? 1 : enough))
  const before = values.before === undefined ? undefined : resolve(values.before)
  if (before !== undefined) remarks.push(`Before: ${treeVersion(before)}`)
  const about = circumstances(rounds, remarks)
  const directory = await mkdtemp(join(tmpdir(), 'bench-'))
  // squid and varnishd give up root's rights and have to reach their directories.
  await chmod(directory, 0o755)
  const bench = new Bench(directory, print)
  const interrupted = () => {
    void bench.close().finally(() => process.exit(130))
  }
  process.once('SIGINT', interrupted).once('SIGTERM', interrupted)
  try {
    await bench.run({ names, subjects, rounds, effort: values.quick ? quick : full, before })
  } finally {
    await bench.close()
  }
  const { results } = bench
  const text = page(results, names, about)
  print(`\n${text}`)
  if (values.json !== undefined)
    await writeFile(values.json, JSON.stringify(results.all, undefined, 1))
  const whole = !values.quick && rounds >= enough && names.length === all.length
  const place = values.out ?? (whole ? join(import.meta.dirname, '../../bench') : undefined)
  if (place === undefined) return
  await mkdir(place, { recursive: true })
  await writeFile(join(place, 'results.md'), text)
  await writeFile(join(place, 'results.svg'), plot(results, names))
}

if (values.help) process.stdout.write(usage)
else await main(text => process.stdout.write(text))
