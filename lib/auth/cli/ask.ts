/**
 * The commands that ask a running instance: status, reload and sessions. A wrong configuration does not keep them from finding it.
 */
import { isAbsolute } from 'node:path'
import { printAnswer, serviceNotAsked } from '../../admin-socket.ts'
import { looseSettings } from '../../config/config-file.ts'
import { valueAt } from '../../config/settings.ts'
import type { ExitCode } from '../../program.ts'
import { standardConfigPath } from '../config/config.ts'
import { type Environment, variableOf } from '../config/environment.ts'
import type { ConfigPlace, LoadedConfig } from '../config/loading/load-config.ts'
import { lockOf } from '../keys/dynamic-file.ts'

/** Asks an instance, prints what it says, and answers the exit code it names. */
export async function askInstance(
  { instance, environment, loaded }: ConfigPlace & { readonly loaded: LoadedConfig },
  request: object,
  complain: (sentence: string) => Promise<void>,
): Promise<ExitCode> {
  const configPath = loaded.ok
    ? loaded.value.configPath
    : await likelyConfigPath(instance, loaded.from, environment)
  const code = await printAnswer(lockOf(configPath), request, complain)
  if (code === 'forbidden') {
    throw serviceNotAsked(
      `The instance ${instance} answers only its own user and root: try it with sudo.`,
    )
  }
  if (code !== undefined) return code
  throw serviceNotAsked(
    `No instance ${instance} runs with the dynamic configuration ${configPath}: systemctl status authproxy@${instance}`,
  )
}

/** The dynamic configuration of an instance whose configuration, which came from `from`, has problems. */
async function likelyConfigPath(
  instance: string,
  from: string,
  environment: Environment,
): Promise<string> {
  const found = isAbsolute(from)
    ? valueAt(await looseSettings(from), ['configPath'])
    : environment[variableOf(['configPath'])]
  return typeof found === 'string' && isAbsolute(found) ? found : standardConfigPath(instance)
}
