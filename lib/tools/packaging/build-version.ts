/**
 * The version of a build. Between releases the version in package.json ends with `-git`; a build then adds the time and the name of the
 * commit, so that a later one is newer to dpkg: `0.2.0-git20261126143217.b362a444`.
 */
import { execFileSync } from 'node:child_process'
import type { Seconds } from '../../async/clock.ts'

interface BuiltFrom {
  readonly version: string
  /** The time of the commit; undefined outside of a clone. */
  readonly at: Seconds | undefined
}

/** The version from package.json and from the commit that is checked out. Outside of a clone it stays as it is. */
export function buildVersion(version: string, root: string): BuiltFrom {
  const commit = git(root, 'log', '-1', '--abbrev=8', '--format=%ct %h')
  const [, seconds, name] = /^(\d+) ([0-9a-f]+)$/.exec(commit ?? '') ?? []
  if (seconds === undefined || name === undefined) return { version, at: undefined }
  const at = Number(seconds)
  if (!version.endsWith('-git')) return { version, at }
  const time = new Date(at * 1000).toISOString().replace(/\D/g, '').slice(0, 14)
  const changed = git(root, 'status', '--porcelain', '--untracked-files=no') ? '.changed' : ''
  return { version: `${version}${time}.${name}${changed}`, at }
}

function git(root: string, ...words: readonly string[]): string | undefined {
  try {
    return execFileSync('git', ['-C', root, ...words], {
      timeout: 20_000,
      stdio: ['ignore', 'pipe', 'ignore'],
    })
      .toString()
      .trim()
  } catch {
    return undefined
  }
}
