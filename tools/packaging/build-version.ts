/**
 * The version of a build. Between releases the version in package.json ends with `-git`; a build then adds the time and the name of the
 * commit, so that a later one is newer to dpkg: `1.1.0-git20261126143217.b362a444`.
 */

import { execFileSync } from 'node:child_process'
import type { Seconds } from '../../lib/async/clock.ts'
import { attempt } from '../../lib/errors.ts'

interface BuiltFrom {
  readonly version: string
  /** The time of every built file: SOURCE_DATE_EPOCH, or else the time of the commit, or outside a clone the present. */
  readonly at: Seconds
}

/** The version from package.json and from the commit that is checked out. Outside of a clone it stays as it is. */
export function buildVersion(version: string, root: string): BuiltFrom {
  const commit = git(root, 'log', '-1', '--abbrev=8', '--format=%ct %h')
  const [, seconds, name] = /^(\d+) ([0-9a-f]+)$/.exec(commit ?? '') ?? []
  const committed = seconds === undefined ? undefined : Number(seconds)
  const epoch = process.env['SOURCE_DATE_EPOCH']
  const at = epoch === undefined ? (committed ?? Math.floor(Date.now() / 1000)) : Number(epoch)
  if (committed === undefined || !version.endsWith('-git')) return { version, at }
  const time = new Date(committed * 1000).toISOString().replace(/\D/g, '').slice(0, 14)
  const changed = isChanged(root) ? '.changed' : ''
  return { version: `${version}${time}.${name}${changed}`, at }
}

/** The tags of the commit that is checked out; none outside of a clone. */
export function tagsOfCommit(root: string): string[] {
  return git(root, 'tag', '--points-at', 'HEAD')?.split('\n') ?? []
}

/** Whether a file that git knows differs from the commit. */
export function isChanged(root: string): boolean {
  return git(root, 'status', '--porcelain', '--untracked-files=no') !== ''
}

function git(root: string, ...words: readonly string[]): string | undefined {
  const line = ['-C', root, ...words]
  const found = attempt(() => execFileSync('git', line, { timeout: 20_000, stdio: 'pipe' }))
  return found?.toString().trim()
}
