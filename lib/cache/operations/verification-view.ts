/**
 * The part of the cache page about verification: how often, and what the last one found. Pure.
 */
import type { Milliseconds } from '../../async/clock.ts'
import type { View } from '../../template.ts'
import type { Config } from '../config/config.ts'
import { count, countOf, duration, size } from './figures.ts'
import type { Verification } from './sources.ts'

export function verificationView({ interval }: Config['verification'], found: Verification): View {
  const { last, running } = found
  return {
    schedule:
      interval === 0
        ? 'Stored files are not verified by themselves.'
        : `Stored files are verified every ${every(interval)}: contents against their digests, indexes against Release files, packages against indexes. What is wrong is removed and fetched again.`,
    running,
    verified: last !== undefined,
    sound: last?.wrong === 0,
    wrong: countOf(last?.wrong ?? 0, 'file'),
    figures:
      last === undefined
        ? []
        : [
            { name: 'Finished', value: moment(last.finished) },
            { name: 'Took', value: roughly(last.took) },
            { name: 'Looked at', value: `${countOf(last.files, 'file')}, ${size(last.bytes)}` },
            { name: 'Suites', value: count(last.suites) },
            { name: 'Confirmed by an index or by name', value: count(last.confirmed) },
            { name: 'Wrong', value: count(last.wrong) },
          ],
  }
}

/** `day`, `12 hours`. */
function every(interval: Milliseconds): string {
  return duration(interval).replace(/^1 /, '')
}

/** To the minute, or to the second when it took less than one. */
function roughly(took: Milliseconds): string {
  const unit = took < 60_000 ? 1000 : 60_000
  return duration(Math.max(1, Math.round(took / unit)) * unit)
}

function moment(at: Milliseconds): string {
  return `${new Date(at).toISOString().slice(0, 16).replace('T', ' ')} UTC`
}
