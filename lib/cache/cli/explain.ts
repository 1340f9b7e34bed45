/**
 * `cachesvc explain URL`: prints how a request for a URL would be answered, and why.
 */
import { systemClock } from '../../async/clock.ts'
import { type ExitCode, exitCodes, print } from '../../program.ts'
import type { Config } from '../config/config.ts'
import { explain, explanationText } from '../explain.ts'
import { rulesOf } from '../policy/policy.ts'
import { askIfRunning } from './ask.ts'
import { withStore } from './read-only.ts'

/**
 * Prints how a request for `url` would be answered, a line for each question, as the service that runs with the cache directory
 * says. Without one, or when it answers others alone, it reads the store by itself. A `url` that is none is wrong usage.
 */
export async function printExplanation(url: string, config: Config): Promise<ExitCode> {
  const code = await askIfRunning(config.cacheDirectory, { do: 'explain', of: url })
  if (code !== undefined) return code
  let understood = true
  await withStore(config, async store => {
    const now = systemClock.now()
    const found = explanationText(await explain(url, { rules: rulesOf(config), store, now }))
    understood = found.understood
    await print(found.text)
  })
  return understood ? exitCodes.success : exitCodes.usage
}
