/**
 * What is measured: our daemons, their peers and the bare prototypes, each started with all its processes on one core.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, openSync, readdirSync, readFileSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { cleanEnvironment, whereIs } from '../test/fixtures/process/command.ts'
import { accepts, eventually, freePort } from '../test/fixtures/process/ports.ts'
import { ScriptedIdp, sp } from '../test/fixtures/saml/idp.ts'

/**
 * The bare server answers from memory, the bare proxy fetches and tunnels, the bare gateway forwards (bench/bare). `direct` is the
 * origin without a proxy.
 */
export const subjectNames = [
  'cachesvc',
  'authproxy',
  'nginx',
  'nginx as a plain proxy',
  'nginx with auth_request',
  'mod_auth_mellon',
  'varnish',
  'squid',
  'apt-cacher-ng',
  'bare server',
  'bare proxy',
  'bare gateway',
  'direct',
] as const
export type SubjectName = (typeof subjectNames)[number]

/** The program a subject needs from the machine. */
const programs: Partial<Record<SubjectName, string>> = {
  nginx: 'nginx',
  'nginx as a plain proxy': 'nginx',
  'nginx with auth_request': 'nginx',
  mod_auth_mellon: 'apache2',
  varnish: 'varnishd',
  squid: 'squid',
  'apt-cacher-ng': 'apt-cacher-ng',
}

const mellonModule = '/usr/lib/apache2/modules/mod_auth_mellon.so'

/** The program this machine lacks for a subject, or undefined. */
export function lackingFor(name: SubjectName): string | undefined {
  const program = programs[name]
  if (name === 'mod_auth_mellon' && !existsSync(mellonModule)) return 'libapache2-mod-auth-mellon'
  return program !== undefined && whereIs(program) === undefined ? program : undefined
}

/** Cores: the server under test has one, everything else the other. One for both when the machine has no more. */
export const serverCore = 0
export const otherCore = cpus().length > 1 ? 1 : 0

const project = join(import.meta.dirname, '../..')
/** Milliseconds until a started program has to accept connections, and a stopped one to be gone. */
const patience = { start: 120_000, stop: 30_000 }

/** A running program with all its processes. */
export class Program {
  readonly port: number
  readonly #child: ChildProcess

  private constructor(port: number, child: ChildProcess) {
    this.port = port
    this.#child = child
  }

  /** Starts a command whose port is known; what it prints goes to a file. Resolves once it accepts connections. */
  static async start(command: readonly string[], options: ProgramOptions): Promise<Program> {
    const { port, core, env = {}, output } = options
    const file = openSync(output, 'a')
    const child = spawn('taskset', ['-c', String(core), ...command], {
      env: cleanEnvironment({ ...env, PORT: String(port) }),
      stdio: ['ignore', file, file],
    })
    const program = new Program(port, child)
    const up = await eventually(() => program.ended || accepts(port), patience.start)
    if (up && !program.ended) return program
    await program.stop()
    throw new Error(`${command[0]} did not start, see ${output}`)
  }

  get ended(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null
  }

  async stop(): Promise<void> {
    if (this.ended) return
    const gone = once(this.#child, 'exit')
    const all = this.#processes()
    this.#child.kill('SIGTERM')
    const timer = setTimeout(() => {
      for (const pid of all) quietly(() => process.kill(pid, 'SIGKILL'))
    }, patience.stop)
    await gone
    clearTimeout(timer)
  }

  /** Seconds of processor time so far, user and system. */
  cpu(): number {
    const ticks = this.#processes().map(pid => {
      const fields = statOf(pid)
      return Number(fields[11]) + Number(fields[12])
    })
    return ticks.reduce((sum, one) => sum + one, 0) / 100
  }

  /** The same once the work behind the responses is done: after `least` milliseconds, and when it stands still. */
  async cpuAtRest(least: number): Promise<number> {
    await pause(least)
    let before = -1
    let now = this.cpu()
    for (let i = 0; i < 15 && now > before; i += 1) {
      await pause(200)
      before = now
      now = this.cpu()
    }
    return now
  }

  /** Memory in MB, its share of what processes have in common (PSS). */
  pss(): number {
    return this.#memory('smaps_rollup', /^Pss:\s+(\d+) kB$/m)
  }

  /** Resident memory in MB. */
  rss(): number {
    return this.#memory('status', /^VmRSS:\s+(\d+) kB$/m)
  }

  #memory(file: string, value: RegExp): number {
    const sizes = this.#processes().map(pid => {
      const text = quietly(() => readFileSync(`/proc/${pid}/${file}`, 'utf8')) ?? ''
      return Number(value.exec(text)?.[1] ?? 0)
    })
    return sizes.reduce((sum, one) => sum + one, 0) * 1.024e-3
  }

  /** The process and all its descendants; taskset has become the program. */
  #processes(): readonly number[] {
    const parents = new Map<number, number>()
    for (const name of readdirSync('/proc')) {
      if (/^\d+$/.test(name)) parents.set(Number(name), Number(statOf(Number(name))[1]))
    }
    const all = [this.#child.pid ?? 0]
    for (const one of all) {
      for (const [pid, parent] of parents) if (parent === one) all.push(pid)
    }
    return all
  }
}

