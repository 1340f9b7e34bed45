/**
 * Reads environment and home directory, and chooses the default cache directory.
 */
import { accessSync, constants } from 'node:fs'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'

/** Environment and user, as known before any file is read. */
export interface Surroundings {
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly root: boolean
  /** Undefined for a user without one, as in a container with any user ID. */
  readonly home: string | undefined
  /** Whether the system's cache directory exists and can be written to. */
  readonly systemCacheWritable: boolean
}

/** The cache directory of a service that runs as root or was given this directory. */
const systemCacheDirectory = '/var/cache/cachesvc'

/** The default cache directory. A function of the facts alone, so that it can be shown in advance. */
export function defaultCacheDirectory(surroundings: Surroundings): string {
  const { environment, root, home, systemCacheWritable } = surroundings
  const named = namedCacheDirectory(surroundings)
  if (named !== undefined) return named
  if (root || systemCacheWritable) return systemCacheDirectory
  // XDG base directory specification: a relative path in the variable is to be ignored.
  const xdg = environment['XDG_CACHE_HOME']
  if (xdg?.startsWith('/')) return join(xdg, 'cachesvc')
  return home === undefined ? systemCacheDirectory : join(home, '.cache', 'cachesvc')
}

/** Asks the machine. */
export function surroundings(): Surroundings {
  return {
    environment: process.env,
    root: process.getuid?.() === 0,
    home: homeDirectory(),
    systemCacheWritable: exists(systemCacheDirectory, constants.W_OK),
  }
}

/** The directory named by CACHESVC_CACHE_DIR, made absolute; undefined when it is unset or empty. */
export function namedCacheDirectory({ environment }: Surroundings): string | undefined {
  const named = nonEmpty(environment['CACHESVC_CACHE_DIR'])
  return named === undefined ? undefined : resolve(named)
}

/** Variables set to nothing count as unset. */
export function nonEmpty(text: string | undefined): string | undefined {
  return text === '' ? undefined : text
}

/** Whether there is something at `path` this process may use in the given way. */
export function exists(path: string, mode = constants.F_OK): boolean {
  try {
    accessSync(path, mode)
    return true
  } catch {
    return false
  }
}

function homeDirectory(): string | undefined {
  try {
    return nonEmpty(homedir())
  } catch {
    return undefined
  }
}
