/**
 * Remembers the origins that fail, and reports those that have confirmed nothing for ten minutes while clients asked: once in the log, and
 * on the pages, in `status` and in the metrics until they confirm something.
 *
 * | State | The origin fails or is slow | The origin confirms |
 * |---|---|---|
 * | well: not remembered | failing, from now on | well |
 * | failing | failing, with the newer reason; reported when that has lasted ten minutes, with a warning | well |
 * | reported | reported, with the newer reason | well, with a line in the log |
 *
 * # Facts
 * - An origin confirms with a 304, with content that came whole, and with any status that is an answer (revalidation.ts).
 * - Clients choose the names of origins. A name that does not exist or may not be asked is not reported unless a file of it is stored,
 *   and an origin that nobody has asked for a day is no longer reported. Origins with stored files and others have a memory each, so
 *   that invented names make it forget no origin that matters.
 */
import { type Clock, day, type Milliseconds } from '../../async/clock.ts'
import type { Failure } from '../../errors.ts'
import type { TargetUri } from '../../http/message/target.ts'
import type { Logger } from '../../log/log.ts'
import { recentEntries } from '../../recent.ts'
import { isUpstream } from './failures.ts'
import { originName } from './mirrors.ts'
import { isOfParent } from './revalidation.ts'

/** The time without a confirmation after which an origin is reported. */
const longestSilence: Milliseconds = 10 * 60_000

/** The most origins that each memory holds. */
const mostOrigins = 1000

/** The reason for which an origin confirmed nothing. */
export interface OriginTrouble {
  /** `origin-503`, `parent-403`, the code of a failure, or `slow` when no answer has come yet. */
  readonly because: string
  /** The IP address that was asked, if it is known. */
  readonly address?: string | undefined
  /** The phase of the request that failed. */
  readonly phase?: string | undefined
}

/** An origin that is reported. */
export interface UnconfirmedOrigin extends OriginTrouble {
  readonly origin: string
  /** The moment of the first failure, in milliseconds since the epoch. */
  readonly since: Milliseconds
  /** The time since then. */
  readonly lasts: Milliseconds
}

interface Failing {
  readonly since: Milliseconds
  /** The moment of the first failure, and of the last one, by `elapsed`. */
  readonly first: Milliseconds
  last: Milliseconds
  trouble: OriginTrouble
  reported: boolean
}

/** The codes of failures that say nothing about the origin: this proxy did not ask it, or all connections to it were in use. */
const unasked: ReadonlySet<string> = new Set([
  ...['offline', 'NOT_SHARED', 'TOO_MANY_FETCHES'],
  ...['ORIGIN_QUEUE_FULL', 'ORIGIN_QUEUE_TIMEOUT', 'ORIGIN_CREDENTIALS_READABLE', 'ORIGIN_PAUSED'],
])

/** The codes of failures with which a name that clients invent is answered as well. */
const unknownNames: ReadonlySet<string> = new Set([
  ...['ORIGIN_DNS_NOT_FOUND', 'ORIGIN_ADDRESS_REFUSED', 'REDIRECT_REFUSED'],
])

export class UnconfirmedOrigins {
  readonly #clock: Clock
  readonly #log: Logger
  /** The origins of which a stored file was asked about. */
  readonly #failing = recentEntries<string, Failing>(mostOrigins)
  /** The other ones. */
  readonly #strangers = recentEntries<string, Failing>(mostOrigins)

  constructor({ clock, log }: { readonly clock: Clock; readonly log: Logger }) {
    this.#clock = clock
    this.#log = log
  }

  confirmed(uri: TargetUri): void {
    if (this.#failing.size + this.#strangers.size === 0) return
    const origin = originName(uri)
    if (this.#known(origin)?.reported === true) {
      this.#log.info('an origin confirms what is stored again', { origin })
    }
    this.#failing.delete(origin)
    this.#strangers.delete(origin)
  }

  /** Notes a status that says that the origin fails. */
  answered(
    uri: TargetUri,
    said: { readonly status: number; readonly parent?: string | undefined; address?: string },
    stored: boolean,
  ): void {
    const { status, parent, address } = said
    const side = isOfParent(status, parent) ? 'parent' : 'origin'
    this.#note(uri, { because: `${side}-${status}`, address, phase: 'status' }, stored)
  }

  /** Notes a failure of a fetch, unless it says nothing about the origin. */
  failed(uri: TargetUri, failure: Failure, stored: boolean): void {
    const { code, facts } = failure
    if (!isUpstream(failure) || unasked.has(code)) return
    const text = (value: unknown) => (typeof value === 'string' ? value : undefined)
    const trouble = { because: code, address: text(facts['address']), phase: text(facts['phase']) }
    this.#note(uri, trouble, stored)
  }

  /** Notes that a client with a stored file has stopped waiting for an answer. */
  slow(uri: TargetUri): void {
    const known = this.#known(originName(uri))?.trouble
    this.#note(uri, known ?? { because: 'slow' }, true)
  }

  /** The last reason for which the origin confirmed nothing; undefined when it has confirmed something since. */
  trouble(uri: TargetUri): OriginTrouble | undefined {
    return this.#known(originName(uri))?.trouble
  }

  /** The origins that are reported, the one for the longest time first. */
  get reported(): readonly UnconfirmedOrigin[] {
    const now = this.#clock.elapsed()
    return [...this.#failing.entries(), ...this.#strangers.entries()]
      .filter(([, { reported, last }]) => reported && now - last < day)
      .map(([origin, { since, first, trouble }]) => {
        return { origin, since, lasts: now - first, ...trouble }
      })
      .sort((a, b) => b.lasts - a.lasts)
  }

  #known(origin: string): Failing | undefined {
    return this.#failing.peek(origin) ?? this.#strangers.peek(origin)
  }

  #note(uri: TargetUri, trouble: OriginTrouble, stored: boolean): void {
    const origin = originName(uri)
    const now = this.#clock.elapsed()
    const since = this.#clock.now()
    const failing = this.#known(origin) ?? {
      since,
      first: now,
      last: now,
      trouble,
      reported: false,
    }
    const matters = stored || this.#failing.has(origin)
    if (matters) this.#strangers.delete(origin)
    ;(matters ? this.#failing : this.#strangers).set(origin, failing)
    failing.last = now
    failing.trouble = trouble
    if (failing.reported || now - failing.first < longestSilence) return
    if (!matters && unknownNames.has(trouble.because)) return
    failing.reported = true
    this.#log.warn('an origin confirms nothing; clients get what is stored, or an error', {
      origin,
      since: new Date(failing.since).toISOString(),
      ...trouble,
    })
  }
}
