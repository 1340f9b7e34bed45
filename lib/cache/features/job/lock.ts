/**
 * The lock file of a job: the list of what its command was given. This file has the decisions; it knows neither files nor sockets.
 *
 * # Facts
 * - A store that has everything in the list can give the same indexes again, so that the same packages are chosen, and no origin is asked.
 * - A store that lacks some of it, as after CI threw the directory away, cannot: archives keep no former indexes. Then the job gets today's
 *   indexes, and only the packages are compared.
 */
import { hash } from 'node:crypto'
import { packageFile } from '../../archive/package-file.ts'
import { classify } from '../../archive/path.ts'

/** An answer in a build, as `cachesvc build show --json` says it. One without a digest is a status. */
export interface RecordedAnswer {
  readonly url: string
  readonly sha256?: string
}

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
export function isHeldByLock(url: string): boolean {
  const { kind, ofSuite = false } = classify(new URL(url).pathname)
  return kind === 'pool' || (kind === 'other' && !ofSuite)
}

/** A line for each package that a job was given and that is not the recorded one. */
export function differences(
  lock: readonly RecordedAnswer[],
  given: readonly RecordedAnswer[],
): readonly string[] {
  const digests = new Map(lock.map(({ url, sha256 }) => [url, sha256]))
  const versions = new Map<string, string>()
  for (const { url } of lock) {
    const file = packageFile(url)
    if (file !== undefined) versions.set(file.name, file.version)
  }
  return given
    .filter(
      ({ url, sha256 }) => sha256 !== undefined && isHeldByLock(url) && digests.get(url) !== sha256,
    )
    .map(({ url, sha256 }) => {
      const known = digests.get(url)
      if (known !== undefined) return `${url}: SHA-256 ${known} is recorded, it was ${sha256}`
      const version = versions.get(packageFile(url)?.name ?? '')
      return `${url}: not recorded${version === undefined ? '' : `, but version ${version}`}`
    })
    .sort()
}
