/**
 * The command `cachesvc verify-repos`: checks everything stored, shows how far it is, removes what is wrong and reports.
 */
import { systemClock } from '../../async/clock.ts'
import { createLog } from '../../log/log.ts'
import { type ExitCode, exitCodes, print } from '../../program.ts'
import { ProgressLine } from '../cli/terminal.ts'
import type { Config } from '../config/config.ts'
import { size } from '../figures.ts'
import { Evictor, fateFacts } from './remove-wrong.ts'
import { type Progress, reportText, type VerificationReport, type Wrong } from './report.ts'
import { verifyInThread } from './thread.ts'

interface VerifyOptions {
  /** Report as JSON. */
  readonly json: boolean
  /** Remove nothing. */
  readonly dryRun: boolean
}

/** A failure when something was wrong, or not signed as the settings require it. */
export async function verifyRepos(
  config: Config,
  { json, dryRun }: VerifyOptions,
): Promise<ExitCode> {
  const directory = config.cacheDirectory
  const log = createLog({ level: 'warn', to: process.stderr })
  const evictor = new Evictor({ directory, clock: systemClock, log })
  const line = new ProgressLine(process.stderr)
  const stop = new AbortController()
  const interrupted = (): void => stop.abort(new Error('interrupted'))
  process.once('SIGINT', interrupted)
  process.once('SIGTERM', interrupted)
  let report: VerificationReport
  try {
    report = await verifyInThread({
      directory,
      rate: 0,
      settings: { archives: config.archives, suites: config.suites },
      signal: stop.signal,
      log,
      onProgress: progress => {
        line.show(progressText(progress))
      },
      onWrong: wrong => {
        if (!dryRun) evictor.evict(wrong)
      },
    })
  } finally {
    line.end()
    await evictor.finished()
    process.off('SIGINT', interrupted)
    process.off('SIGTERM', interrupted)
  }
  const fateOf = (wrong: Wrong) =>
    fateFacts(evictor.fateOf(wrong) ?? { evicted: false, because: 'only reported' })
  if (json) {
    const { version, ...rest } = report
    const wrong = report.wrong.map(one => ({ ...one, ...fateOf(one) }))
    const found = { version, directory, dryRun, ...rest, wrong }
    await print(`${JSON.stringify(found, undefined, 2)}\n`)
  } else if (report.files === 0) await print(`${directory} holds nothing to check\n`)
  else await print(reportText(report, wrong => fateWords(fateOf(wrong))))
  const refused = report.repositories.some(one => one.refused !== undefined)
  return report.wrong.length === 0 && !refused ? exitCodes.success : exitCodes.failure
}

function fateWords({ kept }: ReturnType<typeof fateFacts>): string {
  return kept === undefined ? 'removed' : `not removed: ${kept}`
}

const barWidth = 24

function progressText({ doing, done, total, wrong }: Progress): string {
  if (doing === 'listing') return 'reading the list of what is stored'
  const share = total === 0 ? 0 : Math.min(1, done / total)
  const bar = '#'.repeat(Math.round(share * barWidth)).padEnd(barWidth, '.')
  return `[${bar}] ${Math.floor(share * 100)} %  ${size(done)} of ${size(total)}, ${wrong} wrong`
}