export interface ProgramOptions {
  readonly port: number
  readonly core: number
  /** File for what it prints. */
  readonly output: string
  readonly env?: Readonly<Record<string, string>>
}

export interface SubjectOptions {
  readonly origin: Program
  readonly settings?: object | undefined
  readonly tree?: string | undefined
}

/**
 * Starts a subject with its state below `directory`; the origin is the one it may ask. `settings` are further ones of authproxy, as
 * in its file. `tree` is the built checkout whose cachesvc or authproxy is started, this one if nothing is said.
 */
export async function startSubject(
  name: SubjectName,
  directory: string,
  { origin, settings = {}, tree = project }: SubjectOptions,
): Promise<Program> {
  if (name === 'direct') return origin
  // squid and varnishd give up root's rights and have to reach their directories.
  await mkdir(directory, { recursive: true, mode: 0o755 })
  const port = await freePort()
  const options = { port, core: serverCore, output: join(directory, 'output') }
  if (name === 'bare server') return startBare('server', directory, serverCore)
  if (name === 'bare proxy') return startBare('proxy', directory, serverCore)
  if (name === 'bare gateway') return startBare('gateway', directory, serverCore, origin)
  if (name === 'cachesvc') {
    const file = join(directory, 'cachesvc.yaml')
    // JSON is YAML.
    const config = {
      cache_directory: join(directory, 'cache'),
      listen: [`127.0.0.1:${port}`],
      domains: [`127.0.0.1:${origin.port}`],
    }
    await writeFile(file, JSON.stringify(config))
    return Program.start([join(tree, 'bin/cachesvc'), '--config', file], options)
  }
  if (name === 'authproxy') {
    const file = join(directory, 'authproxy.yaml')
    const metadata = join(directory, 'idp.xml')
    await writeFile(metadata, identityProvider().metadata())
    const config = {
      domain: sp.domain,
      idpMetadataFile: metadata,
      configPath: join(directory, 'authproxy.json'),
      proxy: {
        listenAddress: `127.0.0.1:${port}`,
        targetURL: `http://127.0.0.1:${origin.port}`,
      },
      ...settings,
    }
    await writeFile(file, JSON.stringify(config))
    return Program.start([join(tree, 'bin/authproxy'), '-c', file], options)
  }
  if (name === 'mod_auth_mellon') {
    await writeFile(join(directory, 'idp.xml'), identityProvider().metadata())
  }
  const env = { STATE: directory, ORIGIN_PORT: String(origin.port), DOMAIN: sp.domain }
  return Program.start([join(project, 'bench/peers', `${name.replaceAll(' ', '-')}.sh`)], {
    ...options,
    env,
  })
}

let idp: ScriptedIdp | undefined

/** The identity provider that signs in the users of authproxy, without a server. One, because it numbers its answers. */
export function identityProvider(): ScriptedIdp {
  idp ??= new ScriptedIdp('okta', { now: Date.now })
  return idp
}

/** The origin, beside the load. */
export function startOrigin(directory: string): Promise<Program> {
  return startBare('server', directory, otherCore)
}

async function startBare(
  script: string,
  directory: string,
  core: number,
  origin?: Program,
): Promise<Program> {
  await mkdir(directory, { recursive: true })
  const port = await freePort()
  const command = ['node', join(import.meta.dirname, 'bare', `${script}.js`), String(port)]
  return Program.start([...command, directory], {
    port,
    core,
    output: join(directory, 'output'),
    env: origin === undefined ? {} : { ORIGIN_PORT: String(origin.port) },
  })
}

/** The fields of /proc/PID/stat from the state on; empty when the process is gone. */
function statOf(pid: number): readonly string[] {
  const text = quietly(() => readFileSync(`/proc/${pid}/stat`, 'utf8')) ?? ''
  return text.slice(text.lastIndexOf(')') + 2).split(' ')
}

function quietly<T>(action: () => T): T | undefined {
  try {
    return action()
  } catch {
    return undefined
  }
}
