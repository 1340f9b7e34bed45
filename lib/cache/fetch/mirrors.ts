/**
 * Asks the origins of an archive in turn until one has the file. The preferred one comes first, those that failed lately come last.
 *
 * # Facts
 * - When an origin is down, refuses, or answers 404 during an update of its archive, the next one is asked.
 * - A 404 counts when each of the others says the same or fails. For a stored file it counts only when none failed: a mirror that lags
 *   behind must not cause the removal of a file that the others would confirm.
 * - An older file of a mirror that lags behind does not replace a newer one, unless all origins have the older one.
 * - Some files are forbidden or broken at every origin. So a refusal counts as a failure of an origin only when another one has
 *   the file.
 * - An origin has ten seconds for a head while another one could answer. The last one gets the configured deadlines, and more time where
 *   no other one has answered at all (late-heads.ts).
 * - A request that waits for a connection because all are in use says nothing about the origin.
 * - An archive with one origin has no next one. When that fails, stored files answer, and asking for each request would keep a ban alive.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { Lifetime } from '../../async/lifetime.ts'
import { longestRest, Rests } from '../../async/rests.ts'
import type { Failure } from '../../errors.ts'
import type { OriginDeadlines, OriginRequest, OriginResponse } from '../../http/client/client.ts'
import { failureOf, OriginFailure } from '../../http/client/errors.ts'
import { parseDate } from '../../http/message/date.ts'
import { Fields } from '../../http/message/field.ts'
import { validatorsOf } from '../../http/message/precondition.ts'
import { formatAuthority, formatUri, type TargetUri } from '../../http/message/target.ts'
import type { Logger } from '../../log/log.ts'
import { recentEntries } from '../../recent.ts'
import type { NearPlace } from '../rfc9111/outcome.ts'
import type { Entry } from '../store/entry.ts'
import { fetchFailure, isUpstream, restingOrigin, slowOrigin } from './failures.ts'
import type { LateHeads } from './late-heads.ts'

interface MirrorParts {
  readonly clock: Clock
  readonly log: Logger
  /** The places from which a target may be fetched, with the preferred one first. */
  readonly places: (uri: TargetUri) => readonly TargetUri[]
  /** The deadlines for the content of an origin when another one could continue. */
  readonly impatient: () => Partial<OriginDeadlines>
  readonly late: LateHeads
  /** Called for each answer that does not come from the preferred origin. */
  readonly onFailover: () => void
}

/** A question to the origins of an archive about one file. */
export interface Question {
  readonly uri: TargetUri
  /** The stored entry, about which the origin is asked; undefined when the store does not have the file. */
  readonly stored: Entry | undefined
  /** The proxies that the client's request has passed, in the form of `viaChain`. */
  readonly via?: string | undefined
  /** The origins that are not asked, by `originName`. */
  readonly except?: ReadonlySet<string> | undefined
  readonly lifetime: Lifetime
}

export interface Answer {
  readonly response: OriginResponse
  readonly place: TargetUri
  /** The place that answered, at the end of the redirects. */
  readonly source: TargetUri
  /** Whether other origins have this archive too. */
  readonly others: boolean
  /** False for a 404 while another origin failed, because another question may find the file. */
  readonly certain: boolean
  /** The source of an answer from another node or the shared store. `place` is then the origin, which was not asked. */
  readonly near?: NearPlace | undefined
}

/** Asks one origin and follows its redirects. Throws what the origin client throws. */
type AskOne = (
  place: TargetUri,
  others: boolean,
  pace: Pace,
) => Promise<{ readonly response: OriginResponse; readonly uri: TargetUri }>

/**
 * How long one origin may take. Where another one could answer it has shorter deadlines and a signal that ends the request before the
 * question ends; where none could, it has more time.
 */
type Pace = Pick<OriginRequest, 'deadlines' | 'signal' | 'onLate' | 'fresh' | 'nextAddressAfter'>

const usual: Pace = {}

/** The longest time without a head, or without a byte of content, while another origin could answer. */
export const originPatience: Milliseconds = 10_000

interface Round {
  readonly question: Question
  readonly askOne: AskOne
  readonly others: boolean
  missing?: Answer
  behind?: TargetUri
  refusals: Answer[]
  failed: TargetUri[]
  failure?: unknown
}

export class Mirrors {
  readonly #parts: MirrorParts
  readonly #rests: Rests
  /** The archives with one origin whose last answer said that it fails. */
  readonly #pauses: Rests<PauseReason>

  /** For files whose last redirect was not followed, the sentence that says why. */
  readonly #refused = recentEntries<string, string>(mostRefused)

  constructor(parts: MirrorParts) {
    this.#parts = parts
    this.#rests = new Rests(parts.clock)
    this.#pauses = new Rests(parts.clock, { first: shortestPause, longest: shortestPause })
  }

