/**
 * The command `cachesvc verify-repos`: checks all stored files, shows its progress, removes wrong files and reports.
 */

import { systemClock } from '../../../async/clock.ts'
import { countOf, size } from '../../../figures.ts'
import { ownersCommand } from '../../../files/directory-owner.ts'
import { jsonText } from '../../../json.ts'
import { createLog } from '../../../log/log.ts'
import { type ExitCode, exitCodes, print } from '../../../program.ts'
import { ProgressLine, printComplaint } from '../../cli/base/terminal.ts'
import type { Config } from '../../config/config.ts'
import { Evictor, type Fate, fateFacts } from './remove-wrong.ts'
import { type Progress, reportText, type VerificationReport, type WrongFile } from './report.ts'
import { verifyInThread } from './thread.ts'

/**
 * Runs the command. The exit code is a failure when a file was wrong or could not be read, or when a Release file is not signed as the
 * settings require. `json` selects a report in JSON; `dryRun` removes no file.
 */
export async function verifyRepos(
  { cacheDirectory: directory, archives, suites }: Config,
  { json, dryRun }: { readonly json: boolean; readonly dryRun: boolean },
): Promise<ExitCode> {
  const log = createLog({ level: 'warn', to: process.stderr })
  const evictor = new Evictor({ directory, clock: systemClock, log })
  const line = new ProgressLine(process.stderr, systemClock)
  const stop = new AbortController()
  const interrupted = (): void => stop.abort(new Error('interrupted'))
  process.once('SIGINT', interrupted)
  process.once('SIGTERM', interrupted)
  const removals: Promise<Fate>[] = []
  let report: VerificationReport
  try {
    report = await verifyInThread({
      directory,
      rate: 0,
      settings: { archives, suites },
      signal: stop.signal,
      log,
      onProgress: progress => line.show(progressText(progress)),
      onWrong: wrong => {
        if (!dryRun) removals.push(evictor.evict(wrong))
      },
    })
  } finally {
    line.end()
    await Promise.all(removals)
    process.off('SIGINT', interrupted)
    process.off('SIGTERM', interrupted)
  }
  // `onWrong` was called in the order of the report, so the fates have the same order.
  const fates = await Promise.all(removals)
  const facts = new Map(report.wrong.map((one, i) => [one, fateFacts(fates[i] ?? onlyReported)]))
  if (json) await print(jsonText(verificationResult({ report, facts, directory, dryRun })))
  else if (report.files === 0) await print(`${directory} holds nothing to check\n`)
  else await print(reportText(report, one => fateWords(facts.get(one)?.kept)))
  const refused = report.repositories.some(one => one.refused !== undefined)
  const { unreadable } = report.unchecked
  if (unreadable > 0) {
    const { unreadableBecause: why = 'unknown' } = report
    await printComplaint(`${countOf(unreadable, 'file')} could not be read and checked: ${why}`)
    if (why === 'permission denied') await printComplaint(ownersCommand(directory))
  }
  const right = report.wrong.length === 0 && unreadable === 0 && !refused
  return right ? exitCodes.success : exitCodes.failure
}

/** The JSON that `cachesvc verify-repos --json` prints. */
export type VerificationResult = ReturnType<typeof verificationResult>

function verificationResult({
  report: { version, ...rest },
  facts,
  directory,
  dryRun,
}: {
  readonly report: VerificationReport
  readonly facts: ReadonlyMap<WrongFile, ReturnType<typeof fateFacts>>
  readonly directory: string
  readonly dryRun: boolean
}) {
  const wrong = [...facts].map(([one, fate]) => ({ ...one, ...fate }))
  return { version, directory, dryRun, ...rest, wrong }
}

const onlyReported: Fate = { evicted: false, because: 'only reported' }

function fateWords(kept: string | undefined): string {
  return kept === undefined ? 'removed' : `not removed: ${kept}`
}

const barWidth = 24

function progressText({ doing, done, total, wrong }: Progress): string {
  if (doing === 'listing') return 'reading the list of what is stored'
  const share = total === 0 ? 0 : Math.min(1, done / total)
  const bar = '#'.repeat(Math.round(share * barWidth)).padEnd(barWidth, '.')
  return `[${bar}] ${Math.floor(share * 100)} %  ${size(done)} of ${size(total)}, ${wrong} wrong`
}
