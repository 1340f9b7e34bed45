/**
 * The commands of cachesvc: serve, explain, list, verify-repos, and the check of a configuration.
 */

import { systemClock } from '../clock.ts'
import { serve } from '../daemon.ts'
import { createLog } from '../log.ts'
import { type ExitCode, exitCodes, print } from '../program.ts'
import type { Invocation } from './arguments.ts'
import type { Config } from './config.ts'
import { explain } from './explain.ts'
import { printList } from './list.ts'
import { loadConfig } from './load-config.ts'
import { compilePolicy } from './policy.ts'
import { routeRules } from './routing.ts'
import { ownIdentity } from './self.ts'
import { startService } from './service.ts'
import { openStoreForReading } from './store/store.ts'
import { surroundings } from './surroundings.ts'
import { verifyRepos } from './verify/command.ts'

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
  switch (invocation.run) {
    case 'check-config': {
      await print(`${loaded.file ?? 'the defaults'}: no problems\n`)
      return exitCodes.success
    }
    case 'serve':
      return serveWith(invocation, config)
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

function serveWith({ configFile, overrides }: Command, config: Config): Promise<ExitCode> {
  const log = createLog({ level: config.log.level })
  return serve({
    log,
    start: start =>
      startService({
        config,
        log,
        start,
        reload: async () => {
          const again = await loadConfig(configFile, overrides, surroundings())
          for (const warning of again.warnings) log.warn(warning)
          return again.ok ? { config: again.value } : { problems: again.problems }
        },
      }),
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
