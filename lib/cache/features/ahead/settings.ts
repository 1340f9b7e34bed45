/**
 * The settings of what is fetched before a client asks for it, which stand with the suites.
 */
import { mismatch, readFailure, readResult } from '../../../config/reading.ts'
import { duration, integer, size } from '../../../config/setting-kinds.ts'
import { group, type Kind, kind, optionalSetting, setting } from '../../../config/settings.ts'

/** Two times of the day, in minutes since midnight. */
export interface TimesOfDay {
  readonly from: number
  readonly until: number
}

/** Two times of the day with a hyphen between them: `22:00-06:00`. */
const timesOfDay: Kind<TimesOfDay> = kind(
  { name: 'times of day', json: { type: 'string', pattern: '^\\d\\d?:\\d\\d-\\d\\d?:\\d\\d$' } },
  found => {
    const [, ...parts] =
      (typeof found === 'string' && /^(\d\d?):(\d\d)-(\d\d?):(\d\d)$/.exec(found)) || []
    const [hour = 24, minute = 0, lastHour = 24, lastMinute = 0] = parts.map(Number)
    const are = hour < 24 && minute < 60 && lastHour < 24 && lastMinute < 60
    if (!are) return mismatch(found, 'two times of the day', 'such as "22:00-06:00"')
    const times = { from: hour * 60 + minute, until: lastHour * 60 + lastMinute }
    return times.from === times.until
      ? readFailure('the two times are the same; leave the setting out for any time')
      : readResult(times)
  },
)

export const aheadSettings = {
  suites: {
    warm: group(
      'Packages that are fetched ahead. When a suite has a new Release file whose indexes name newer versions of packages that clients have asked for, these are fetched in the background: one at a time, and only while no client waits for another file from an origin. A package counts as the same when its directory, name and architecture are.',
      {
        days: setting(integer(0, 365), 0, 'suites:\n  warm:\n    days: 14').says(
          'Days: packages that a client has asked for in so many days are fetched ahead. 0 switches this off. A version that was fetched ahead counts as used when the version before it was used.',
        ),
        files: setting(integer(1, 100_000), 500).says(
          'Maximum number of files that are fetched ahead in 24 hours.',
        ),
        size: setting(size('1M', '1024T'), '2G').says(
          'Maximum bytes that are fetched ahead in 24 hours.',
        ),
      },
    ),
    refresh: setting(duration('0s', '7d'), '0s', 'suites:\n  refresh: 30m').says(
      'Interval at which cachesvc asks origins by itself for new Release files of suites in use, and fetches the indexes that clients use; `0s` switches this off. The shortest interval is a minute.',
    ),
    refresh_for: setting(duration('1h', '365d'), '14d').says(
      'Suites that no client has asked for in so long are no longer refreshed.',
    ),
    refresh_between: optionalSetting(
      timesOfDay,
      'any time',
      'suites:\n  refresh: 30m\n  refresh_between: "22:00-06:00"',
    ).says(
      'Times of the day, by the clock of the machine, between which suites are refreshed. The times are to be quoted. Requests of clients are answered at any time.',
    ),
  },
}
