/**
 * Finds the changed settings that a reload cannot apply to a running service. Pure.
 */
import { isDeepStrictEqual } from 'node:util'
import { type Config, needsAuthority } from './config.ts'

/** Names of changed settings that wait for a restart, as they stand in the file. */
export function needRestart(before: Config, after: Config): readonly string[] {
  const fixed: ReadonlyArray<readonly [name: string, of: (config: Config) => unknown]> = [
    ['cache_directory', config => config.cacheDirectory],
    ['listen', config => config.listen],
    ['listen_port_secure', config => config.listenSecure],
    ['https', ({ https }) => ({ ...https, ...reloadable, originCa: [] })],
    ['mdns', config => config.mdns],
    ['parent_proxy', config => config.parentProxy],
    ['https.origin_ca', config => config.https.originCa],
    ['limits', config => config.limits],
    ['suites.memory', config => config.suites.memory],
    ['timeouts', ({ timeouts }) => ({ ...timeouts, revalidation: 0 })],
  ]
  const changed = fixed.filter(([, of]) => !isDeepStrictEqual(of(before), of(after)))
  const names = changed.map(([name]) => name)
  const wantsAuthority = !hasAuthority(before) && hasAuthority(after)
  return wantsAuthority ? [...names, 'https.intercept'] : names
}

/** The CA is opened at the start and never later. */
function hasAuthority(config: Config): boolean {
  return needsAuthority(config, config.listenSecure !== undefined)
}

/** Settings of HTTPS that a running service takes over. */
const reloadable = {
  prevent: false,
  intercept: false,
  interceptDomains: [],
  tunnelDomains: [],
  refuseDomains: [],
  certificateDomain: undefined,
  aiaAddress: undefined,
  rememberDistrust: 0,
}
