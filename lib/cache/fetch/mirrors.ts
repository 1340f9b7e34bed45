/**
 * Asks the origins of one archive in turn until one has the file, the preferred one first and those that failed lately last.
 *
 * # Facts
 * - An origin that is down, refuses, or says 404 while its archive is being updated is one of several: the next one is asked.
 *   A 404 counts when no other origin has the file. Where something is stored, it counts only when no origin failed: a mirror
 *   that lags behind must not have a file removed that the others would confirm.
 * - While another origin could answer, ten seconds of silence are enough; the last one gets the configured deadlines.
 * - A transfer that breaks off asks here for the rest. The failed origin is then the last in turn.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { Failure } from '../../errors.ts'
import type { OriginDeadlines, OriginResponse } from '../../http/client/client.ts'
import { OriginFailure } from '../../http/client/errors.ts'
import { parseDate } from '../../http/message/date.ts'
import type { Fields } from '../../http/message/field.ts'
import { formatAuthority, formatUri, type TargetUri } from '../../http/message/target.ts'
import type { Logger } from '../../log/log.ts'

export interface MirrorParts {
  readonly clock: Clock
  readonly log: Logger
  /** Where a target may be fetched from, the preferred place first. */
  readonly places: (uri: TargetUri) => readonly TargetUri[]
  /** Deadlines while another origin could answer. */
  readonly impatient: () => Partial<OriginDeadlines>
  /** Told of every answer that does not come from the preferred origin. */
  readonly onFailover: () => void
}

/** Asks one origin. Throws what the origin client throws. */
export type AskOne = (
  uri: TargetUri,
  deadlines: Partial<OriginDeadlines> | undefined,
) => Promise<OriginResponse>

/** Silence of an origin that is too long while another could answer. */
export const patience: Milliseconds = 10_000

/** How long an origin that failed comes last: at first, doubled with every failure, at most. */
const firstRest: Milliseconds = 10_000
const longestRest: Milliseconds = 300_000

interface Health {
  readonly failures: number
  /** Until when it comes last, by `elapsed`. */
  until: Milliseconds
}

export class Mirrors {
  readonly #parts: MirrorParts
  /** Origins that failed, by authority; only those of configured archives. */
  readonly #ill = new Map<string, Health>()

  constructor(parts: MirrorParts) {
    this.#parts = parts
  }

  /**
   * The first answer that settles what is asked, else the answer or the failure of the preferred origin. `conditional` says
   * that something stored depends on the answer.
   */
  async ask(
    question: { readonly uri: TargetUri; readonly conditional: boolean; signal: AbortSignal },
    askOne: AskOne,
  ): Promise<OriginResponse> {
    const places = this.#parts.places(question.uri)
    if (places.length === 1) return askOne(question.uri, undefined)
    const inTurn = this.#inTurn(places)
    let missing: OriginResponse | undefined
    let refusing: OriginResponse | undefined
    let failure: unknown
    for (const [i, uri] of inTurn.entries()) {
      const hurry = inTurn.slice(i + 1).some(other => !this.#isIll(other))
      try {
        const response = await askOne(uri, hurry ? this.#parts.impatient() : undefined)
        const standing = standingOf(response.status)
        if (standing === 'ill') this.#note(uri, response.fields)
        else this.#ill.delete(nameOf(uri))
        if (standing === 'well') {
          if (uri !== places[0]) this.#parts.onFailover()
          return response
        }
        response.content.close()
        if (standing === 'missing') missing ??= response
        else refusing ??= response
      } catch (error) {
        if (question.signal.aborted || !isOrigins(error)) throw error
        this.#note(uri)
        failure ??= error
        this.#parts.log.warn('an origin failed, the next one is asked', {
          target: formatUri(uri),
          error,
        })
      }
    }
    const certain = refusing === undefined && failure === undefined
    if (missing !== undefined && (certain || !question.conditional)) return missing
    if (refusing !== undefined) return refusing
    throw failure
  }

  /** Notes the origin that broke off a transfer. */
  brokeOff(error: unknown): void {
    if (error instanceof OriginFailure) this.#noteName(error.origin)
  }

  /** Those that failed lately come last, the one whose time is over soonest first. */
  #inTurn(places: readonly TargetUri[]): readonly TargetUri[] {
    const now = this.#parts.clock.elapsed()
    const due = (uri: TargetUri): Milliseconds => this.#ill.get(nameOf(uri))?.until ?? 0
    const well = places.filter(uri => due(uri) <= now)
    // One request tries whether it is back, not all that come in the same moment.
    for (const uri of well) {
      const health = this.#ill.get(nameOf(uri))
      if (health !== undefined) health.until = now + firstRest
    }
    const ill = places.filter(uri => !well.includes(uri)).sort((a, b) => due(a) - due(b))
    return [...well, ...ill]
  }

  #isIll(uri: TargetUri): boolean {
    return (this.#ill.get(nameOf(uri))?.until ?? 0) > this.#parts.clock.elapsed()
  }

  #note(uri: TargetUri, fields?: Fields): void {
    this.#noteName(nameOf(uri), fields && retryAfter(fields, this.#parts.clock.now()))
  }

  #noteName(name: string, asked: Milliseconds = 0): void {
    const failures = (this.#ill.get(name)?.failures ?? 0) + 1
    const rest = Math.min(longestRest, firstRest * 2 ** (failures - 1))
    const until = this.#parts.clock.elapsed() + Math.max(rest, Math.min(asked, longestRest))
    if (this.#ill.size < mostIll || this.#ill.has(name)) this.#ill.set(name, { failures, until })
  }
}

/** Redirects lead to hosts no archive names. */
const mostIll = 1000

/** What a status says of the origin: it has the file, it has not, or it does not serve. */
function standingOf(status: number): 'well' | 'missing' | 'ill' {
  if (status === 404 || status === 410) return 'missing'
  return status >= 500 || status === 403 || status === 429 ? 'ill' : 'well'
}

function isOrigins(error: unknown): boolean {
  return error instanceof Failure && error.fault === 'upstream'
}

/** RFC 9110 section 10.2.3. */
function retryAfter(fields: Fields, now: Milliseconds): Milliseconds {
  const value = fields.get('Retry-After') ?? ''
  if (/^\d{1,9}$/.test(value)) return Number(value) * 1000
  return Math.max(0, (parseDate(value, now) ?? now) - now)
}

function nameOf(uri: TargetUri): string {
  return formatAuthority(uri)
}
