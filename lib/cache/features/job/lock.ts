/**
 * The lock file of a job: the list of what its command was given. This file has the decisions; it knows neither files nor sockets.
 *
 * # Facts
 * - A store that has everything in the list can give the same indexes again, so that the same packages are chosen, and no origin is asked.
 * - A store that lacks some of it, as after CI threw the directory away, cannot: archives keep no former indexes. Then the job gets today's
 *   indexes, and only the packages are compared.
 */
import { hash } from 'node:crypto'
import { classify } from '../../archive/path.ts'
import { packageFile } from '../../store/upkeep/versions.ts'
import { type Build, isFile } from '../builds/build.ts'

/** The name of the build that records a job. */
export const recordingName = 'job'

const lockedPrefix = 'lock-'

/** The name of the build that a lock file becomes in the store. Another text is another build. */
export function lockedName(text: string): string {
  return `${lockedPrefix}${hash('sha256', text).slice(0, 16)}`
}

/** Whether a build was made of a lock file. */
export function isLockedName(name: string): boolean {
  return name.startsWith(lockedPrefix)
}

/** Whether a lock holds the content of this URL. Release files and indexes change without a change of any package. */
function isHeld(url: string): boolean {
  const { kind, ofSuite = false } = classify(new URL(url).pathname)
  return kind === 'pool' || (kind === 'other' && !ofSuite)
}

/** A line for each package that a job was given and that is not the recorded one. */
export function differences(lock: Build, given: Build): readonly string[] {
  const recorded = new Map<string, string>()
  for (const [url, answer] of lock.answers) {
    const file = isFile(answer) ? packageFile(url) : undefined
    if (file !== undefined) recorded.set(file.name, file.version)
  }
  return [...given.answers]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([url, answer]) => {
      if (!isFile(answer) || !isHeld(url)) return []
      const known = lock.answers.get(url)
      if (known === undefined || !isFile(known)) return [`${url}: ${otherVersion(url, recorded)}`]
      return known.digest === answer.digest
        ? []
        : [`${url}: SHA-256 ${known.digest} is recorded, it was ${answer.digest}`]
    })
}

/** Says that a URL is not in the lock, and which version of the package is. */
function otherVersion(url: string, recorded: ReadonlyMap<string, string>): string {
  const version = recorded.get(packageFile(url)?.name ?? '')
  return version === undefined ? 'not recorded' : `not recorded, but version ${version}`
}
