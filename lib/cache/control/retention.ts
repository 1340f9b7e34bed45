/**
 * Answers `cachesvc retention --dry-run`: what the daily sweep would remove now, and the order in which room is made after that.
 */
import { type CommandAnswer, outputAnswer } from '../../admin-socket.ts'
import type { Clock } from '../../async/clock.ts'
import { count, countOf, date, size } from '../../figures.ts'
import { jsonText } from '../../json.ts'
import type { Forecast, NextRemoval } from '../store/retention-rules.ts'
import type { Store } from '../store/store.ts'
import type { UnreferencedPackages } from '../suites/unreferenced.ts'

export interface RetentionCommandParts {
  readonly clock: Clock
  readonly store: Pick<Store, 'forecast'>
  readonly unreferenced: Pick<UnreferencedPackages, 'forecast'>
}

/** Each of the two lists has at most this many files. */
const mostListed = 100

export async function retentionAnswer(
  { clock, store, unreferenced }: RetentionCommandParts,
  json: boolean,
): Promise<CommandAnswer> {
  const found = await store.forecast({
    now: clock.now(),
    most: mostListed,
    unreferenced: await unreferenced.forecast(),
  })
  return outputAnswer(json ? jsonText(forecastView(found)) : forecastText(found))
}

/** The JSON that `cachesvc retention --dry-run --json` prints. */
export type RetentionForecast = ReturnType<typeof forecastView>

function forecastView({ sweep, room, ...figures }: Forecast) {
  const { files, bytes, first } = sweep
  return { ...figures, sweep: { files, bytes, first: first.map(view) }, room: room.map(view) }
}

function view({ reason, because, key, bytes, lastUsed }: NextRemoval) {
  return { reason, because, lastUsed: new Date(lastUsed).toISOString(), bytes, url: key }
}

function forecastText({ sweep, room, stored, free, floor, size: quota }: Forecast): string {
  const { files, bytes, first } = sweep
  const left = files - first.length
  const limits = [
    quota > 0 ? `retention.size allows ${size(quota)}` : 'retention.size sets no limit',
    ...(free === undefined ? [] : [`${size(free)} are free on the file system`]),
    `retention.free keeps ${size(floor)} free`,
  ]
  return [
    files === 0
      ? 'The daily sweep would remove nothing now.\n'
      : `The daily sweep would remove ${countOf(files, 'file')} now, ${size(bytes)}:\n`,
    linesOf(first),
    left > 0 ? `and ${count(left)} more\n` : '',
    `\n${size(stored)} are stored; ${limits.join('; ')}.\n`,
    room.length === 0
      ? 'There is nothing that could be removed to make room.\n'
      : `When room is needed, files go in this order (the first ${count(room.length)}, ${size(sum(room))}):\n`,
    linesOf(room),
    'Nothing was changed.\n',
  ].join('')
}

function linesOf(removals: readonly NextRemoval[]): string {
  if (removals.length === 0) return ''
  const rows = removals.map(
    ({ reason, because, key, bytes, lastUsed }) =>
      `${reason}\t${because}\t${date(lastUsed)}\t${bytes}\t${key}\n`,
  )
  return `reason\twhy\tlast used\tbytes\tURL\n${rows.join('')}`
}

function sum(removals: readonly NextRemoval[]): number {
  return removals.reduce((all, { bytes }) => all + bytes, 0)
}
