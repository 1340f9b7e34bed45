/**
 * The lock file of a job: the list of what its command was given, which is a build of the store (`cachesvc build`).
 *
 * # Facts
 * - A store that has everything in the list can give the same indexes again, so that the same packages are chosen, and no origin is asked.
 * - A store that lacks some of it, as after CI threw the directory away, cannot: archives keep no former indexes. Then the job gets today's
 *   indexes, and only the packages are compared.
 */
import { hash } from 'node:crypto'
import { valueUnlessMissing } from '../../../errors.ts'
import { countOf } from '../../../figures.ts'
import { writeFileAtomically } from '../../../files/atomic-file.ts'
import { readBounded } from '../../../files/bounded-file.ts'
import { exitCodes } from '../../../program.ts'
import { packageFile } from '../../archive/package-file.ts'
import { classify } from '../../archive/path.ts'
import { printComplaint } from '../../cli/base/terminal.ts'
import type { OwnProxy } from './own-proxy.ts'

/** A build, as `cachesvc build show --json` says it. */
interface ShownBuild {
  readonly answers: readonly RecordedAnswer[]
  /** The contents that the store lacks, and answers that could not be recorded, in words. */
  readonly problems: readonly string[]
}

/** An answer in a build. One without a digest is a status. */
interface RecordedAnswer {
  readonly url: string
  readonly sha256?: string
}

const mostLockBytes = 64 * 1024 * 1024
const recordingName = 'job'
const lockedPrefix = 'lock-'
/** The reasons of answers in a locked build that it does not have. */
const lockRefusals: ReadonlySet<string> = new Set(['not-recorded', 'not-kept'])

/** The build that the requests of a job name, before and after its command. */
export interface JobLock {
  readonly name: string
  /** Whether it gives what the lock has. If not, it records today's answers. */
  readonly replays: boolean
  /** Compares what the command was given with the lock, or writes the lock. Resolves to lines about what is wrong. */
  finish(code: number): Promise<readonly string[]>
}

/** Prepares the build: the locked one when the store has all of it, else a recording. */
export async function openLock(proxy: OwnProxy, path: string): Promise<JobLock> {
  /** Runs an action of `cachesvc build`. Throws when it fails, unless it may. */
  const build = (act: string, about: object, options?: { readonly mayFail: true }) =>
    proxy.ask({ do: 'build', act, json: true, ...about }, options)
  const mayFail = true
  const recording = { name: recordingName }

  const shown = async (name: string): Promise<ShownBuild | undefined> => {
    const { code, out } = await build('show', { name }, { mayFail })
    return code === exitCodes.success ? JSON.parse(out) : undefined
  }
  /** The build of a lock file, which becomes one of the store unless it is. */
  const lockedBuild = async (name: string): Promise<ShownBuild> => {
    const known = await shown(name)
    if (known !== undefined) return known
    await build('import', { name, file: path })
    return (await shown(name)) ?? { answers: [], problems: ['it was not imported'] }
  }
  /** Writes the recording as a lock file. The store keeps what it names from then on, and no longer what former ones named. */
  const write = async (): Promise<void> => {
    const { out: text } = await build('text', recording)
    await writeFileAtomically(path, text)
    const name = lockedName(text)
    const { answers } = await lockedBuild(name)
    const builds: readonly { readonly name: string }[] = JSON.parse((await build('list', {})).out)
    const former = builds.filter(one => one.name !== name && /^(lock-|job$)/.test(one.name))
    for (const one of former) await build('remove', one, { mayFail })
    await printComplaint(`${path} is written: ${countOf(answers.length, 'answer')}`, 'info')
  }

  const file = await valueUnlessMissing(readBounded(path, mostLockBytes))
  const held = file && lockedName(file.bytes.toString())
  const replays = held !== undefined && (await lockedBuild(held)).problems.length === 0
  if (!replays) {
    await build('remove', recording, { mayFail })
    await build('record', recording)
  }
  return {
    name: replays ? held : recordingName,
    replays,
    finish: async code => {
      if (replays) {
        const refused = proxy.requests.filter(
          ({ because, target }) => lockRefusals.has(because) && isHeldByLock(target),
        )
        return listed(path, [...new Set(refused.map(({ target }) => `${target}: not recorded`))])
      }
      if (held === undefined && code !== exitCodes.success) {
        await printComplaint(`the command failed, so ${path} is not written`, 'warn')
        return []
      }
      const { code: locked, complaints } = await build('lock', recording, { mayFail })
      if (locked !== exitCodes.success)
        return held === undefined ? [`${path} is not written: ${complaints.join(' ')}`] : []
      if (held !== undefined) {
        const given = (await shown(recordingName))?.answers ?? []
        return listed(path, differences((await lockedBuild(held)).answers, given))
      }
      for (const problem of complaints) await printComplaint(`not in ${path}: ${problem}`, 'warn')
      await write()
      return []
    },
  }
}

/** The name of the build that a lock file becomes in the store. Another text is another build. */
function lockedName(text: string): string {
  return `${lockedPrefix}${hash('sha256', text).slice(0, 16)}`
}

function listed(path: string, lines: readonly string[]): readonly string[] {
  if (lines.length === 0) return []
  const verb = lines.length === 1 ? 'is' : 'are'
  return [
    `${countOf(lines.length, 'file')} ${verb} not as ${path} has it; remove that lock to have it written again`,
    ...lines.map(line => `  ${line}`),
  ]
}

/** Whether a lock holds the content of this URL. Release files and indexes change without a change of any package. */
function isHeldByLock(url: string): boolean {
  const { kind, ofSuite = false } = classify(new URL(url).pathname)
  return kind === 'pool' || (kind === 'other' && !ofSuite)
}

/** A line for each package that a job was given and that is not the recorded one. */
function differences(
  lock: readonly RecordedAnswer[],
  given: readonly RecordedAnswer[],
): readonly string[] {
  const digests = new Map(lock.map(({ url, sha256 }) => [url, sha256]))
  const files = lock.flatMap(({ url }) => packageFile(url) ?? [])
  const versions = new Map(files.map(({ name, version }) => [name, version]))
  return given
    .filter(
      ({ url, sha256 }) => sha256 !== undefined && isHeldByLock(url) && digests.get(url) !== sha256,
    )
    .map(({ url, sha256 }) => {
      const known = digests.get(url)
      if (known !== undefined) return `${url}: SHA-256 ${known} is recorded, it was ${sha256}`
      const version = versions.get(packageFile(url)?.name ?? '')
      return `${url}: not recorded${version === undefined ? '' : `; the lock has version ${version}`}`
    })
    .sort()
}
