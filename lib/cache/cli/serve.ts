/**
 * The command `cachesvc serve` runs the daemon, with its log and the reload of its configuration.
 */
import { isatty } from 'node:tty'
import { proxyVariable } from '../../config/proxy-url.ts'
import { serve } from '../../daemon.ts'
import { AddressSet } from '../../ip.ts'
import { createLog } from '../../log/log.ts'
import type { ExitCode } from '../../program.ts'
import type { Config, UserEnvironment } from '../config/config.ts'
import type { loadConfig } from '../config/loading/load-config.ts'
import { localUrl, neighbourCaution, reachableUrl } from '../operations/endpoint.ts'
import { machineAddresses } from '../policy/routing.ts'
import { startService } from '../service.ts'

interface ServeOptions {
  readonly config: Config
  readonly warnings: readonly string[]
  /** The configuration file; undefined for the defaults. */
  readonly file: string | undefined
  /** Loads the configuration again, and checks the files it names. */
  readonly load: () => ReturnType<typeof loadConfig>
}

/** Runs the daemon until a signal stops it. */
export function serveWith({ config, warnings, file, load }: ServeOptions): Promise<ExitCode> {
  const log = createLog({ level: config.log.level })
  const note = ignoredProxyNote(config, process.env)
  if (note !== undefined) log.info(note)
  const reload = async () => {
    const again = await load()
    for (const warning of again.warnings) log.warn(warning)
    if (!again.ok) return { problems: again.problems }
    return { config: again.value, warnings: again.warnings }
  }
  return serve({
    log,
    start: async (start, reloadDaemon) => {
      const service = await startService({ config, warnings, log, start, reload, reloadDaemon })
      // This line is for a user who tries the proxy out. An installed service has a file and no terminal.
      if (file === undefined || isatty(1)) {
        const here = localUrl(service.listeners)
        log.info(`try it here: sudo apt -o Acquire::http::Proxy=${here} update`)
      }
      const url = reachableUrl(config, machineAddresses(), service.listeners)
      log.info(`make machines use it: ${url}/_cachesvc/setup`)
      const { clients } = config
      const admits = (address: string) => AddressSet.fromCidrs(clients).has(address)
      const caution = neighbourCaution(admits, machineAddresses(), service.listeners)
      if (caution !== undefined) log.warn(caution)
      return service
    },
  })
}

/*
 * The variables that name a proxy for other programs. cachesvc does not read them, because it has a setting for the parent proxy.
 */

/** The note for the log when such a variable is set and no parent proxy is configured; else undefined. It shows no credentials. */
export function ignoredProxyNote(
  { parentProxy }: { readonly parentProxy: unknown },
  environment: UserEnvironment['environment'],
): string | undefined {
  if (parentProxy !== undefined) return undefined
  const named = proxyVariable(environment, ['http', 'https'])
  if (named === undefined) return undefined
  return `the environment sets ${named.name}, which is ignored: origins are asked directly. If they can only be reached by that proxy, set \`parent_proxy: ${named.url}\` in cachesvc.yaml`
}
