/**
 * Gives a tree of files modes and times that depend neither on the sources nor on the umask nor on the clock, so that a package of it has
 * the same bytes wherever it is built.
 */
import { chmodSync, lstatSync, lutimesSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Seconds } from '../../async/clock.ts'

/** Files are 0644, or 0755 when their owner may run them; directories are 0755. All have the time `at`. */
export function settle(path: string, at: Seconds): void {
  const found = lstatSync(path)
  if (found.isDirectory()) for (const name of readdirSync(path)) settle(join(path, name), at)
  if (!found.isSymbolicLink()) {
    chmodSync(path, found.isDirectory() || (found.mode & 0o100) !== 0 ? 0o755 : 0o644)
  }
  lutimesSync(path, at, at)
}
