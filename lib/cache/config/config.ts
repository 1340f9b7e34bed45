/**
 * The configuration of cachesvc as the rest of the service sees it, and which changes wait for a restart: the values of settings.ts
 * and what is computed from them and the environment.
 */

import { accessSync, constants, existsSync } from 'node:fs'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type { ValuesOf } from '../../config/settings.ts'
import { attempt } from '../../errors.ts'
import type { ListenAddress } from '../../http/server/listen.ts'
import { builtInArchives } from './known-archives.ts'
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
  return { ...settings, cacheDirectory, listen, listenSecure, knownArchives: builtInArchives() }
}

/** The first is the main one: the one that examples and `Location` hints name. */
function listenOf(file: FileValues, override: Overrides['listen']): readonly ListenAddress[] {
  if (override !== undefined && override.length > 0) return override
  if (file.listen !== undefined && file.listen.length > 0) return file.listen
  const ports = new Set([file.listenPort ?? defaultPort, ...file.alternativePorts])
  return [...ports].map(port => ({ address: file.listenAddress, port }))
}

/** Whether these settings take a CA at all; `secure`: whether there is a listener for TLS. */
export function needsAuthority(
  { https, listenSecure }: Config,
  secure = listenSecure !== undefined,
): boolean {
  return secure || https.intercept || https.interceptDomains.length > 0
}

/** Environment and user, as known before any file is read. */
export interface UserEnvironment {
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly root: boolean
  /** Undefined for a user without one, as in a container with any user ID. */
  readonly home: string | undefined
  readonly systemCacheWritable: boolean
  /** Whether a path is there; for commands, which look for the directory of the service. */
  readonly exists?: ((path: string) => boolean) | undefined
}

/** The cache directory of a service that runs as root or was given this directory. */
const systemCacheDirectory = '/var/cache/cachesvc'

/** The cache directory when none is named. A function of the facts alone. */
export function unnamedCacheDirectory(surroundings: UserEnvironment): string {
  const { root, systemCacheWritable, exists } = surroundings
  if (root || systemCacheWritable) return systemCacheDirectory
  const own = ownCacheDirectory(surroundings)
  const ofService = exists !== undefined && !exists(own) && exists(systemCacheDirectory)
  return ofService ? systemCacheDirectory : own
}

/** Where an ordinary user's service keeps its files. */
function ownCacheDirectory({ environment, home }: UserEnvironment): string {
  // XDG base directory specification: a relative path in the variable is to be ignored.
  const xdg = environment['XDG_CACHE_HOME']
  if (xdg?.startsWith('/')) return join(xdg, 'cachesvc')
  return home === undefined ? systemCacheDirectory : join(home, '.cache', 'cachesvc')
}

/** Asks the machine. `serves`: whether it is for a service, not for a command beside one. */
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

/** The directory named by CACHESVC_CACHE_DIR, made absolute; undefined when it is unset or empty. */
export function namedCacheDirectory({ environment }: UserEnvironment): string | undefined {
  const named = nonEmpty(environment['CACHESVC_CACHE_DIR'])
  return named === undefined ? undefined : resolve(named)
}

/** Variables set to nothing count as unset. */
export function nonEmpty(text: string | undefined): string | undefined {
  return text === '' ? undefined : text
}

/** Names of changed settings that wait for a restart, as they stand in the file. `authority`: whether a CA was opened. */
export function needRestart(
  started: Config,
  wanted: Config,
  authority = needsAuthority(started),
): readonly string[] {
  const fixed: ReadonlyArray<readonly [name: string, of: (config: Config) => unknown]> = [
    ['cache_directory', config => config.cacheDirectory],
    ['listen', config => config.listen],
    ['listen_port_secure', config => config.listenSecure],
    ['https', ({ https }) => ({ ...fixedHttps(https), originCa: [] })],
    ['mdns', config => config.mdns],
    ['parent_proxy', config => config.parentProxy],
    ['https.origin_ca', config => config.https.originCa],
    ['limits', ({ limits }) => ({ ...limits, perClient: undefined })],
    ['shared_store', ({ sharedStore }) => ({ ...sharedStore, expire: 0 })],
    ['suites.memory', config => config.suites.memory],
    ['timeouts', ({ timeouts }) => ({ ...timeouts, revalidation: 0, tunnel: 0 })],
  ]
  const changed = fixed.filter(([, of]) => !isDeepStrictEqual(of(started), of(wanted)))
  const names = changed.map(([name]) => name)
  // The CA is opened at the start and never later.
  return !authority && needsAuthority(wanted) ? [...names, 'https.intercept'] : names
}

/** What a running service takes over of the settings it is given on reload. */
export function inForce(
  started: Config,
  wanted: Config,
  authority = needsAuthority(started),
): Config {
  const { cacheDirectory, listen, listenSecure, parentProxy, mdns, limits } = started
  const { revalidation, tunnel } = wanted.timeouts
  return {
    ...wanted,
    cacheDirectory,
    listen,
    listenSecure,
    parentProxy,
    mdns,
    limits: { ...limits, perClient: wanted.limits.perClient },
    sharedStore: { ...started.sharedStore, expire: wanted.sharedStore.expire },
    suites: { ...wanted.suites, memory: started.suites.memory },
    timeouts: { ...started.timeouts, revalidation, tunnel },
    https: {
      ...wanted.https,
      ...fixedHttps(started.https),
      ...(!authority && { intercept: false, interceptDomains: [] }),
    },
  }
}

/** Settings of HTTPS that are used at the start alone. */
function fixedHttps({ cert, key, password, enableCrl, originCa }: HttpsConfig) {
  return { cert, key, password, enableCrl, originCa }
}
