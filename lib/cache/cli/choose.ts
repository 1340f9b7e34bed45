/**
 * `cachesvc remove --dry-run` and `cachesvc refresh --dry-run`: print what they would mean, without the service.
 */
import { type ExitCode, exitCodes, print } from '../../program.ts'
import type { Config } from '../config/config.ts'
import { chosenBy } from '../control/selection.ts'
import { rulesOf } from '../policy/policy.ts'
import { printLines, sorted } from './list.ts'

/** Prints the URLs that `remove` or `refresh` would mean. A failure when there is none. */
export async function printChosen(text: string, config: Config): Promise<ExitCode> {
  const chosen = chosenBy(text, rulesOf(config))
  if (typeof chosen === 'string') {
    await print(`cachesvc: ${chosen}\n`, process.stderr)
    return exitCodes.usage
  }
  const found = await sorted(config, chosen)
  await printLines(found, ({ key }) => `${key}\n`)
  const noun = found.length === 1 ? 'file' : 'files'
  await print(`cachesvc: ${found.length} ${noun}; nothing was changed\n`, process.stderr)
  return found.length > 0 ? exitCodes.success : exitCodes.failure
}
