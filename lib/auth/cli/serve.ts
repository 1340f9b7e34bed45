/**
 * `authproxy serve`: the daemon of one instance, with its log and the reload of its configuration.
 */
import { serve } from '../../daemon.ts'
import { createLog } from '../../log/log.ts'
import type { ExitCode } from '../../program.ts'
import type { Config } from '../config/config.ts'
import type { LoadedConfig } from '../config/load-config.ts'
import { startService } from '../service.ts'

/** Runs the daemon until it is told to stop; `load` loads the configuration again. */
export function serveWith(config: Config, load: () => Promise<LoadedConfig>): Promise<ExitCode> {
  const log = createLog({ level: config.log.level })
  const reload = async () => {
    const again = await load()
    for (const warning of again.warnings) log.warn(warning)
    return again.ok ? { config: again.value } : { problems: again.problems }
  }
  return serve({
    log,
    start: start => startService({ config, log, start, reload }),
  })
}
