/**
 * The commands of cachesvc: serve, explain, list, verify-repos, and the check of a configuration.
 */

import { isatty } from 'node:tty'
import { systemClock } from '../../async/clock.ts'
import { serve } from '../../daemon.ts'
import { createLog } from '../../log/log.ts'
import { type ExitCode, exitCodes, print } from '../../program.ts'
import { fileProblems } from '../config/check-files.ts'
import type { Config } from '../config/config.ts'
import { surroundings } from '../config/environment.ts'
import { loadConfig } from '../config/load-config.ts'
import { reachableAt, reachableHere } from '../operations/endpoint.ts'
import { compilePolicy } from '../policy/policy.ts'
import { routeRules } from '../policy/routing.ts'
import { explain } from '../request/explain.ts'
import { machineAddresses, ownIdentity } from '../request/machine-names.ts'
import { startService } from '../service.ts'
import { openStoreForReading } from '../store/reading.ts'
import { verifyRepos } from '../verify/command.ts'
import type { Invocation } from './arguments.ts'
import { printList } from './list.ts'

type Command = Extract<Invocation, { configFile: string | undefined }>

/** Runs a command that needs the configuration; answers the exit code. */
export async function command(invocation: Command): Promise<ExitCode> {
  const { configFile, overrides } = invocation
  const loaded = await loadConfig(configFile, overrides, surroundings())
  for (const warning of loaded.warnings)
    await print(`cachesvc: warning: ${warning}\n`, process.stderr)
  if (!loaded.ok) {
    for (const problem of loaded.problems) await print(`cachesvc: ${problem}\n`, process.stderr)
    return exitCodes.configuration
  }
  const config = loaded.value
  if (invocation.run === 'serve' || invocation.run === 'check-config') {
    const problems = await fileProblems(config, systemClock.now())
    for (const problem of problems) await print(`cachesvc: ${problem}\n`, process.stderr)
    if (problems.length > 0) return exitCodes.configuration
  }
  switch (invocation.run) {
    case 'check-config': {
      await print(`${loaded.file ?? 'the defaults'}: no problems\n`)
      return exitCodes.success
    }
    case 'serve':
      return serveWith(invocation, config, loaded.file)
    case 'explain':
      return printExplanation(invocation.operand ?? '', config)
    case 'verify-repos':
      return verifyRepos(config, invocation)
    case 'list':
      return printList(invocation.operand, config)
    default:
      await print(`cachesvc: ${invocation.run} is not available in this version\n`, process.stderr)
      return exitCodes.usage
  }
}

function serveWith(
  { configFile, overrides }: Command,
  config: Config,
  file: string | undefined,
): Promise<ExitCode> {
  const log = createLog({ level: config.log.level })
  const reload = async () => {
    const again = await loadConfig(configFile, overrides, surroundings())
    for (const warning of again.warnings) log.warn(warning)
    if (!again.ok) return { problems: again.problems }
    const problems = await fileProblems(again.value, systemClock.now())
    return problems.length > 0 ? { problems } : { config: again.value }
  }
  return serve({
    log,
    start: async start => {
      const service = await startService({ config, log, start, reload })
      // Somebody is trying it out: a service that was set up has a file and no terminal.
      if (file === undefined || isatty(1)) {
        const url = reachableAt(config, machineAddresses(), service.listeners)
        const here = reachableHere(service.listeners)
        log.info(`try it here: apt -o Acquire::http::Proxy=${here} update`)
        log.info(`make machines use it: ${url}/_cachesvc/setup`)
      }
      return service
    },
  })
}

async function printExplanation(url: string, config: Config): Promise<ExitCode> {
  const store = await openStoreForReading({
    directory: config.cacheDirectory,
    clock: systemClock,
    log: createLog({ level: 'warn', to: process.stderr }),
  })
  try {
    const own = ownIdentity(
      config,
      config.listen.map(({ port }) => port),
    )
    const rules = { config, policy: compilePolicy(config, own), routes: routeRules(config) }
    const findings = await explain(url, { rules, store, now: systemClock.now() })
    const width = Math.max(...findings.map(({ question }) => question.length))
    for (const { question, answer } of findings) {
      await print(`${question.padEnd(width)}  ${answer}\n`)
    }
    return exitCodes.success
  } finally {
    await store.close()
  }
}
