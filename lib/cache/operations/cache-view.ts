/**
 * The values of the cache page: what is stored, how much room is left, how long files are kept, and what the last verification
 * found. Pure.
 */
import type { Milliseconds } from '../../async/clock.ts'
import type { View } from '../../template.ts'
import type { Config } from '../config/config.ts'
import { count, countOf, duration, moment, percent, size, sizeView } from './figures.ts'
import type { StoreUsage, Verification } from './sources.ts'

/** Above this part of the file system in use the page says so. */
const nearlyFull = 0.9

export function cacheView(config: Config, usage: StoreUsage, verification: Verification): View {
  const { objects, bytes } = usage
  const { used, free, total: whole } = usage.filesystem ?? { total: 0, used: 0, free: 0 }
  // As df does it: what is reserved for root counts neither as used nor as free.
  const total = used + free
  const reserved = Math.max(0, whole - total)
  const share = total > 0 ? used / total : 0
  const { index, other, negative, floor } = config.freshness
  const { unusedDays } = config.expiration
  return {
    objects: count(objects),
    objectNoun: objects === 1 ? 'object' : 'objects',
    ...sizeView(bytes),
    known: total > 0,
    share: total > 0 ? percent(share) : 'unknown',
    usedEnd: (share * 100).toFixed(2),
    cacheEnd: (Math.min(share, bytes / Math.max(1, total)) * 100).toFixed(2),
    nearlyFull: share > nearlyFull,
    used: sizeView(used),
    free: sizeView(free),
    total: sizeView(total),
    reserved: reserved > 0 && size(reserved),
    unused: unusedDays > 0 && countOf(unusedDays, 'day'),
    fresh: {
      index: duration(index),
      other: duration(other),
      negative: negative > 0 && duration(negative),
      floor: floor > 0 && duration(floor),
    },
    ...verificationView(config.verification, verification),
  }
}

function verificationView({ interval }: Config['verification'], found: Verification): View {
  const { running, last } = found
  return {
    interval: interval > 0 && duration(interval).replace(/^1 /, ''),
    running,
    sound: last?.wrong === 0,
    verified: last !== undefined && {
      finished: moment(last.finished),
      took: roughly(last.took),
      files: countOf(last.files, 'file'),
      read: size(last.bytes),
      suites: count(last.suites),
      confirmed: count(last.confirmed),
      wrong: count(last.wrong),
      wrongFiles: countOf(last.wrong, 'file'),
    },
  }
}

/** To the minute, or to the second when it took less than one. */
function roughly(took: Milliseconds): string {
  const unit = took < 60_000 ? 1000 : 60_000
  return duration(Math.max(1, Math.round(took / unit)) * unit)
}
