/**
 * Texts for pages, `status` and `explain`: why clients get an earlier Release file of a suite than the origin has, because it is behind or a
 * delay or a hold applies.
 */
import { formatDuration } from '../../config/units.ts'
import { count, countOf, elapsedText, moment } from '../../figures.ts'
import { redactUrl } from '../../log/redact.ts'
import type { DelayState } from '../answer/suite-delays.ts'
import type { ReleaseBehind } from '../answer/suites-behind.ts'
import type { ChangeCount } from '../features/delay/changes.ts'
import { ripeMoment } from '../features/delay/delay.ts'
import type { OriginTrouble, UnconfirmedOrigin } from '../fetch/unconfirmed-origins.ts'
import type { Contradictions } from '../suites/generation.ts'
import type { OperationsSources, SuiteState } from './sources.ts'

/** The reason, for how long it has held, and the files that are missing. */
export function behindText({ because, lasts, missing }: ReleaseBehind): string {
  const files = missing.slice(0, mostFiles).map(({ path, because }) => `${path} (${because})`)
  if (missing.length > mostFiles)
    files.push(`and ${countOf(missing.length - mostFiles, 'file')} more`)
  const list = files.length === 0 ? '' : `: ${files.join(', ')}`
  return `${behindWords[because]}, for ${elapsedText(lasts)}${list}`
}

/** One sentence for each suite whose origin has a Release file that clients do not get, and one for those beyond the bound. */
export function behindCautions(suites: readonly SuiteState[]): readonly string[] {
  const behind = suites.flatMap(({ name, behind, refusal }) =>
    refusal !== undefined
      ? [`${redactUrl(name)}: ${refusal}`]
      : behind === undefined || !isBehind(behind)
        ? []
        : [`clients get an earlier Release of ${redactUrl(name)}: ${behindText(behind)}`],
  )
  return firstSuites(behind, 'and of')
}

/** One sentence for each origin that has confirmed nothing for a time, and one for those beyond the bound. */
export function originCautions(origins: readonly UnconfirmedOrigin[]): readonly string[] {
  const all = origins.map(
    ({ origin, lasts, ...trouble }) =>
      `${origin} has confirmed nothing for ${elapsedText(lasts)} (${troubleText(trouble)}): clients get what is stored, or an error`,
  )
  const more = all.length - mostSuites
  return more > 0 ? [...all.slice(0, mostSuites), `and ${countOf(more, 'origin')} more`] : all
}

/** The reason with the phase and the address, where they are known. */
export function troubleText({ because, phase, address }: OriginTrouble): string {
  const where = address === undefined ? [] : [`at ${address}`]
  const when = phase === undefined || phase === 'status' ? [] : [`phase ${phase}`]
  return [because, ...when, ...where].join(', ')
}

/** Whether the origin is known to have another Release file. While the origin fails or is slow, that is unknown. */
export function isBehind({ because }: ReleaseBehind): boolean {
  return because.startsWith('stale-suite')
}

const mostFiles = 3

const behindWords = {
  'stale-origin-failed': 'the origin fails',
  'stale-origin-slow': 'the origin is slow',
  'stale-suite-incomplete': 'the origin has a newer one, and not all its files yet',
  'stale-suite-refused': 'the origin has another one that may not be adopted',
} as const

/** Which indexes of a suite contradict each other, and about which files. */
export function contradictionsText({ count: files, examples }: Contradictions): string {
  const [first] = examples
  if (first === undefined) {
    return `its indexes name different contents for ${countOf(files, 'file')}, which is an error of the archive`
  }
  const more = files > 1 ? ` and ${countOf(files - 1, 'file')} more` : ''
  return `${first.indexes.join(' and ')} name different contents for ${first.path}${more}, which is an error of the archive`
}

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
  return firstSuites([...expiring, ...without], 'and')
}

const mostSuites = 5

/** The first sentences, and one for the suites beyond the bound. */
function firstSuites(all: readonly string[], and: string): readonly string[] {
  const more = all.length - mostSuites
  return more > 0 ? [...all.slice(0, mostSuites), `${and} ${countOf(more, 'suite')} more`] : all
}

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
  first: 'the first one seen',
  ripe: 'one that was old enough',
  released: 'one that was let through',
  expiring: 'one before its time, because the one before was about to expire',
} as const

function waitingText({ waiting, restraint, choice, now }: DelayState): string {
  const [next] = waiting
  if (next === undefined) return 'no newer one is waiting'
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
