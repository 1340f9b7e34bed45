/**
 * What a login costs in several trees of this project: `node dist/bench/login-cost/main.js [--turns N] [--whole] NAME=DIRECTORY ...`. Each
 * directory is built and has its packages.
 *
 * The trees take turns within each measurement. Each has a process of its own, which does nothing else, so the processor time of
 * all its threads counts, garbage collection and compilation included. All get the same messages, which this tree writes.
 *
 * - How often the parsers and canonicalisations are called for one message, as V8 counts calls.
 * - The processor time to verify a message, from its bytes to the facts, once the program is compiled.
 * - The same for the first message of a process, and for loading the program.
 * - With `--whole`, nothing of this, but the processor time of the whole gateway for a login, from the page that asks for one to the page.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { on } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { ProfileName } from '../../demo/idp/profile.ts'
import type { ResponseRules } from '../../lib/saml/response/verify-response.ts'
import { WholeBrowser } from '../../test/fixtures/gateway/whole-browser.ts'
import { freePort } from '../../test/fixtures/process/ports.ts'
import { type Answer, alice, ScriptedIdp, sp } from '../../test/fixtures/saml/idp.ts'
import { rsaPair } from '../../test/fixtures/saml/keys.ts'
import { middle } from '../rows/gateway.ts'
import { Program, serverCore, startOrigin } from '../subject.ts'
import type { Answered, Task } from './tree.ts'

interface Shape {
  readonly profile: ProfileName
  readonly answer: Answer
  /** Whether the answer is encrypted to the service. */
  readonly encrypted?: boolean
  /** Messages of a turn; four times as many compile the program. */
  readonly inTurn?: number
}

const manyGroups = Array.from({ length: 500 }, (_, i) => `department-${i}`)

const shapes: Readonly<Record<string, Shape>> = {
  'assertion signed (Entra ID)': { profile: 'entra', answer: {} },
  'response signed (Google)': { profile: 'google', answer: {} },
  'both signed (Okta)': { profile: 'okta', answer: {} },
  'response signed, encrypted (Keycloak)': { profile: 'keycloak', answer: {}, encrypted: true },
  'both signed, encrypted (Shibboleth)': { profile: 'shibboleth', answer: {}, encrypted: true },
  'assertion signed, 500 groups (AD FS)': {
    profile: 'adfs',
    answer: { user: { ...alice, groups: manyGroups } },
    inTurn: 15,
  },
}

class Tree {
  readonly name: string
  readonly directory: string

  constructor(given: string) {
    const [name = '', directory = ''] = given.split('=')
    this.name = name
    this.directory = directory
  }

  start(): TreeProcess {
    return new TreeProcess(this.directory)
  }
}

class TreeProcess {
  readonly #child: ChildProcess
  readonly #answers: AsyncIterator<[Answered]>

  constructor(directory: string) {
    this.#child = fork(join(import.meta.dirname, 'tree.js'), [directory])
    this.#answers = on(this.#child, 'message', { close: ['exit'] }) as AsyncIterator<[Answered]>
  }

  /** Milliseconds of processor time. */
  async cpu(task: Task): Promise<number> {
    return Number(await this.#ask(task))
  }

  async calls(task: Task): Promise<Readonly<Record<string, number>>> {
    const calls = await this.#ask(task)
    return typeof calls === 'number' ? {} : calls
  }

  stop(): void {
    this.#child.kill()
  }

  async #ask(task: Task): Promise<Answered> {
    this.#child.send(task)
    const next = await this.#answers.next()
    if (next.done) throw new Error('the process of a tree ended')
    return next.value[0]
  }
}

const service = rsaPair('sp')

function idpOf(profile: ProfileName): ScriptedIdp {
  return new ScriptedIdp(profile, { now: Date.now })
}

/** Several messages of one shape, with other IDs, in base64. */
function messagesOf({ profile, answer, encrypted = false }: Shape): readonly string[] {
  const idp = idpOf(profile)
  const to = encrypted ? { encryptTo: service.certificate } : {}
  return Array.from({ length: 8 }, (_, i) =>
    Buffer.from(idp.respond({ inResponseTo: `_${i}`, ...to, ...answer })).toString('base64'),
  )
}

const rules: ResponseRules = {
  certificates: [rsaPair('idp').certificate],
  decryptionKeys: [service.privateKey],
  allowSha1: false,
}

function line(...cells: ReadonlyArray<string | number>): void {
  const text = cells.map(cell => (typeof cell === 'number' ? cell.toFixed(2) : cell))
  process.stdout.write(`| ${text.join(' | ')} |\n`)
}

function heading(...cells: readonly string[]): void {
  process.stdout.write('\n')
  line(...cells)
  line(...cells.map((_, i) => (i < 2 ? '---' : '---:')))
}

/** Prints the costs of each tree, and the ratio to the first tree turn by turn. */
function report(what: string, costs: ReadonlyMap<Tree, readonly number[]>): void {
  const [first = []] = costs.values()
  for (const [{ name }, all] of costs) {
    const ratios = all.map((cost, turn) => cost / (first[turn] ?? Number.NaN))
    const ends = `${Math.min(...all).toFixed(2)} to ${Math.max(...all).toFixed(2)}`
    line(what, name, middle(all), ends, middle(ratios))
  }
}

const titles = ['', 'tree', 'CPU ms, median', 'least to most', 'ratio to the first']

