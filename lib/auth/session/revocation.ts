/**
 * Remembers sessions that ended before their time, so that a copied cookie ends with its session.
 *
 * They are in memory and, for restarts, in a file beside the dynamic configuration (`lib/files/lapsing-marks.ts`). NameIDs and users
 * are kept as hashes.
 *
 * # Marks in the file
 *     ["<mark>", before, until]     sessions made at or before `before` under a mark are over; it may be dropped after `until`
 *     ["*", before]                 the same for every session
 *
 * # In doubt
 * - A file that cannot be read at the start may have named any session: all that were made before are over, every user logs in once
 *   more. When another program changes the file while this process runs, it is written again from memory, and the log says so.
 * - When no file can be written, a logout still holds here, and is written when that is possible again.
 * - When there are too many entries the oldest is not forgotten: all sessions as old as it are over. Unsigned LogoutRequests,
 *   which any stranger can send, fill half of the list at most.
 */
import { createHash } from 'node:crypto'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { FileCalls } from '../../files/file-calls.ts'
import { LapsingMarks } from '../../files/lapsing-marks.ts'
import type { Logger } from '../../log/log.ts'
import type { Session } from './token.ts'

/**
 * The sessions that a revocation ends: one session, or one token of a person, by its ID; all sessions and tokens of a user, without regard
 * to case; the tokens of all users; or the sessions that a LogoutRequest names, which are all of a NameID at an issuer, or those of session
 * indexes.
 */
export type Revocation =
  | { readonly sessionId: string }
  | { readonly user: string }
  | { readonly everyToken: true }
  | { readonly issuer: string; readonly nameId: string; readonly sessionIndexes: readonly string[] }

/** The source of a revocation: a known person or IdP, or anyone, by a LogoutRequest without a signature. */
export type Revoker = 'known' | 'anyone'

interface RevocationOptions {
  readonly path: string
  readonly clock: Clock
  readonly log: Logger
  /** The longest lifetime of a session. Entries are dropped after it. */
  readonly lifetime: () => Milliseconds
  readonly most?: number
  readonly files?: FileCalls
}

export interface RevocationEntry {
  readonly before: Milliseconds
  readonly until: Milliseconds
}

type RevocationMark =
  | readonly [mark: string, before: Milliseconds, until: Milliseconds]
  | readonly [every: '*', before: Milliseconds]

const MOST = 200_000

/** The path that the names of the files begin with; it is beside the dynamic configuration. */
export function revocationsPath(configPath: string): string {
  return `${configPath}.revoked`
}

/** The list as sessions use it: the list of this instance, or one that instances share. */
export type EndedSessions = Pick<RevocationList, 'has' | 'add'>

export class RevocationList {
  readonly #options: RevocationOptions
  readonly #marks: LapsingMarks<RevocationMark>
  #entries = new Map<string, RevocationEntry>()
  /** Every session made at or before this moment has ended. */
  #allBefore: Milliseconds = Number.NEGATIVE_INFINITY
  /** The longest lifetime so far, of the setting and of sessions in use, because a reload may have made the setting shorter. */
  #longest: Milliseconds = 0