  /** The first answer that settles the question, else the first refusal or failure. */
  async ask(question: Question, askOne: AskOne): Promise<Answer> {
    const all = this.#parts.places(question.uri)
    const round: Round = { question, askOne, others: all.length > 1, refusals: [], failed: [] }
    if (!round.others) return this.#askOnly(round)
    const places = all.filter(place => question.except?.has(originName(place)) !== true)
    const { healthy, failing } = this.#rests.inTurn(places, originName)
    for (const [i, place] of [...healthy, ...failing].entries()) {
      const found = await this.#try(round, place, {
        hurry: i < healthy.length - 1,
        last: i === places.length - 1,
      })
      if (found === undefined) continue
      if (place !== all[0]) this.#parts.onFailover()
      return found
    }
    return this.#withoutFile(round, healthy)
  }

  /**
   * Asks the only origin of an archive. It is not asked about a stored file for a while after a failure about it, and about none after
   * failures about two of them, or one with Retry-After. After 429 (Too Many Requests) it is asked about no file for a shorter time.
   */
  async #askOnly(round: Round): Promise<Answer> {
    const { clock, log } = this.#parts
    const { uri, stored } = round.question
    const name = originName(uri)
    const rest = this.#pauses.reason(name)
    const file = formatUri(uri)
    const concerned = stored !== undefined && (rest?.onlyFile ?? file) === file
    if (rest !== undefined && (concerned || clock.elapsed() < rest.untilForAll)) {
      const seconds = Math.ceil(this.#pauses.left(name) / 1000)
      throw restingOrigin(name, rest.status, seconds)
    }
    const answer = await this.#patiently(round, uri)
    const { status, fields } = answer.response
    if (!pausesOrigin(status)) {
      this.#pauses.forget(name)
      return answer
    }
    const asked = Math.min(retryAfter(fields, clock.now()), longestPause)
    // Clients choose which files are asked for, and one may be broken for ever.
    if (stored === undefined && status !== 429 && asked === 0) return answer
    const pause = Math.max(shortestPause, asked)
    const untilForAll = status === 429 ? clock.elapsed() + Math.min(pause, longestForAll) : 0
    if (asked > shortestPause) {
      log.warn('an origin asks to be left alone for a while', {
        target: file,
        status,
        seconds: asked / 1000,
      })
    }
    // One stored file may be broken for ever as well. Another one that fails shows that the origin does.
    const mayBeOne = asked === 0 && ![402, 429].includes(status)
    const onlyFile = mayBeOne && (rest === undefined || rest.onlyFile === file) ? file : undefined
    this.#pauses.note(name, { least: pause, because: { status, untilForAll, onlyFile } })
    return answer
  }

  /** The origins that are left alone now because they answered that they fail. */
  pauses(): readonly OriginPause[] {
    return this.#pauses.names().flatMap(origin => {
      const { status, onlyFile } = this.#pauses.reason(origin) ?? {}
      return status === undefined || onlyFile !== undefined
        ? []
        : [{ origin, status, left: this.#pauses.left(origin) }]
    })
  }

  /** Notes that the redirect for a file is not followed. */
  refused(wanted: TargetUri, { publicText }: Failure): void {
    this.#refused.set(formatUri(wanted), publicText)
  }

  /** Notes that an origin has answered for a file. */
  followed(wanted: TargetUri): void {
    if (this.#refused.size > 0) this.#refused.delete(formatUri(wanted))
  }

  /** The sentence about the last redirect for a file, if it was not followed. */
  refusedRedirect(wanted: TargetUri): string | undefined {
    return this.#refused.get(formatUri(wanted))
  }

  brokeOff(place: TargetUri): void {
    if (this.#parts.places(place).length > 1) this.#note(place)
  }

  async #try(
    round: Round,
    place: TargetUri,
    { hurry, last }: { readonly hurry: boolean; readonly last: boolean },
  ): Promise<Answer | undefined> {
    const { question } = round
    const nothingSaid = round.missing === undefined && round.behind === undefined
    try {
      const answer = await (hurry
        ? this.#hurried(round, place)
        : last && nothingSaid
          ? this.#patiently(round, place)
          : askAt(round, place, usual))
      const { response } = answer
      const standing = standingOf(response.status)
      if (standing === 'has it' && !isBehind(response, question)) {
        this.#rests.forget(originName(place))
        for (const refusal of round.refusals) this.#note(refusal.place, refusal.response.fields)
        return answer
      }
      response.content.close()
      if (standing === 'failing') round.refusals.push(answer)
      else if (standing === 'missing') round.missing ??= answer
      else round.behind ??= place
    } catch (error) {
      if (question.lifetime.over || !isUpstream(error)) throw error
      if (!waitedInLine(error)) this.#note(place)
      round.failed.push(place)
      round.failure ??= error
      this.#parts.log.warn('an origin failed, the next one is asked', {
        target: formatUri(place),
        error,
      })
    }
    return undefined
  }

  /** The answer when no origin has the file, or all have an older one. It asks those again that counted as healthy and failed. */
  async #withoutFile(round: Round, healthy: readonly TargetUri[]): Promise<Answer> {
    const { question, refusals } = round
    if (round.missing !== undefined || round.behind !== undefined) {
      for (const place of round.failed.filter(failed => healthy.includes(failed))) {
        const found = await this.#try(round, place, { hurry: false, last: false })
        if (found !== undefined) return found
      }
    }
    const certain = round.failed.length + refusals.length + (question.except?.size ?? 0) === 0
    if (round.behind !== undefined && certain) return askAt(round, round.behind, usual)
    if (round.missing !== undefined && (certain || question.stored === undefined)) {
      return { ...round.missing, certain }
    }
    const [refusal] = refusals
    if (refusal !== undefined) return refusal
    throw round.failure ?? fetchFailure('ORIGIN_BEHIND', { target: formatUri(question.uri) })
  }

  /** Asks an origin that no other can replace. */
  #patiently(round: Round, place: TargetUri): Promise<Answer> {
    return this.#parts.late.ask({
      place,
      send: pace => askAt(round, place, pace),
      counts: ({ response }, maybeDead) => {
        const standing = standingOf(response.status)
        return standing === 'has it' || (maybeDead && standing === 'missing')
      },
      drop: ({ response }) => response.content.close(),
    })
  }

  async #hurried(round: Round, place: TargetUri): Promise<Answer> {
    const { lifetime } = round.question
    const late = new AbortController()
    const cancel = this.#parts.clock.after(originPatience, () => late.abort())
    try {
      const deadlines = this.#parts.impatient()
      return await askAt(round, place, { deadlines, signal: late.signal })
    } catch (error) {
      if (!late.signal.aborted || lifetime.over) throw error
      const name = originName(place)
      throw waitedInLine(error)
        ? failureOf('queue', name, { after: originPatience })
        : slowOrigin(name)
    } finally {
      cancel()
    }
  }

  #note(place: TargetUri, fields?: Fields): void {
    const asked = fields === undefined ? 0 : retryAfter(fields, this.#parts.clock.now())
    this.#rests.note(originName(place), { least: Math.min(asked, longestRest) })
  }
}

