/**
 * The feature `delay`: clients get new Release files of an archive later, or stay at those of a day.
 */
import { day } from '../../../async/clock.ts'
import { mismatch, type ReadResult, readResult } from '../../../config/reading.ts'
import { ownName } from '../../../files/directory-owner.ts'
import { exitCodes } from '../../../program.ts'
import { printComplaint } from '../../cli/base/terminal.ts'
import { type Feature, featureCommand } from '../feature.ts'
import { delayMetrics } from './metrics.ts'

export const delayFeature: Feature = {
  name: 'delay',
  listMetrics: metrics => delayMetrics(metrics, () => 0),
  open: async ground => (await import('./joints.ts')).openDelays(ground),
  commands: [
    featureCommand({
      name: 'changes',
      operands: 'ARCHIVE',
      summary: 'list versions of packages that a delay keeps from clients',
      options: {},
      takes: ['suite', 'json'],
      run: ({ operands: [of], options: { suite: suites, json } }, { ask }) =>
        ask({ do: 'changes', of, suites, json }),
    }),
    featureCommand({
      name: 'release',
      operands: 'ARCHIVE',
      summary: 'let through what a delay or a hold keeps from clients',
      options: {
        now: { help: 'let through what waits now; this is the default' },
        until: {
          value: 'DATE',
          read: readMoment,
          help: 'let through all that comes until DATE, a day or a moment (ISO 8601), in UTC',
        },
        reason: { value: 'TEXT', help: 'why; it is logged and shown' },
      },
      takes: ['suite'],
      run: async ({ operands: [of], options }, { ask }) => {
        const { until, now, reason, suite: suites } = options
        if (now && until !== undefined) {
          await printComplaint('--now and --until exclude each other')
          return exitCodes.usage
        }
        return ask({ do: 'release', of, suites, until, reason, by: callerName() })
      },
    }),
  ],
}

/** A moment as milliseconds since the epoch. A day means its end. */
function readMoment(text: string): ReadResult<number> {
  const isDay = /^\d{4}-\d\d-\d\d$/.test(text)
  const parsed = /^\d{4}-\d\d-\d\d(T[\d:.]+(Z|[+-]\d\d:\d\d))?$/.test(text)
    ? Date.parse(text)
    : Number.NaN
  if (Number.isNaN(parsed))
    return mismatch(text, 'a day such as 2026-11-01 or a moment such as 2026-11-01T08:00Z')
  return readResult(isDay ? parsed + day : parsed)
}

/** The name of the user who runs this command; under sudo, the user who called it. */
function callerName(): string {
  return process.env['SUDO_USER'] || (ownName() ?? String(process.getuid?.() ?? 'unknown'))
}
