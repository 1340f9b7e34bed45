/**
 * The command `cachesvc explain`: it asks the running service, and reads the store itself when no service runs.
 */
import { printAnswer, wholeDirectory } from '../../admin-socket.ts'
import { systemClock } from '../../async/clock.ts'
import { type ExitCode, exitCodes, print } from '../../program.ts'
import type { Config } from '../config/config.ts'
import { rulesOf } from '../policy/policy.ts'
import { printComplaint } from './base/terminal.ts'

/** The request of a command line. */
type ExplainedLine = {
  readonly of: string
  readonly method: 'GET' | 'HEAD'
  readonly fields: ReadonlyArray<readonly [name: string, value: string]>
  readonly client: string | undefined
}

/**
 * Prints how a request would be answered, with a line for each question. It asks the service that runs with the cache
 * directory. Without one, or when this user may not ask it, it reads the store itself. An invalid URL is wrong usage. `file` is the
 * configuration file on the command line. A running service answers with its own settings, which can differ from it.
 */
export async function printExplanation(
  asked: ExplainedLine,
  config: Config,
  file: string | undefined,
): Promise<ExitCode> {
  const code = await printAnswer(
    { directory: config.cacheDirectory, lock: wholeDirectory },
    { do: 'explain', ...asked },
    printComplaint,
  )
  if (code !== undefined && code !== 'forbidden') {
    if (file !== undefined) {
      await printComplaint(
        `the running service answered with the settings in force, and did not read ${file} for that`,
      )
    }
    return code
  }
  const rules = rulesOf(config)
  const parts = { rules: () => rules, now: systemClock.now() }
  const { withStore } = await import('./base/store.ts')
  const { explain, explainedRequest, explanationText } = await import('../operations/explain.ts')
  const findings = await withStore(config, store =>
    explain(explainedRequest(asked), { ...parts, store }),
  )
  const { text, understood } = explanationText(findings)
  await print(text)
  return understood ? exitCodes.success : exitCodes.usage
}
