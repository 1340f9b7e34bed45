/**
 * Which settings a reload cannot apply to a running service. Pure.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Config } from './config.ts'

/** Names of changed settings that wait for a restart, as they stand in the file. */
export function needRestart(before: Config, after: Config): readonly string[] {
  const fixed: ReadonlyArray<readonly [name: string, of: (config: Config) => unknown]> = [
    ['cache_directory', config => config.cacheDirectory],
    ['listen', config => config.listen],
    ['parent_proxy', config => config.parentProxy],
    ['https.origin_ca', config => config.https.originCa],
    ['limits', config => config.limits],
    ['timeouts', ({ timeouts }) => ({ ...timeouts, revalidation: 0 })],
  ]
  return fixed.filter(([, of]) => !isDeepStrictEqual(of(before), of(after))).map(([name]) => name)
}
