/**
 * `cachesvc verify-repos`: checks everything stored, shows how far it is, removes what is wrong and reports.
 */
import { systemClock } from '../../async/clock.ts'
import { createLog } from '../../log/log.ts'
import { type ExitCode, exitCodes, print } from '../../program.ts'
import type { Config } from '../config/config.ts'
import { size } from '../operations/figures.ts'
import { Evictor, type Fate } from './eviction.ts'
import { type Progress, reportText, type VerificationReport, type Wrong } from './report.ts'
import { verifyInThread } from './thread.ts'

export interface VerifyOptions {
  /** Report as JSON. */
  readonly json: boolean
  /** Remove nothing. */
  readonly dryRun: boolean
}

/** Success when nothing was wrong, a failure when something was. */
export async function verifyRepos(
  config: Config,
  { json, dryRun }: VerifyOptions,
): Promise<ExitCode> {
  const directory = config.cacheDirectory
  const log = createLog({ level: 'warn', to: process.stderr })
  const evictor = new Evictor({ directory, clock: systemClock, log })
  const bar = process.stderr.isTTY ? new ProgressBar(process.stderr) : undefined
  const stop = new AbortController()
  const interrupted = (): void => stop.abort(new Error('interrupted'))
  process.once('SIGINT', interrupted)
  process.once('SIGTERM', interrupted)
  let report: VerificationReport
  try {
    report = await verifyInThread({
      directory,
      rate: 0,
      signal: stop.signal,
      log,
      onProgress: progress => bar?.show(progress),
      onWrong: wrong => {
        if (!dryRun) evictor.evict(wrong)
      },
    })
  } finally {
    bar?.clear()
    await evictor.finished()
    process.off('SIGINT', interrupted)
    process.off('SIGTERM', interrupted)
  }
  const fates = fatesByFile(evictor)
  const fateOf = (wrong: Wrong): Fate =>
    fates.get(`${wrong.key} ${wrong.digest}`) ?? { evicted: false, because: 'only reported' }
  const text = json
    ? `${JSON.stringify(reportJson(report, { directory, dryRun, fateOf }), undefined, 2)}\n`
    : report.files === 0
      ? `${directory} holds nothing to check\n`
      : reportText(report, wrong => fateText(fateOf(wrong)))
  await print(text)
  return report.wrong.length === 0 ? exitCodes.success : exitCodes.failure
}

/** The report for programs: that of the check, with what became of each wrong file. */
export function reportJson(
  report: VerificationReport,
  about: {
    readonly directory: string
    readonly dryRun: boolean
    readonly fateOf: (wrong: Wrong) => Fate
  },
): object {
  const { version, ...rest } = report
  const wrong = report.wrong.map(one => {
    const fate = about.fateOf(one)
    return { ...one, evicted: fate.evicted, ...(fate.evicted ? {} : { kept: fate.because }) }
  })
  return { version, directory: about.directory, dryRun: about.dryRun, ...rest, wrong }
}

function fateText(fate: Fate): string {
  return fate.evicted ? 'removed' : `not removed: ${fate.because}`
}

/** The report is a copy of what was told while the check ran. */
function fatesByFile(evictor: Evictor): ReadonlyMap<string, Fate> {
  return new Map([...evictor.fates].map(([{ key, digest }, fate]) => [`${key} ${digest}`, fate]))
}

const barWidth = 24

/** One line that is written over again. */
class ProgressBar {
  readonly #to: NodeJS.WriteStream
  #shown = false

  constructor(to: NodeJS.WriteStream) {
    this.#to = to
  }

  show({ doing, done, total, wrong }: Progress): void {
    this.#shown = true
    const share = total === 0 ? 0 : Math.min(1, done / total)
    const full = Math.round(share * barWidth)
    const bar = `[${'#'.repeat(full)}${'.'.repeat(barWidth - full)}]`
    const text =
      doing === 'listing'
        ? 'reading the list of what is stored'
        : `${bar} ${Math.floor(share * 100)} %  ${size(done)} of ${size(total)}, ${wrong} wrong`
    this.#to.write(`\r${text.slice(0, (this.#to.columns || 80) - 1)}\u001b[K`)
  }

  clear(): void {
    if (this.#shown) this.#to.write('\r\u001b[K')
  }
}
