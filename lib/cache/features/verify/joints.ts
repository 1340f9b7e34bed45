/**
 * What the feature `verify` is in a running service: the schedule, what pages say of it, and the removal of wrong files.
 */

import type { Milliseconds } from '../../../async/clock.ts'
import { stopStep } from '../../../daemon.ts'
import { count, countOf, duration, moment, size } from '../../../figures.ts'
import type { PageSection } from '../../operations/sources.ts'
import type { Core, Joints } from '../feature.ts'
import { verificationMetrics } from './metrics.ts'
import { readEvictRequest } from './remove-wrong.ts'
import { type LastVerification, type Verification, VerificationSchedule } from './schedule.ts'

export async function joints({
  cacheDirectory,
  store,
  clock,
  log,
  rules,
  metrics,
}: Core): Promise<Joints> {
  const warnings = verificationMetrics(metrics, () => schedule.last)
  const schedule = await VerificationSchedule.start({
    directory: cacheDirectory,
    store,
    clock,
    log: log.child({ part: 'verification' }),
    settings: () => rules().config,
    onWarning: () => warnings.add({}),
  })
  return {
    answers: {
      evict(request) {
        const wrong = readEvictRequest(request)
        if (wrong === undefined) throw new Error('the file to remove is not named')
        return schedule.evict(wrong)
      },
    },
    report: {
      cautions: () => cautionsOf(schedule.last),
      sections: () => [section(rules().config.verification.interval, schedule)],
    },
    stops: [
      { when: 'work', step: stopStep('break off a verification', 5000, () => schedule.close()) },
    ],
  }
}

function cautionsOf(last: LastVerification | undefined) {
  const wrong = last?.wrong ?? 0
  if (wrong === 0) return []
  return [{ text: `the last verification removed ${countOf(wrong, 'wrong file')}`, upkeep: false }]
}

/** The section of the cache page. */
export function section(interval: Milliseconds, { running, last }: Verification): PageSection {
  const every = duration(interval).replace(/^1 /, '')
  const paragraph =
    interval > 0
      ? `Stored files are verified every ${every}: contents against their digests, indexes against Release files, packages against indexes. Wrong files are removed, and fetched again with the next request.`
      : 'Stored files are not verified automatically.'
  return {
    id: 'verification',
    title: 'Verification',
    ...(last && { state: stateOf(last) }),
    paragraphs: [paragraph],
    remarks: [
      ...(running ? ['A verification is under way.'] : []),
      ...(last === undefined ? ['None has finished yet.'] : []),
    ],
    rows: last === undefined ? [] : rowsOf(last),
  }
}

function stateOf({ wrong }: LastVerification): NonNullable<PageSection['state']> {
  if (wrong === 0) {
    return { good: true, word: 'Sound', text: 'The last verification found no wrong file.' }
  }
  const text = 'They were removed; the log names them as repository-verification warnings.'
  return { good: false, word: `${countOf(wrong, 'file')} wrong`, text }
}

function rowsOf(last: LastVerification): PageSection['rows'] {
  return [
    { name: 'Finished', text: moment(last.finished) },
    { name: 'Took', text: roughly(last.took) },
    { name: 'Checked', text: `${countOf(last.files, 'file')}, ${size(last.bytes)}` },
    { name: 'Suites', text: count(last.suites) },
    { name: 'Confirmed by an index or by name', text: count(last.confirmed) },
    { name: 'Wrong', text: count(last.wrong) },
  ]
}

/** A duration to the minute, or to the second when it is less than a minute. */
function roughly(took: Milliseconds): string {
  const unit = took < 60_000 ? 1000 : 60_000
  return duration(Math.max(1, Math.round(took / unit)) * unit)
}
