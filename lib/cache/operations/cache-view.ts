/**
 * The cache page: what is stored, how much room is left, and how long things are kept. Pure.
 */
import type { View } from '../../template.ts'
import type { Config } from '../config/config.ts'
import { count, countOf, duration, percent, size } from './figures.ts'
import type { Health, StoreUsage } from './sources.ts'

/** Above this part of the file system in use the page says so. */
const nearlyFull = 0.9

export function cacheView(config: Config, usage: StoreUsage, health: Health): View {
  const { total, used, free } = usage.filesystem
  const share = total > 0 ? Math.min(1, used / total) : 0
  return {
    objects: count(usage.objects),
    objectNoun: usage.objects === 1 ? 'object' : 'objects',
    size: size(usage.bytes),
    bytes: count(usage.bytes),
    ready: health.writable,
    because: health.because ?? 'the store cannot be written',
    known: total > 0,
    share: total > 0 ? percent(share) : 'unknown',
    usedEnd: (share * 100).toFixed(2),
    cacheEnd: (Math.min(share, usage.bytes / Math.max(1, total)) * 100).toFixed(2),
    nearlyFull: share > nearlyFull,
    filesystem: [
      { name: 'This cache', size: size(usage.bytes), bytes: count(usage.bytes) },
      { name: 'All that is used', size: size(used), bytes: count(used) },
      { name: 'Free', size: size(free), bytes: count(free) },
      { name: 'Total', size: size(total), bytes: count(total) },
    ],
    retention: retention(config),
    freshness: [
      {
        kind: 'Packages, sources and files named by their hash',
        rule: 'never change, and are never asked for again',
      },
      { kind: 'Release files and indexes', rule: `fresh for ${duration(config.freshness.index)}` },
      { kind: 'Everything else', rule: `fresh for ${duration(config.freshness.other)}` },
      { kind: 'What an archive does not have (404)', rule: remembered(config.freshness.negative) },
    ],
    floor: duration(config.freshness.floor),
    floored: config.freshness.floor > 0,
  }
}

/** What `expiration.unused_days` means, as a sentence. */
export function retention({ expiration }: Config): string {
  const { unusedDays } = expiration
  if (unusedDays === 0) return 'Automatic expiration is disabled: stored files are kept for ever.'
  return `Stored files nobody asked for in ${countOf(unusedDays, 'day')} are removed.`
}

function remembered(negative: number): string {
  return negative === 0 ? 'not remembered' : `remembered for ${duration(negative)}`
}
