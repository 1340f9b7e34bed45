/**
 * Texts that say what a delay or a hold keeps from clients, for the cache page, status and explain.
 */
import { formatDuration } from '../../config/units.ts'
import { count, countOf, elapsedText, moment } from '../../figures.ts'
import { redactUrl } from '../../log/redact.ts'
import type { DelayState } from '../answer/suite-delays.ts'
import type { ChangeCount } from '../delay/changes.ts'
import { ripeMoment } from '../delay/delay.ts'
import type { OperationsSources } from './sources.ts'

/** The generation that clients get with the reason, and those that wait with their times. */
export function delayText(state: DelayState, changes?: ChangeCount | 'unknown'): string {
  return [restraintText(state), givenText(state), waitingText(state), changesText(changes)]
    .filter(text => text !== '')
    .join('; ')
}

/** One sentence for each suite whose clients get an expiring generation, and for each suite on which a delay has no effect. */
export function delayCautions({
  suites,
  notDelayed,
}: Pick<OperationsSources, 'suites' | 'notDelayed'>): readonly string[] {
  const expiring = suites()
    .filter(({ delay }) => delay?.state.choice.expires === true)
    .map(
      ({ name }) =>
        `clients of ${redactUrl(name)} get a Release file whose Valid-Until is near or past, because of its delay or hold`,
    )
  const without = notDelayed().map(
    name =>
      `the delay or hold of ${redactUrl(name)} has no effect: its Release file may not be adopted, as the log says`,
  )
  const all = [...expiring, ...without]
  const more = all.length - mostSuites
  return [...all.slice(0, mostSuites), ...(more > 0 ? [`and ${countOf(more, 'suite')} more`] : [])]
}

const mostSuites = 5

function restraintText({ restraint: { delay, hold }, open }: DelayState): string {
  const delayed = delay > 0 ? [`delay of ${formatDuration(delay)}`] : []
  const held =
    hold === undefined ? [] : [`hold at ${new Date(hold - 1).toISOString().slice(0, 10)}`]
  const all = [...delayed, ...held].join(', ')
  if (open === undefined) return all
  return `${all}, open until ${moment(open.until)} by ${open.by}${reasonText(open.reason)}`
}

function givenText({ given, choice, date, restraint: { hold } }: DelayState): string {
  const { permission } = given ?? {}
  const by = permission === undefined ? '' : ` by ${permission.by}${reasonText(permission.reason)}`
  const words = `clients get ${givenWords[given?.because ?? 'first']}${by}`
  if (hold !== undefined && date !== undefined && date >= hold) {
    return `${words}, which is later than the hold: what clients have got is not taken back`
  }
  return choice.expires ? `${words}, whose Valid-Until is near or past` : words
}

const givenWords = {
  first: 'the one that was known first',
  ripe: 'one that was old enough',
  released: 'one that was let through',
  expiring: 'one before its time, because the one before was about to expire',
} as const

function waitingText({ waiting, restraint, choice, now }: DelayState): string {
  const [next] = waiting
  if (next === undefined) return 'none waits'
  const which = next.date === undefined ? 'an undated one' : `that of ${moment(next.date)}`
  const left = ripeMoment(next, restraint) - now
  const when = choice.because === 'held' || left <= 0 ? '' : `, to be given in ${elapsedText(left)}`
  const seen = `first seen ${elapsedText(Math.max(0, now - next.seen))} ago`
  const one = `${which} waits, ${seen}${when}`
  return waiting.length === 1
    ? one
    : `${countOf(waiting.length, 'generation')} wait, the next first: ${one}`
}

function changesText(changes: ChangeCount | 'unknown' | undefined): string {
  if (changes === undefined || changes === 'unknown') return ''
  const { packages, added, removed } = changes
  return `the newest changes ${countOf(packages, 'package')}, ${count(added)} new and ${count(removed)} gone among them`
}

function reasonText(reason: string): string {
  return reason === '' ? '' : ` (${reason})`
}
