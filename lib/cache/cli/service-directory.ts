/**
 * Checks whether the unit of systemd lets the service write to its cache directory. With ProtectSystem=strict the service may write only
 * to /var/cache/cachesvc and to ReadWritePaths. A command of an administrator is not confined so, and has to ask systemd.
 */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { letServiceWrite } from '../store/disk/health.ts'

const unit = 'cachesvc.service'
const longest = 5000

/** The problem and its solution; undefined when there is none, when systemd has no such unit, or when it does not answer. Never throws. */
export async function serviceDirectoryProblem(directory: string): Promise<string | undefined> {
  const properties = '--property=LoadState,ProtectSystem,ReadWritePaths,CacheDirectory'
  try {
    const { stdout } = await promisify(execFile)('systemctl', ['show', properties, unit], {
      timeout: longest,
    })
    return confinementProblem(stdout, directory)
  } catch {
    return undefined
  }
}

/** The same problem, from the output of `systemctl show`. */
export function confinementProblem(shown: string, directory: string): string | undefined {
  const property = (name: string) =>
    new RegExp(`^${name}=(.*)$`, 'm').exec(shown)?.[1]?.split(' ') ?? []
  if (property('LoadState')[0] !== 'loaded' || property('ProtectSystem')[0] !== 'strict') {
    return undefined
  }
  const writable = [
    ...property('ReadWritePaths').map(path => path.replace(/^[-+]*/, '')),
    ...property('CacheDirectory').map(name => `/var/cache/${name}`),
  ]
  const within = (path: string) =>
    path !== '' && (path === '/' || `${directory}/`.startsWith(`${path.replace(/\/$/, '')}/`))
  if (writable.some(within)) return undefined
  return `cache_directory: ${unit} may not write to ${directory}; ${letServiceWrite(directory)}`
}
