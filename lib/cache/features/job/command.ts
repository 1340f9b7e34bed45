/**
 * The command `cachesvc run`: runs a command with a proxy of its own, whose store stays in a directory. With a lock file the command is
 * given the same packages each time.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { Failure } from '../../../errors.ts'
import type { ListenAddress } from '../../../http/server/listen.ts'
import { createLog } from '../../../log/log.ts'
import { exitCodes } from '../../../program.ts'
import { printComplaint } from '../../cli/base/terminal.ts'
import { type Config, nonEmpty, surroundings, type UserEnvironment } from '../../config/config.ts'
import { configCheck, loadConfig } from '../../config/loading/load-config.ts'
import type { CommandContext } from '../feature.ts'
import { runChild } from './child.ts'
import { aptSettings, jobEnvironment, jobSettings } from './environment.ts'
import { openLock } from './lock.ts'
import { openOwnProxy } from './own-proxy.ts'
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
  context: Pick<CommandContext, 'startService'>,
): Promise<number> {
  const around = surroundings({ serves: true })
  const config = await jobConfig(options, around)
  if (config === undefined) return exitCodes.configuration
  const log = createLog({ level: 'warn', to: process.stderr, form: 'plain' })
  const proxy = await openOwnProxy(config, log, context)
  const directory = await mkdtemp(join(tmpdir(), 'cachesvc-run-'))
  try {
    const lock = options.lock === undefined ? undefined : await openLock(proxy, options.lock)
    const user = lock === undefined ? '' : `build:${lock.name}@`
    const place = { url: `http://${user}${proxy.authority}`, replays: lock?.replays === true }
    const aptConfig = join(directory, 'apt.conf')
    await writeFile(aptConfig, aptSettings(place, around.environment))
    const before = await proxy.totals()
    const code = await runChild(command, jobEnvironment(place, aptConfig, around.environment))
    const wrong = (await lock?.finish(code)) ?? []
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
  // The only client is this machine.
  const unrecorded =
    named === undefined && 'statistics' in value
      ? { statistics: Object.assign({}, value.statistics, { recall: false }) }
      : {}
  return {
    ...value,
    ...open,
    ...unrecorded,
    log: { ...value.log, access: true },
    listenSecure: undefined,
    mdns: false,
  }
}
