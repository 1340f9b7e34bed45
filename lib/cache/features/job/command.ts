/**
 * The command `cachesvc run`: runs a command with a proxy of its own, whose store stays in a directory. With a lock file the command is
 * given the same packages each time.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { isatty } from 'node:tty'
import { systemClock } from '../../../async/clock.ts'
import { Failure, valueUnlessMissing } from '../../../errors.ts'
import { countOf } from '../../../figures.ts'
import { writeFileAtomically } from '../../../files/atomic-file.ts'
import { readBounded } from '../../../files/bounded-file.ts'
import type { ListenAddress } from '../../../http/server/listen.ts'
import { createLog } from '../../../log/log.ts'
import { exitCodes } from '../../../program.ts'
import { printComplaint } from '../../cli/base/terminal.ts'
import { type Config, nonEmpty, surroundings, type UserEnvironment } from '../../config/config.ts'
import { configCheck, loadConfig } from '../../config/loading/load-config.ts'
import type { CommandContext } from '../feature.ts'
import { runChild } from './child.ts'
import { aptSettings, jobEnvironment, jobSettings } from './environment.ts'
import {
  differences,
  isHeldByLock,
  isLockedName,
  lockedName,
  type RecordedAnswer,
  recordingName,
} from './lock.ts'
import { type OwnProxy, openOwnProxy } from './own-proxy.ts'
import { jobSummary } from './summary.ts'

export interface JobOptions {
  readonly config: string | undefined
  readonly listen: readonly ListenAddress[]
  /** The directory of the store. */
  readonly store: string | undefined
  /** The path of the lock file. */
  readonly lock: string | undefined
}

/** Runs the command. Resolves to its exit code, or to 1 when it was given other packages than the lock has. */
export async function runJob(
  command: readonly string[],
  options: JobOptions,
  { startService }: Pick<CommandContext, 'startService'>,
): Promise<number> {
  const around = surroundings({ serves: true })
  const config = await jobConfig(options, around)
  if (config === undefined) return exitCodes.configuration
  const log = createLog({ level: 'warn', to: process.stderr, form: 'plain' })
  const held = options.lock === undefined ? undefined : await heldLock(options.lock)
  const proxy = await openOwnProxy(config, { log, clock: systemClock, startService })
  const directory = await mkdtemp(join(tmpdir(), 'cachesvc-run-'))
  try {
    const given =
      options.lock === undefined ? undefined : await givenBuild(proxy, options.lock, held)
    const user = given === undefined ? '' : `build:${given.name}@`
    const place = { url: `http://${user}${proxy.authority}`, replays: given?.replays ?? false }
    const aptConfig = join(directory, 'apt.conf')
    await writeFile(aptConfig, aptSettings(place, around.environment))
    const before = await proxy.totals()
    const code = await runChild(command, {
      environment: jobEnvironment(place, aptConfig, around.environment),
      terminal: isatty(0),
      complain: printComplaint,
    })
    const wrong =
      given === undefined || options.lock === undefined
        ? []
        : await afterwards(proxy, { given, held, path: options.lock, code })
    for (const line of jobSummary(proxy.requests, before, await proxy.totals())) {
      await printComplaint(line, 'info')
    }
    for (const line of wrong) await printComplaint(line)
    return wrong.length > 0 ? exitCodes.failure : code
  } finally {
    await proxy.close()
    await rm(directory, { recursive: true, force: true })
  }
}

/**
 * The configuration of the proxy: that of the file which the command line or the environment names, else settings for a job. The file of
 * the service on this machine is not read, because a job should do the same everywhere. Undefined when it has problems.
 */
async function jobConfig(
  { config: file, listen, store }: JobOptions,
  around: UserEnvironment,
): Promise<Config | undefined> {
  const { environment, home } = around
  const named = file ?? nonEmpty(environment['CACHESVC_CONFIG'])
  const caches = nonEmpty(environment['XDG_CACHE_HOME']) ?? (home && join(home, '.cache'))
  const directory = store ?? (caches && join(caches, 'cachesvc-run'))
  if (directory === undefined) throw new Failure('name a directory with --store', { code: 'job' })
  const overrides = {
    cacheDirectory: resolve(directory),
    listen: listen.length > 0 ? listen : [{ address: '127.0.0.1', port: 0 }],
  }
  const loaded =
    named === undefined
      ? configCheck(overrides, around)(jobSettings(environment))
      : await loadConfig(named, overrides, around)
  for (const found of loaded.ok ? loaded.warnings : [...loaded.warnings, ...loaded.problems]) {
    await printComplaint(
      typeof found === 'string' ? found : found.text,
      loaded.ok ? 'warn' : 'error',
    )
  }
  if (!loaded.ok) return undefined
  const { value } = loaded
  // The job itself may record a build, whichever networks the file names for that.
  const open = 'builds' in value ? { builds: Object.assign({}, value.builds, { clients: [] }) } : {}
  return {
    ...value,
    ...open,
    log: { ...value.log, access: true },
    listenSecure: undefined,
    mdns: false,
  }
}

