/**
 * The configuration of cachesvc as the rest of the service sees it: the values of settings.ts, and what is computed from them.
 */
import type { ValuesOf } from '../../config/settings.ts'
import type { ListenAddress } from '../../http/server/listen.ts'
import { defaultCacheDirectory, namedCacheDirectory, type Surroundings } from './environment.ts'
import { defaultPort, type settings } from './settings.ts'

/** The values of a file, under the names the code has for them. */
export type FileValues = ValuesOf<typeof settings>

/** What the command line says over the file. */
export interface Overrides {
  readonly cacheDirectory?: string | undefined
  readonly listen?: readonly ListenAddress[] | undefined
}

export type Config = ReturnType<typeof configOf>

export type HttpsConfig = Config['https']

/** The configuration a file makes together with the command line and the environment. */
export function configOf(file: FileValues, overrides: Overrides, surroundings: Surroundings) {
  const { listenAddress, listenPort, alternativePorts, listenPortSecure, ...same } = file
  const { debug, ...settings } = same
  const cacheDirectory: string =
    overrides.cacheDirectory ??
    namedCacheDirectory(surroundings) ??
    file.cacheDirectory ??
    defaultCacheDirectory(surroundings)
  const listenSecure: ListenAddress | undefined =
    listenPortSecure === 0 ? undefined : { address: listenAddress, port: listenPortSecure }
  return { ...settings, cacheDirectory, listen: listenOf(file, overrides.listen), listenSecure }
}

/** The first is the main one: the one that examples and `Location` hints name. */
function listenOf(file: FileValues, override: Overrides['listen']): readonly ListenAddress[] {
  if (override !== undefined && override.length > 0) return override
  if (file.listen !== undefined && file.listen.length > 0) return file.listen
  const ports = new Set([file.listenPort ?? defaultPort, ...file.alternativePorts])
  return [...ports].map(port => ({ address: file.listenAddress, port }))
}

/** Whether these settings take a CA at all; `secure`: whether there is a listener for TLS. */
export function needsAuthority({ https }: Config, secure: boolean): boolean {
  return secure || https.intercept || https.interceptDomains.length > 0
}