/** Why the only origin of an archive is left alone. */
interface PauseReason {
  readonly status: number
  /** The moment until which it is asked for no file at all, by `elapsed`. */
  readonly untilForAll: Milliseconds
  /** The stored file that it concerns; undefined when it concerns all. */
  readonly onlyFile: string | undefined
}

/** An origin that is left alone for a while. */
export interface OriginPause {
  readonly origin: string
  /** The status with which it said that it fails. */
  readonly status: number
  readonly left: Milliseconds
}

/** The time for which an origin that fails is asked nothing about stored files, unless its Retry-After names a longer one. */
const shortestPause: Milliseconds = 5000
/** The longest such time. Clients may miss a new Release file meanwhile. */
const longestPause: Milliseconds = 120_000
/** The longest time for which an origin that limits requests is asked for no file at all. */
const longestForAll: Milliseconds = 30_000

/**
 * Whether a status of an origin refuses all files for now, and not only this one. 402 is the answer of package hosts when their customer
 * has used up a quota.
 */
export function refusesAll(status: number): boolean {
  return status === 402 || status === 408 || status === 429
}

/** Whether an answer says that the origin fails, or refuses all files for now. */
function pausesOrigin(status: number): boolean {
  return status >= 500 || refusesAll(status)
}

/** The refused redirects that are remembered for `explain`. */
const mostRefused = 100

/** The name of an origin in `Question.except`. */
export function originName(place: TargetUri): string {
  return formatAuthority(place)
}

async function askAt({ askOne, others }: Round, place: TargetUri, pace: Pace): Promise<Answer> {
  const { response, uri } = await askOne(place, others, pace)
  return { response, place, source: uri, others, certain: true }
}

/** Whether a request failed before it had a connection, because all connections to the origin were in use. */
function waitedInLine(error: unknown): boolean {
  return error instanceof OriginFailure && error.phase === 'queue'
}

/** Whether a status says that the origin has the file, that it lacks the file, or that it fails. */
function standingOf(status: number): 'has it' | 'missing' | 'failing' {
  if (status === 404 || status === 410) return 'missing'
  const refuses = status === 401 || status === 403 || refusesAll(status)
  return status >= 500 || refuses ? 'failing' : 'has it'
}

/** Whether the file of an origin is older than the stored one. */
function isBehind({ status, fields }: OriginResponse, { stored }: Question): boolean {
  if (status !== 200 || stored === undefined) return false
  const before = validatorsOf(Fields.of(...stored.fields), stored.stored).lastModified
  const now = validatorsOf(fields, stored.stored).lastModified
  return before !== undefined && now !== undefined && now < before
}

/** The time until the moment in the field Retry-After (RFC 9110 section 10.2.3). */
function retryAfter(fields: Fields, now: Milliseconds): Milliseconds {
  const value = fields.get('Retry-After') ?? ''
  if (/^\d{1,9}$/.test(value)) return Number(value) * 1000
  return Math.max(0, (parseDate(value, now) ?? now) - now)
}