  private constructor(options: RevocationOptions) {
    const { path, clock, log, files } = options
    this.#options = options
    this.#marks = new LapsingMarks<RevocationMark>({
      path,
      clock,
      log,
      files,
      livingMarks: () => this.#living(),
      isMark,
      merge: marks => this.#merge(marks),
      onLoss: () => {
        this.#allBefore = clock.now()
      },
      sentences: {
        lost: 'the list of ended sessions cannot be read: all sessions are over, every user has to log in once more',
        changed:
          'another program changed the file of ended sessions: it is written again with what this process knows',
        unwritten:
          'ended sessions could not be written down: they stay ended here, but would be valid again after a restart',
      },
    })
  }

  /** Takes over what an earlier run has left. */
  static async open(options: RevocationOptions): Promise<RevocationList> {
    const list = new RevocationList(options)
    await list.#marks.open()
    return list
  }

  has(session: Session | EndableToken): boolean {
    this.#longest = Math.max(this.#longest, session.expires - session.created)
    if (session.created <= this.#allBefore) return true
    if (this.#entries.size === 0) return false
    return marksOf(session).some((mark, index) => {
      const entry = this.#entries.get(mark)
      // The first mark is the ID. What is ended by its ID has ended, whatever the clock says.
      return entry !== undefined && (index === 0 || session.created <= entry.before)
    })
  }

  /**
   * Enters a revocation, which takes effect at once. Answers whether all entries are on disk; the log says why not. Never throws.
   * Answers undefined, and enters nothing, when `anyone` asks and the list is half full.
   */
  async add(
    which: Revocation,
    by: Revoker = 'known',
  ): Promise<{ readonly isWritten: boolean } | undefined> {
    const { clock, log, lifetime, most = MOST } = this.#options
    const now = clock.now()
    const marks = marksToRevoke(which)
    this.#prune(now)
    if (by === 'anyone' && this.#entries.size + marks.length > most / 2) {
      log.warn('an unsigned LogoutRequest ends no session: the list of ended sessions is half full')
      return undefined
    }
    this.#longest = Math.max(this.#longest, lifetime())
    const longest = now + this.#longest
    // The lifetime may have been longer before, and another instance with a clock ahead of this one may have ended as much.
    const entered = marks.map(mark => this.#enter(mark, { before: now, until: longest }))
    this.#prune(now)
    return { isWritten: await this.#marks.add(entered) }
  }

  get entries(): ReadonlyMap<string, RevocationEntry> {
    return this.#entries
  }

  /** Takes over entries of another list, where theirs are later. The promise settles like that of `add`. */
  async takeIn(found: Iterable<readonly [mark: string, entry: RevocationEntry]>): Promise<void> {
    const now = this.#options.clock.now()
    const taken: RevocationMark[] = []
    for (const [mark, entry] of found) {
      const own = this.#entries.get(mark)
      if (entry.until <= now || (own !== undefined && own.before >= entry.before)) continue
      taken.push(this.#enter(mark, entry))
    }
    this.#prune(now)
    if (taken.length > 0) await this.#marks.add(taken)
  }

  /** Enters a mark as the latest, with the later moments of this entry and its earlier one. */
  #enter(mark: string, { before, until }: RevocationEntry) {
    const own = this.#entries.get(mark)
    const entry = {
      before: Math.max(before, own?.before ?? before),
      until: Math.max(until, own?.until ?? until),
    }
    this.#entries.delete(mark)
    this.#entries.set(mark, entry)
    return [mark, entry.before, entry.until] as const
  }

  /** Checks the files now. Never throws. */
  check(): Promise<void> {
    return this.#marks.check()
  }

  /** Ends the watch; settles when nothing is being read or written. */
  close(): Promise<void> {
    return this.#marks.close()
  }

  /** Drops entries that have lapsed, and the oldest when there are too many. The latest are at the end. */
  #prune(now: Milliseconds): void {
    const { most = MOST } = this.#options
    for (const [mark, { before, until }] of this.#entries) {
      if (until > now && this.#entries.size <= most) break
      // A moment in the future would end sessions that have not begun.
      if (until > now) this.#allBefore = Math.max(this.#allBefore, Math.min(before, now))
      this.#entries.delete(mark)
    }
  }

  /** `allBefore` is last: it may have grown, for entries that were dropped, while those before it were asked for. */
  *#living(): Iterable<RevocationMark> {
    this.#prune(this.#options.clock.now())
    for (const [mark, { before, until }] of this.#entries) yield [mark, before, until]
    if (Number.isFinite(this.#allBefore)) yield [EVERY, this.#allBefore]
  }

  /** Adds the marks of a file. */
  #merge(marks: readonly RevocationMark[]): void {
    const { clock, log, path } = this.#options
    const now = clock.now()
    let ordered = true
    let latest = [...this.#entries.values()].at(-1)?.before ?? Number.NEGATIVE_INFINITY
    for (const [mark, before, until = now] of marks) {
      if (mark === EVERY) {
        if (before > now) {
          log.warn(
            'the list of ended sessions has an allBefore in the future, which is not believed',
            {
              path,
              allBefore: new Date(before),
            },
          )
        }
        this.#allBefore = Math.max(this.#allBefore, Math.min(before, now))
        continue
      }
      const known = this.#entries.get(mark)
      if (known !== undefined && known.before >= before && known.until >= until) continue
      const [, entered] = this.#enter(mark, { before, until })
      ordered &&= entered >= latest
      latest = entered
    }
    if (!ordered)
      this.#entries = new Map([...this.#entries].sort(([, a], [, b]) => a.before - b.before))
    this.#prune(now)
  }
}

/** The mark that stands for every session. No other mark is so short. */
const EVERY = '*'

function isMark(found: unknown): found is RevocationMark {
  const [mark, before, until, ...more]: readonly unknown[] = Array.isArray(found) ? found : []
  if (typeof mark !== 'string' || !Number.isFinite(before) || more.length > 0) return false
  return mark === EVERY ? until === undefined : Number.isFinite(until)
}

/** The marks of sessions that were asked about. They are remembered, because hashing costs more than the rest of a request. */
const known = new WeakMap<Session, readonly string[]>()

/** A token as the record of tokens has it: its moments, and what `marksOf` answered for it. */
export interface EndableToken extends Pick<Session, 'created' | 'expires'> {
  readonly marks: readonly string[]
}

/** The marks that end a session or a token; the first is its ID. */
export function marksOf(session: Session | EndableToken): readonly string[] {
  if ('marks' in session) return session.marks
  const marks = known.get(session) ?? marksAnew(session)
  known.set(session, marks)
  return marks
}

/** The end of one session of a browser (a session index) leaves tokens; that of all sessions of a NameID ends them. */
function marksAnew({ id, subject, token, ...session }: Session): readonly string[] {
  const { issuer, nameId, sessionIndex } = session
  const ofAll = [id, userMark(subject), ...(token === undefined ? [] : [EVERY_TOKEN])]
  if (nameId === undefined) return ofAll
  const own = [...ofAll, mark(issuer, nameId.value)]
  if (token !== undefined) return own
  return sessionIndex === undefined ? own : [...own, mark(issuer, nameId.value, sessionIndex)]
}

/** The most session indexes of one request; more of them end all sessions of the user. */
const MOST_INDEXES = 100

/** The marks under which a revocation is entered. */
export function marksToRevoke(which: Revocation): readonly string[] {
  if ('sessionId' in which) return [which.sessionId]
  if ('user' in which) return [userMark(which.user)]
  if ('everyToken' in which) return [EVERY_TOKEN]
  const { issuer, nameId, sessionIndexes } = which
  // A request without an index is for every session of the NameID (saml-core-2.0-os section 3.7.1).
  if (sessionIndexes.length === 0 || sessionIndexes.length > MOST_INDEXES) {
    return [mark(issuer, nameId)]
  }
  return sessionIndexes.map(index => mark(issuer, nameId, index))
}

/**
 * The form of a user's name by which revocations compare users. It ignores differences of spelling, because it is better to end
 * too many sessions than to leave one that should end.
 */
export function sameUser(subject: string): string {
  return subject.normalize('NFC').toLowerCase()
}

/** The issuer of the mark is empty. No real issuer is, so the mark of a NameID never equals that of a user. */
function userMark(subject: string): string {
  return mark('', 'user', sameUser(subject))
}

function mark(...parts: readonly string[]): string {
  return createHash('sha256').update(parts.join('\0')).digest('base64url')
}

const EVERY_TOKEN = mark('', 'every token')
