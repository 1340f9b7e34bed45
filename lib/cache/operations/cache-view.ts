/**
 * The cache page: what is stored, how much room is left, how long files are kept, and what the last verification found. Pure.
 */
import type { Milliseconds } from '../../async/clock.ts'
import type { View } from '../../template.ts'
import type { Config } from '../config/config.ts'
import { count, countOf, duration, moment, percent, size } from './figures.ts'
import type { StoreUsage, Verification } from './sources.ts'

/** Above this part of the file system in use the page says so. */
const nearlyFull = 0.9

export function cacheView(config: Config, usage: StoreUsage, verification: Verification): View {
  const { objects, bytes, counting } = usage
  const { total, used, free } = usage.filesystem ?? { total: 0, used: 0, free: 0 }
  const share = total > 0 ? Math.min(1, used / total) : 0
  const parts = { 'This cache': bytes, 'All that is used': used, Free: free, Total: total }
  return {
    objects: count(objects),
    objectNoun: objects === 1 ? 'object' : 'objects',
    size: size(bytes),
    bytes: count(bytes),
    counting,
    known: total > 0,
    share: total > 0 ? percent(share) : 'unknown',
    usedEnd: (share * 100).toFixed(2),
    cacheEnd: (Math.min(share, bytes / Math.max(1, total)) * 100).toFixed(2),
    nearlyFull: share > nearlyFull,
    filesystem: Object.entries(parts).map(([name, bytes]) => {
      return { name, size: size(bytes), bytes: count(bytes) }
    }),
    retention: retention(config),
    ...freshnessView(config),
    verification: verificationView(config.verification, verification),
  }
}

/** What `expiration.unused_days` means, as a sentence. */
function retention({ expiration }: Config): string {
  const { unusedDays } = expiration
  if (unusedDays === 0) return 'Automatic expiration is disabled: stored files are kept for ever.'
  return `Stored files nobody asked for in ${countOf(unusedDays, 'day')} are removed.`
}

function freshnessView({ freshness }: Config): View {
  const { index, other, negative, floor } = freshness
  const remembered = negative === 0 ? 'not remembered' : `remembered for ${duration(negative)}`
  return {
    freshness: [
      {
        kind: 'Packages, sources and files named by their hash',
        rule: 'never change, and are never asked for again',
      },
      { kind: 'Release files and indexes', rule: `fresh for ${duration(index)}` },
      { kind: 'Everything else', rule: `fresh for ${duration(other)}` },
      { kind: 'What an archive does not have (404)', rule: remembered },
    ],
    floor: duration(floor),
    floored: floor > 0,
  }
}

function verificationView(
  { interval }: Config['verification'],
  { last, running }: Verification,
): View {
  const figures = last && {
    Finished: moment(last.finished),
    Took: roughly(last.took),
    'Looked at': `${countOf(last.files, 'file')}, ${size(last.bytes)}`,
    Suites: count(last.suites),
    'Confirmed by an index or by name': count(last.confirmed),
    Wrong: count(last.wrong),
  }
  return {
    schedule:
      interval === 0
        ? 'Stored files are not verified automatically.'
        : `Stored files are verified every ${duration(interval).replace(/^1 /, '')}: contents against their digests, indexes against Release files, packages against indexes. What is wrong is removed and fetched again.`,
    running,
    verified: last !== undefined,
    sound: last?.wrong === 0,
    wrong: countOf(last?.wrong ?? 0, 'file'),
    figures: Object.entries(figures ?? {}).map(([name, value]) => ({ name, value })),
  }
}

/** To the minute, or to the second when it took less than one. */
function roughly(took: Milliseconds): string {
  const unit = took < 60_000 ? 1000 : 60_000
  return duration(Math.max(1, Math.round(took / unit)) * unit)
}
