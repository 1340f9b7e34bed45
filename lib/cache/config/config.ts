/**
 * The configuration of cachesvc as the rest of the service sees it: the values of settings.ts and values computed from them and the
 * environment. Which changes wait for a restart stands beside each setting (`config/restart.ts`).
 */

import { accessSync, constants, existsSync } from 'node:fs'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { fixedPlaces, waitingSettings, withFixed } from '../../config/restart.ts'
import type { ValuesOf } from '../../config/settings.ts'
import { attempt } from '../../errors.ts'
import type { ListenAddress } from '../../http/server/listen.ts'
import { builtInArchives } from './known-archives.ts'
import { defaultPort, settings } from './settings.ts'

/** The values of a configuration file, under their names in the code. */
export type FileValues = ValuesOf<typeof settings>

/** The values of the command line, which take precedence over those of the file. */
export interface Overrides {
  readonly cacheDirectory?: string | undefined
  readonly listen?: readonly ListenAddress[] | undefined
}

export type Config = ReturnType<typeof configOf>

export type HttpsConfig = Config['https']

/** The configuration from a file, the command line and the environment. */
export function configOf(file: FileValues, overrides: Overrides, surroundings: UserEnvironment) {
  const { listenAddress, listenPort, alternativePorts, listenPortSecure, ...settings } = file
  const cacheDirectory: string =
    overrides.cacheDirectory ??
    namedCacheDirectory(surroundings) ??
    file.cacheDirectory ??
    unnamedCacheDirectory(surroundings)
  const listenSecure: ListenAddress | undefined =
    listenPortSecure === 0 ? undefined : { address: listenAddress, port: listenPortSecure }
  const listen = listenOf(file, overrides.listen)
  const privateDomains = file.privateDomains.flatMap(one => ('network' in one ? [] : [one]))
  const privateNetworks = file.privateDomains.flatMap(one =>
    'network' in one ? [one.network] : [],
  )
  return {
    ...settings,
    privateDomains,
    privateNetworks,
    cacheDirectory,
    listen,
    listenSecure,
    knownArchives: builtInArchives(),
  }
}

/** The addresses to listen at. The examples on the pages name the first one. */
function listenOf(file: FileValues, override: Overrides['listen']): readonly ListenAddress[] {
  if (override !== undefined && override.length > 0) return override
  if (file.listen !== undefined && file.listen.length > 0) return file.listen
  const ports = new Set([file.listenPort ?? defaultPort, ...file.alternativePorts])
  return [...ports].map(port => ({ address: file.listenAddress, port }))
}

/** Whether these settings need a CA. `secure` says whether there is a listener for TLS. */
export function needsAuthority(
  { https, listenSecure }: Config,
  secure = listenSecure !== undefined,
): boolean {
  return secure || https.intercept || https.interceptDomains.length > 0
}

/** The environment and the user, which are known before any file is read. */
export interface UserEnvironment {
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly root: boolean
  /** The home directory; undefined for a user without one, as in a container that runs under an arbitrary user ID. */
  readonly home: string | undefined
  readonly systemCacheWritable: boolean
  /** Whether a path exists. Only commands have it, because they look for the directory of the service. */
  readonly exists?: ((path: string) => boolean) | undefined
}

/** The cache directory of a service that runs as root or can write to this directory. */
const systemCacheDirectory = '/var/cache/cachesvc'

/** The cache directory when none is named. */
export function unnamedCacheDirectory(surroundings: UserEnvironment): string {
  const { root, systemCacheWritable, exists } = surroundings
  if (root || systemCacheWritable) return systemCacheDirectory
  const own = ownCacheDirectory(surroundings)
  const ofService = exists !== undefined && !exists(own) && exists(systemCacheDirectory)
  return ofService ? systemCacheDirectory : own
}

/** The directory in which the service of an ordinary user keeps its files. */
function ownCacheDirectory({ environment, home }: UserEnvironment): string {
  // The XDG base directory specification says that a relative path in the variable is to be ignored.
  const xdg = environment['XDG_CACHE_HOME']
  if (xdg?.startsWith('/')) return join(xdg, 'cachesvc')
  return home === undefined ? systemCacheDirectory : join(home, '.cache', 'cachesvc')
}

/** The environment and the user of this process. `serves` is true for a service, and false for a command beside one. */
export function surroundings({ serves }: { readonly serves: boolean }): UserEnvironment {
  return {
    environment: process.env,
    root: process.getuid?.() === 0,
    home: attempt(() => nonEmpty(homedir())),
    systemCacheWritable:
      attempt(() => accessSync(systemCacheDirectory, constants.W_OK) ?? true) ?? false,
    exists: serves ? undefined : existsSync,
  }
}

/** The directory that CACHESVC_CACHE_DIR names, made absolute; undefined when the variable is unset or empty. */
export function namedCacheDirectory({ environment }: UserEnvironment): string | undefined {
  const named = nonEmpty(environment['CACHESVC_CACHE_DIR'])
  return named === undefined ? undefined : resolve(named)
}

/** The value of a variable. An empty variable counts as unset. */
export function nonEmpty(text: string | undefined): string | undefined {
  return text === '' ? undefined : text
}

/** Names of changed settings that wait for a restart. `authority` says whether a CA was opened. */
export function needRestart(
  started: Config,
  wanted: Config,
  authority = needsAuthority(started),
): readonly string[] {
  const names = waitingSettings(fixed, withFixed(fixed, started, wanted), wanted)
  // The service opens the CA when it starts and never later.
  return !authority && needsAuthority(wanted) ? [...names, 'https.intercept'] : names
}

/** The settings of a running service after a reload: those of `wanted`, and those of `started` that need a restart. */
export function inForce(
  started: Config,
  wanted: Config,
  authority = needsAuthority(started),
): Config {
  const config = withFixed(fixed, started, wanted)
  if (authority) return config
  return { ...config, https: { ...config.https, intercept: false, interceptDomains: [] } }
}

const fixed = fixedPlaces(settings)
