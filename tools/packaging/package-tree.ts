/**
 * The tree of files that a package of any kind is packed from. Its modes and times depend neither on the sources nor on the umask
 * nor on the clock, so that a package has the same bytes wherever it is built.
 */
import { chmodSync, lstatSync, lutimesSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import type { Seconds } from '../../lib/async/clock.ts'
import type { ProgramFile } from './program-files.ts'

/** What a package of any kind is built from, and where it is written. */
export interface PackageBuild {
  /** The root of the repository. */
  readonly root: string
  readonly output: string
  /** The version as package.json writes it, with the commit where the build is of none that was released. */
  readonly version: string
  /** The program with what it needs when it runs. */
  readonly files: readonly ProgramFile[]
  /** The time of every file, since 1970. */
  readonly at: Seconds
}

/** Files become 0644, or 0755 when their owner may run them; directories become 0755. All get the time `at`. */
export function settle(path: string, at: Seconds): void {
  const found = lstatSync(path)
  if (found.isDirectory()) for (const name of readdirSync(path)) settle(join(path, name), at)
  if (!found.isSymbolicLink()) {
    chmodSync(path, found.isDirectory() || (found.mode & 0o100) !== 0 ? 0o755 : 0o644)
  }
  lutimesSync(path, at, at)
}

/** Writes a file, and the directories above it. */
export function put(path: string, content: string | Buffer, mode = 0o644): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o755 })
  writeFileSync(path, content, { mode })
}

/** RFC 1952 without a time, so that equal content is equally packed. */
export function packedContent(content: Buffer): Buffer {
  return gzipSync(content, { level: 9 })
}
