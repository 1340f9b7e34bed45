/**
 * `authproxy serve`: the daemon of one instance, with its log and the reload of its configuration.
 */
import { setFlagsFromString } from 'node:v8'
import { serve } from '../../daemon.ts'
import { createLog } from '../../log/log.ts'
import type { ExitCode } from '../../program.ts'
import type { Config } from '../config/config.ts'
import type { LoadedConfig } from '../config/load-config.ts'
import { startService } from '../service.ts'

/** Runs the daemon until it is told to stop; `load` loads the configuration again. */
export function serveWith(config: Config, load: () => Promise<LoadedConfig>): Promise<ExitCode> {
  // Garbage is collected when it is as much as what is in use. By default V8 waits for three times as much, and an instance that
  // has become idle keeps that.
  setFlagsFromString('--heap-growing-percent=100')
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
