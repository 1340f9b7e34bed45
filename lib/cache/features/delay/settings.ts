/**
 * The settings of delays and holds, which stand with their archive.
 */
import type { Milliseconds } from '../../../async/clock.ts'
import type { Remark } from '../../../config/reading.ts'
import { calendarDay, duration, text } from '../../../config/setting-kinds.ts'
import { listOf, optionalSetting, setting } from '../../../config/settings.ts'

export const delaySettings = {
  archives: {
    delay: setting(
      duration('0s', '60d'),
      '0s',
      'archives:\n  - origins: [archive.example.org/debian]\n    delay: 72h',
    ).says(
      'How old a new Release file must be before clients get it with its indexes. The age counts from its signed `Date` or from when cachesvc first saw it, whichever is later. The delay gives way before `Valid-Until`, and the first Release file of a suite is given at once. Set `suites.refresh` as well (`docs/delay.md`).',
    ),
    hold: optionalSetting(
      calendarDay,
      'none',
      'archives:\n  - origins: [archive.example.org/debian]\n    hold: "2026-11-01"',
    ).says(
      'Day (UTC) at which the suites of this archive are frozen: clients get no Release file with a later `Date`. It does not give way to `Valid-Until`, and clients keep what they have already.',
    ),
    except: setting(listOf(text, 'suites'), ['*-security*', '*/updates']).says(
      'Suites that `delay` and `hold` do not apply to, by what follows `dists/` in their URLs; `*` stands for any text. The default is the names of security suites: name them again in a list of your own.',
    ),
  },
  check: delayProblems,
}

interface DelayedArchive {
  readonly verify: string
  readonly delay: Milliseconds
  readonly hold: Milliseconds | undefined
}

/** Problems with a delay of an archive whose Release files are not read. */
function delayProblems(
  _found: unknown,
  { archives }: { readonly archives: readonly DelayedArchive[] },
): Remark[] {
  return archives.flatMap(({ verify, delay, hold }, i): Remark[] => {
    if (verify !== 'off' || (delay === 0 && hold === undefined)) return []
    const text = 'needs Release files that are read: set verify to prefer or require'
    return [{ path: ['archives', i, delay > 0 ? 'delay' : 'hold'], at: 'value', text }]
  })
}