/** The costs of each tree, which take turns; every second turn begins with the last. */
async function inTurns(
  trees: readonly Tree[],
  turns: number,
  cost: (tree: Tree) => Promise<number>,
): Promise<ReadonlyMap<Tree, readonly number[]>> {
  const costs = new Map<Tree, number[]>(trees.map(tree => [tree, []]))
  for (let turn = 0; turn < turns; turn += 1) {
    for (const tree of turn % 2 === 0 ? trees : trees.toReversed()) {
      costs.get(tree)?.push(await cost(tree))
    }
  }
  return costs
}

async function countCalls(trees: readonly Tree[]): Promise<void> {
  let headed = false
  for (const [what, shape] of Object.entries(shapes)) {
    const messages = messagesOf(shape)
    for (const tree of trees) {
      const running = tree.start()
      await running.cpu({ kind: 'load' })
      const calls = await running.calls({ kind: 'count', messages, rules })
      if (!headed) heading('calls for one message', 'tree', ...Object.keys(calls))
      headed = true
      line(what, tree.name, ...Object.values(calls).map(String))
      running.stop()
    }
  }
}

async function measureVerification(trees: readonly Tree[], turns: number): Promise<void> {
  heading('verification', ...titles.slice(1))
  for (const [what, shape] of Object.entries(shapes)) {
    const { inTurn = 100 } = shape
    const messages = messagesOf(shape)
    const running = new Map(trees.map(tree => [tree, tree.start()]))
    for (const each of running.values()) {
      await each.cpu({ kind: 'load' })
      await each.cpu({ kind: 'verify', messages, rules, times: 4 * inTurn })
    }
    const costs = await inTurns(trees, turns, async tree => {
      const cpu = await running.get(tree)?.cpu({ kind: 'verify', messages, rules, times: inTurn })
      return (cpu ?? Number.NaN) / inTurn
    })
    report(what, costs)
    for (const each of running.values()) each.stop()
  }
}

async function measureFirst(trees: readonly Tree[], turns: number): Promise<void> {
  heading('in a new process', ...titles.slice(1))
  const messages = messagesOf({ profile: 'entra', answer: {} })
  const first = new Map<Tree, number[]>(trees.map(tree => [tree, []]))
  const loading = await inTurns(trees, turns, async tree => {
    const running = tree.start()
    const cpu = await running.cpu({ kind: 'load' })
    first.get(tree)?.push(await running.cpu({ kind: 'verify', messages, rules, times: 1 }))
    running.stop()
    return cpu
  })
  report('loading the program', loading)
  report('the first message', first)
}

/** Logins until a gateway is compiled, and of a turn. */
const warmLogins = 300
const loginsInTurn = 100

async function measureWhole(trees: readonly Tree[], turns: number): Promise<void> {
  heading('whole login', ...titles.slice(1))
  const directory = await mkdtemp(join(tmpdir(), 'login-cost-'))
  const origin = await startOrigin(join(directory, 'origin'))
  try {
    for (const profile of ['entra', 'okta'] as const) {
      const idp = idpOf(profile)
      const running = new Map<Tree, Program>()
      for (const tree of trees) {
        running.set(tree, await startGateway(tree, idp, { directory, origin }))
      }
      for (const program of running.values()) await logins(program, idp, warmLogins)
      const costs = await inTurns(trees, turns, async tree => {
        const program = running.get(tree)
        return program === undefined ? Number.NaN : logins(program, idp, loginsInTurn)
      })
      report(profile, costs)
      for (const program of running.values()) await program.stop()
    }
  } finally {
    await origin.stop()
    await rm(directory, { recursive: true, force: true })
  }
}

async function startGateway(
  { name, directory: tree }: Tree,
  idp: ScriptedIdp,
  { directory, origin }: { readonly directory: string; readonly origin: Program },
): Promise<Program> {
  const place = await mkdtemp(join(directory, `${name}-`))
  const [file, metadata] = [join(place, 'authproxy.yaml'), join(place, 'idp.xml')]
  const port = await freePort()
  await writeFile(metadata, idp.metadata())
  const config = {
    domain: sp.domain,
    idpMetadataFile: metadata,
    configPath: join(place, 'authproxy.json'),
    proxy: {
      listenAddress: `127.0.0.1:${port}`,
      targetURL: `http://127.0.0.1:${origin.port}`,
    },
  }
  // JSON is YAML.
  await writeFile(file, JSON.stringify(config))
  const command = [join(tree, 'bin/authproxy'), '-c', file]
  return Program.start(command, { port, core: serverCore, output: join(place, 'output') })
}

/** Milliseconds of processor time of the gateway for a login, each of another browser, one after the other. */
async function logins(program: Program, idp: ScriptedIdp, times: number): Promise<number> {
  const before = program.cpu()
  for (let i = 0; i < times; i += 1) {
    const connections: Array<() => unknown> = []
    const browser = new WholeBrowser(
      { teardown: close => void connections.push(close) },
      program.port,
    )
    const { back } = await browser.signIn(idp)
    for (const close of connections) close()
    if (back === undefined || back.status >= 300) throw new Error('the login failed')
  }
  return ((program.cpu() - before) / times) * 1000
}

const { values, positionals } = parseArgs({
  options: { turns: { type: 'string', default: '9' }, whole: { type: 'boolean', default: false } },
  allowPositionals: true,
})
const trees = positionals.map(given => new Tree(given))
const turns = Number(values.turns)
if (values.whole) {
  await measureWhole(trees, turns)
} else {
  await countCalls(trees)
  await measureVerification(trees, turns)
  await measureFirst(trees, turns)
}