/** The name in the store of the build that a lock file describes; undefined when there is no file yet. */
async function heldLock(path: string): Promise<string | undefined> {
  const found = await valueUnlessMissing(readBounded(path, mostLockBytes))
  return found && lockedName(found.bytes.toString())
}

const mostLockBytes = 64 * 1024 * 1024

interface GivenBuild {
  /** The build that the requests of the job name. */
  readonly name: string
  /** Whether it gives what the lock has. If not, it records today's answers. */
  readonly replays: boolean
}

/** Prepares the build for the job: the locked one when the store has all of it, else a recording. */
async function givenBuild(
  proxy: OwnProxy,
  path: string,
  held: string | undefined,
): Promise<GivenBuild> {
  if (held !== undefined) {
    const { problems } = await lockedBuild(proxy, held, path)
    if (problems.length === 0) return { name: held, replays: true }
  }
  await build(proxy, 'remove', { name: recordingName }, { mayFail: true })
  await build(proxy, 'record', { name: recordingName })
  return { name: recordingName, replays: false }
}

/** Runs an action of `cachesvc build`. */
function build(proxy: OwnProxy, act: string, about: object, options?: { readonly mayFail: true }) {
  return proxy.ask({ do: 'build', act, json: true, ...about }, options)
}

interface ShownBuild {
  readonly answers: readonly RecordedAnswer[]
  /** The contents that the store lacks, and answers that could not be recorded, in words. */
  readonly problems: readonly string[]
}

async function shownBuild(proxy: OwnProxy, name: string): Promise<ShownBuild | undefined> {
  const { code, out } = await build(proxy, 'show', { name }, { mayFail: true })
  return code === exitCodes.success ? JSON.parse(out) : undefined
}

/** The build of a lock file, which becomes one of the store unless it is. */
async function lockedBuild(proxy: OwnProxy, name: string, path: string): Promise<ShownBuild> {
  const known = await shownBuild(proxy, name)
  if (known !== undefined) return known
  await build(proxy, 'import', { name, file: path })
  return (await shownBuild(proxy, name)) ?? { answers: [], problems: ['it was not imported'] }
}

/** Compares what a job was given with the lock, or writes the lock. Resolves to lines about what is wrong. */
async function afterwards(
  proxy: OwnProxy,
  {
    given,
    held,
    path,
    code,
  }: {
    readonly given: GivenBuild
    readonly held: string | undefined
    readonly path: string
    readonly code: number
  },
): Promise<readonly string[]> {
  if (given.replays) {
    const refused = proxy.requests.filter(
      ({ because, target }) => lockRefusals.has(because) && isHeldByLock(target),
    )
    return listed(path, [...new Set(refused.map(({ target }) => `${target}: not recorded`))])
  }
  if (held === undefined && code !== exitCodes.success) {
    await printComplaint(`the command failed, so ${path} is not written`, 'warn')
    return []
  }
  const name = recordingName
  const { code: locked, complaints } = await build(proxy, 'lock', { name }, { mayFail: true })
  if (locked !== exitCodes.success) {
    return held === undefined ? [`${path} is not written: ${complaints.join(' ')}`] : []
  }
  if (held !== undefined) {
    const lock = await lockedBuild(proxy, held, path)
    const recorded = await shownBuild(proxy, name)
    return listed(path, differences(lock.answers, recorded?.answers ?? []))
  }
  for (const problem of complaints) await printComplaint(`not in ${path}: ${problem}`, 'warn')
  await writeLock(proxy, path)
  return []
}

/** The reasons of answers in a locked build that it does not have. */
const lockRefusals: ReadonlySet<string> = new Set(['not-recorded', 'not-kept'])

function listed(path: string, lines: readonly string[]): readonly string[] {
  if (lines.length === 0) return []
  const verb = lines.length === 1 ? 'is' : 'are'
  return [
    `${countOf(lines.length, 'file')} ${verb} not as ${path} has it; remove it to have it written again`,
    ...lines.map(line => `  ${line}`),
  ]
}

/** Writes the recording as a lock file. The store keeps what it names from then on, and no longer what former ones and the recording named. */
async function writeLock(proxy: OwnProxy, path: string): Promise<void> {
  const { out: text } = await build(proxy, 'text', { name: recordingName })
  await writeFileAtomically(path, text)
  const name = lockedName(text)
  const { answers } = await lockedBuild(proxy, name, path)
  const { out } = await build(proxy, 'list', {})
  const builds: readonly { readonly name: string }[] = JSON.parse(out)
  for (const { name: other } of builds) {
    if (other === name || !(isLockedName(other) || other === recordingName)) continue
    await build(proxy, 'remove', { name: other }, { mayFail: true })
  }
  await printComplaint(`${path} is written: ${countOf(answers.length, 'answer')}`, 'info')
}
