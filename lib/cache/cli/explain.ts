/**
 * `cachesvc explain URL`: prints how a request for a URL would be answered, and why.
 */
import { systemClock } from '../../async/clock.ts'
import { type ExitCode, exitCodes, print } from '../../program.ts'
import type { Config } from '../config/config.ts'
import { compilePolicy } from '../policy/policy.ts'
import { routeRules } from '../policy/routing.ts'
import type { Rules } from '../policy/rules.ts'
import { explain } from '../request/explain.ts'
import { ownIdentity } from '../request/own-identity.ts'
import { withStore } from './read-only.ts'

/** Prints how a request for `url` would be answered, a line for each question. A `url` that is none is wrong usage. */
export async function printExplanation(url: string, config: Config): Promise<ExitCode> {
  const rules = rulesOf(config)
  let understood = true
  await withStore(config, async store => {
    const findings = await explain(url, { rules, store, now: systemClock.now() })
    understood = findings[0]?.question !== 'Asked for'
    const width = Math.max(...findings.map(({ question }) => question.length))
    for (const { question, answer } of findings) {
      await print(`${question.padEnd(width)}  ${answer}\n`)
    }
  })
  return understood ? exitCodes.success : exitCodes.usage
}

/** The rules of a configuration, for a process that does not listen. */
export function rulesOf(config: Config): Rules {
  const ports = config.listen.map(({ port }) => port)
  const policy = compilePolicy(config, ownIdentity(config, ports))
  return { config, policy, routes: routeRules(config) }
}
