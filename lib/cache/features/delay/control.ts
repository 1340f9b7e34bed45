/**
 * The commands about delayed suites: `release` lets waiting generations through, and `changes` lists the versions that wait.
 */
import { type CommandAnswer, complaintAnswer, outputAnswer } from '../../../admin-socket.ts'
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { resultInTime } from '../../../async/deadline.ts'
import { countOf, moment } from '../../../figures.ts'
import { type JsonObject, jsonText } from '../../../json.ts'
import { exitCodes } from '../../../program.ts'
import type { Store } from '../../store/store.ts'
import { type Generation, generationOf, type KnownSuite, keyIn } from '../../suites/generation.ts'
import type { Suites } from '../../suites/suites.ts'
import type { Updates } from '../../suites/updates/updates.ts'
import { type Change, type ChangesInThread, countOfChanges } from './changes.ts'
import { suiteName } from './delay.ts'
import type { SuiteDelays } from './suite-delays.ts'

export interface DelayCommandParts {
  readonly changes: Pick<ChangesInThread, 'list'>
  readonly clock: Clock
  readonly suites: Pick<Suites, 'all' | 'at'>
  readonly delays: Pick<SuiteDelays, 'release' | 'restraint' | 'state'>
  readonly updates: Pick<Updates, 'governs' | 'refresh'>
  readonly store: Pick<Store, 'get'>
}

/** The longest time for which `release` waits for the origin of each suite. */
const longestQuestion: Milliseconds = 60_000

/** The longest text of an operator that is kept, in characters. */
const mostText = 500

/** Lets generations through. It asks the origins first, because the wanted generation may be a moment old. */
export async function releaseSuites(
  request: JsonObject,
  parts: DelayCommandParts,
): Promise<CommandAnswer> {
  const { suites, delays, clock } = parts
  const { until, by, reason } = request
  const chosen = chosenSuites(request, parts)
  if (typeof chosen === 'string') return complaintAnswer(exitCodes.failure, chosen)
  const text = (value: unknown): string =>
    typeof value === 'string' ? value.replace(/\p{Cc}+/gu, ' ').slice(0, mostText) : ''
  const end = typeof until === 'number' ? until : undefined
  if (end !== undefined && end <= clock.now()) {
    return complaintAnswer(exitCodes.usage, 'the date of --until is past')
  }
  const permission = { by: text(by) || 'unknown', reason: text(reason), at: clock.now() }
  const lines: string[] = []
  for (const at of chosen) {
    await askOrigin(at, parts)
    const waited = await delays.release(at, permission, end)
    const now = suites.at(at)
    const given = now && delays.state(at)?.given
    const date = now && given && dateOf(now, given.digest)
    const gets = date === undefined ? '' : `, clients get that of ${moment(date)}`
    const through = `${countOf(waited ?? 0, 'generation')} waited${gets}`
    lines.push(
      end === undefined ? `${at}: ${through}` : `${at}: open until ${moment(end)}, ${through}`,
    )
  }
  return outputAnswer(`${lines.join('\n')}\n`)
}

/** The JSON of each suite that `cachesvc changes --json` prints. */
export interface SuiteChanges {
  readonly suite: string
  readonly changes: readonly Change[]
}

/** Lists the packages whose waiting version differs from that of clients, with both versions. */
export async function suiteChanges(
  request: JsonObject,
  parts: DelayCommandParts,
): Promise<CommandAnswer> {
  const { suites, delays } = parts
  const chosen = chosenSuites(request, parts)
  if (typeof chosen === 'string') return complaintAnswer(exitCodes.failure, chosen)
  const json = request['json'] === true
  const lines: string[] = []
  const values: SuiteChanges[] = []
  for (const at of chosen) {
    const suite = suites.at(at)
    const [adopted] = suite?.generations ?? []
    const last = delays.state(at)?.waiting.at(-1)
    if (adopted === undefined) continue
    const changes =
      last === undefined
        ? []
        : await parts.changes.list({ before: adopted.contents, after: last.contents })
    values.push({ suite: at, changes })
    lines.push(headOf(at, last, changes), ...changes.map(lineOf))
  }
  return outputAnswer(json ? jsonText(values) : `${lines.join('\n')}\n`)
}

function headOf(
  at: string,
  last: Pick<Generation, 'date'> | undefined,
  changes: readonly Change[],
): string {
  if (last === undefined) return `${at}: nothing waits`
  const { packages } = countOfChanges(changes)
  const of = last.date === undefined ? 'an undated one' : `that of ${moment(last.date)}`
  return `${at}: ${of} waits and changes ${countOf(packages, 'package')}`
}

function lineOf({ name, architecture, ...change }: Change): string {
  return `  ${name} ${architecture} ${change.old ?? '(none)'} -> ${change.new ?? '(none)'}`
}

/** The delayed suites that a command means, or a sentence when it means none. */
function chosenSuites(
  { of, suites: names }: JsonObject,
  { suites, delays }: Pick<DelayCommandParts, 'suites' | 'delays'>,
): readonly string[] | string {
  const place = String(of)
    .replace(/^https?:\/\//, '')
    .replace(/\/+$/, '')
  const wanted = Array.isArray(names) ? names.map(String) : []
  const within = suites.all
    .map(({ at }) => at)
    .filter(at => `${at.replace(/^https?:\/\//, '')}/`.startsWith(`${place}/`))
  if (within.length === 0)
    return `no suite of ${place} is known: a client has to update through the proxy first`
  const named = within.filter(
    at => wanted.length === 0 || wanted.some(name => suiteName(new URL(at).pathname) === name),
  )
  if (named.length === 0) {
    const known = within.map(at => suiteName(new URL(at).pathname)).join(', ')
    return `no suite of that name is known; known are ${known}`
  }
  const delayed = named.filter(at => delays.restraint(at) !== undefined)
  return delayed.length > 0
    ? delayed
    : 'no delay and no hold applies there: clients get what the archive has'
}

async function askOrigin(
  at: string,
  { suites, updates, store, clock }: DelayCommandParts,
): Promise<void> {
  const names = suites.at(at) === undefined ? [] : ['InRelease', 'Release']
  for (const name of names) {
    const entry = await store.get(keyIn(at, name) ?? '')
    if (entry !== undefined && updates.governs(entry)) {
      await resultInTime(updates.refresh(entry), clock, longestQuestion)
    }
  }
}

function dateOf(suite: KnownSuite, digest: string): Milliseconds | undefined {
  const waiting = suite.waiting?.find(({ release }) => release.digest === digest)
  return (generationOf(suite, digest) ?? waiting)?.date
}
