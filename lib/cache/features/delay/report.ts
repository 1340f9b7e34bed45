/**
 * What pages, `status` and `explain` say of the generations that a delay or a hold keeps from clients.
 */
import { formatDuration } from '../../../config/units.ts'
import { count, countOf, elapsedText, moment } from '../../../figures.ts'
import { redactUrl } from '../../../log/redact.ts'
import type { FeatureReport } from '../../operations/sources.ts'
import { firstSuites } from '../../operations/state-text.ts'
import type { Suites } from '../../suites/suites.ts'
import type { ChangeCount, ChangesInThread } from './changes.ts'
import { ripeMoment } from './delay.ts'
import type { DelayState, SuiteDelays } from './suite-delays.ts'

interface DelayReportParts {
  readonly suites: Pick<Suites, 'all' | 'at'>
  readonly delays: Pick<SuiteDelays, 'state' | 'without'>
  readonly changes: Pick<ChangesInThread, 'of'>
}

/** The most suites that `status` prints a line for. */
const mostListed = 20

export function delayReport(parts: DelayReportParts): FeatureReport {
  const { delays } = parts
  return {
    cautions: () => delayCautions(parts).map(text => ({ text, upkeep: true })),
    status: () => {
      const members = delayStatus(parts)
      const lines = members.delayed.slice(0, mostListed).map(({ suite, text }, n) => ({
        name: n === 0 ? 'Delayed' : '',
        text: `${suite}: ${text}`,
      }))
      return { members, lines }
    },
    suite: (at, { counts }) => {
      const state = delays.state(at)
      if (state === undefined) return undefined
      return {
        label: 'Delayed',
        text: delayText(state, counts ? changesOf(at, state, parts) : undefined),
      }
    },
  }
}

/** The members of `cachesvc status --json`, with the suite that was adopted last first. */
export function delayStatus(parts: DelayReportParts) {
  return {
    delayed: delayedSuites(parts).map(({ at, state }) => ({
      suite: redactUrl(at),
      because: state.choice.because,
      waiting: state.waiting.length,
      text: delayText(state),
    })),
  }
}

function delayedSuites({ suites, delays }: Pick<DelayReportParts, 'suites' | 'delays'>) {
  const all = suites.all.flatMap(({ at }) => {
    const state = delays.state(at)
    return state === undefined ? [] : [{ at, state }]
  })
  return all.reverse()
}

/** The number of generations that wait, of all suites together. */
export function waitingGenerations(parts: Pick<DelayReportParts, 'suites' | 'delays'>): number {
  return delayedSuites(parts).reduce((sum, { state }) => sum + state.waiting.length, 0)
}

/** The number of packages that the newest waiting generation changes. Undefined until they are counted; the first call starts the count. */
function changesOf(
  at: string,
  { waiting }: DelayState,
  { suites, changes }: Pick<DelayReportParts, 'suites' | 'changes'>,
): ChangeCount | 'unknown' | undefined {
  const [generation] = suites.at(at)?.generations ?? []
  const last = waiting.at(-1)
  if (generation === undefined || last === undefined) return undefined
  return changes.of({
    name: `${generation.release.digest} ${last.release.digest}`,
    before: generation.contents,
    after: last.contents,
  })
}

/** The generation that clients get with the reason, and those that wait with their times. */
function delayText(state: DelayState, changes?: ChangeCount | 'unknown'): string {
  return [restraintText(state), givenText(state), waitingText(state), changesText(changes)]
    .filter(text => text !== '')
    .join('; ')
}

/** One sentence for each suite whose clients get an expiring generation, and for each suite on which a delay has no effect. */
function delayCautions(parts: DelayReportParts): readonly string[] {
  const expiring = delayedSuites(parts)
    .filter(({ state }) => state.choice.expires === true)
    .map(
      ({ at }) =>
        `clients of ${redactUrl(at)} get a Release file whose Valid-Until is near or past, because of its delay or hold`,
    )
  const without = parts.delays.without.map(
    name =>
      `the delay or hold of ${redactUrl(name)} has no effect: its Release file may not be adopted, as the log says`,
  )
  return firstSuites([...expiring, ...without], 'and')
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
    return `${words}, which is later than the hold: clients keep what they already have`
  }
  return choice.expires ? `${words}, whose Valid-Until is near or past` : words
}

const givenWords = {
  first: 'the first one seen',
  ripe: 'one that was old enough',
  released: 'one that was let through',
  expiring: 'one ahead of its time, because the earlier one was about to expire',
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
