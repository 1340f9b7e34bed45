/**
 * What a package of any kind is built from, and where it is written.
 */
import type { Seconds } from '../../async/clock.ts'
import type { ProgramFile } from './program-files.ts'

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
