/**
 * Remembers sessions that ended before their time, so that a copied cookie ends with its session.
 *
 * They are in memory and, for restarts and for a second process beside this one, in a file beside the dynamic configuration.
 * NameIDs and users are kept as hashes.
 *
 * Sessions made at or before `before` under a mark are over (keys/lapsing-marks.ts). The mark `*` is that of every session.
 *
 * # In doubt
 * - A file that cannot be read may have named any session: all that were made before are over, every user logs in once more.
 * - When the file cannot be written, a logout still holds here, and is written when that is possible again.
 * - When there are too many entries the oldest is not forgotten: all sessions as old as it are over. Unsigned LogoutRequests,
 *   which any stranger can send, fill half of the list at most.
 */
import { createHash } from 'node:crypto'
import { rename } from 'node:fs/promises'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { isRecord } from '../../json.ts'
import type { Logger } from '../../log/log.ts'
import { type Lapse, LapsingMarks } from '../keys/lapsing-marks.ts'
import type { Session } from './token.ts'

/**
 * One session by its ID; all of a user, in capitals or not; or what a LogoutRequest names: all of a NameID's at an issuer, or those
 * of a session index.
 */
export type Revocation =
  | { readonly sessionId: string }
  | { readonly user: string }
  | { readonly issuer: string; readonly nameId: string; readonly sessionIndexes: readonly string[] }

/** Who asks for a revocation: a person or an IdP that is known, or anyone, by a LogoutRequest without a signature. */
export type Revoker = 'known' | 'anyone'

interface RevocationOptions {
  readonly path: string
  readonly clock: Clock
  readonly log: Logger
  /** The longest a session can last: entries are dropped after it. */
  readonly lifetime: () => Milliseconds
  /** Entries at most. */
  readonly most?: number
}

/** The mark of every session. */
const ALL = '*'
/** A moment that never comes; one of JSON, as no infinity is. */
const NEVER: Milliseconds = Number.MAX_SAFE_INTEGER

const MOST = 200_000
/** Bytes, twice what the most entries take, and as many that have lapsed. */
const LARGEST = 64 * 1024 * 1024

/** The file of an instance, beside its dynamic configuration. */
export function revocationsFile(configPath: string): string {
  return `${configPath}.revoked.json`
}

export class RevocationList {
  readonly #options: RevocationOptions
  readonly #marks: LapsingMarks
  /** The longest lifetime so far, of the setting and of sessions in use: a reload may have made the setting shorter. */
  #longest: Milliseconds = 0

  private constructor(options: RevocationOptions) {
    const { path, clock, log } = options
    this.#options = options
    this.#marks = new LapsingMarks({
      path,
      clock,
      largest: LARGEST,
      legacy: versionOne,
      believed: (mark, lapse) => this.#believed(mark, lapse),
      failed: (error, doing) =>
        log.error(
          doing === 'write'
            ? 'ended sessions could not be written down: they stay ended here, but would be valid again after a restart'
            : 'the list of ended sessions was changed and cannot be read; ours is written',
          { path, error },
        ),
    })
  }

  /** Reads the file if there is one, and watches it. */
  static async open(options: RevocationOptions): Promise<RevocationList> {
    const list = new RevocationList(options)
    const { path, clock, log } = options
    try {
      await list.#marks.load()
    } catch (error) {
      // Out of the way, so that it can be looked at.
      const aside = await rename(path, `${path}.damaged`).then(
        () => ({ kept_as: `${path}.damaged` }),
        () => ({}),
      )
      list.#marks.set(ALL, { before: clock.now(), until: NEVER })
      log.error(
        'the list of ended sessions cannot be read: all sessions are over, every user has to log in once more',
        { path, error, ...aside },
      )
      await list.#marks.save()
    }
    list.#marks.watch()
    return list
  }

  has(session: Session): boolean {
    this.#longest = Math.max(this.#longest, session.expires - session.created)
    if (this.#marks.size === 0) return false
    const isOver = (mark: string) =>
      session.created <= (this.#marks.get(mark)?.before ?? Number.NEGATIVE_INFINITY)
    return isOver(ALL) || marksOf(session).some(isOver)
  }

  /** Entries held. */
  get size(): number {
    return this.#marks.size - (this.#marks.get(ALL) === undefined ? 0 : 1)
  }

  /**
   * Enters a revocation, which holds at once; settles when it is on disk, or cannot be, which the log tells. Never throws. False,
   * and nothing is entered, when `anyone` asks and the list is half full.
   */
  async add(which: Revocation, by: Revoker = 'known'): Promise<boolean> {
    const { clock, log, lifetime, most = MOST } = this.#options
    const now = clock.now()
    const marks = marksToRevoke(which)
    this.#prune(now)
    if (by === 'anyone' && this.size + marks.length > most / 2) {
      log.warn('an unsigned LogoutRequest ends no session: the list of ended sessions is half full')
      return false
    }
    this.#longest = Math.max(this.#longest, lifetime())
    const entry = { before: now, until: now + this.#longest }
    for (const mark of marks) this.#marks.set(mark, entry)
    this.#prune(now)
    await this.#marks.save()
    return true
  }

  /** Whether all entries are on disk. */
  get isWritten(): boolean {
    return this.#marks.isWritten
  }

  /** Looks at the file now. Never throws. */
  check(): Promise<void> {
    return this.#marks.check()
  }

  /** Ends the watch; settles when nothing is being read or written any more. */
  close(): Promise<void> {
    return this.#marks.close()
  }

  /** Drops entries that have lapsed, and the oldest when there are too many. The latest are at the end. */
  #prune(now: Milliseconds): void {
    const { most = MOST } = this.#options
    let allBefore = 0
    for (const [mark, { before, until }] of this.#marks) {
      if (mark === ALL) continue
      if (until > now && this.size <= most) break
      if (until > now) allBefore = Math.max(allBefore, before)
      this.#marks.remove(mark)
    }
    if (allBefore > (this.#marks.get(ALL)?.before ?? 0)) {
      this.#marks.set(ALL, { before: allBefore, until: NEVER })
    }
  }

  /** No line ends sessions of the future: no person could sign in. */
  #believed(mark: string, lapse: Lapse): Lapse {
    const { clock, log, path } = this.#options
    const now = clock.now()
    if (mark !== ALL || lapse.before <= now) return lapse
    const allBefore = new Date(lapse.before)
    log.warn('the list of ended sessions has an allBefore in the future, which is not believed', {
      path,
      allBefore,
    })
    return { ...lapse, before: now }
  }
}

/** What a file of version 1 says. Throws one sentence when it is not what that version wrote. */
function* versionOne({
  allBefore,
  entries,
}: Readonly<Record<string, unknown>>): Iterable<readonly [string, Lapse]> {
  if (allBefore !== undefined) {
    if (typeof allBefore !== 'number') throw new Error('its allBefore is no moment')
    yield [ALL, { before: allBefore, until: NEVER }]
  }
  if (!Array.isArray(entries)) throw new Error('its entries are none')
  for (const entry of entries) {
    const [mark, lapse]: readonly unknown[] = Array.isArray(entry) ? entry : []
    const { before, until } = isRecord(lapse) ? lapse : {}
    if (typeof mark !== 'string' || typeof before !== 'number' || typeof until !== 'number') {
      throw new Error('one of its entries is of another form')
    }
    yield [mark, { before, until }]
  }
}

/** Marks of sessions that were asked about: hashing costs more than the rest of a request. */
const known = new WeakMap<Session, readonly string[]>()

function marksOf(session: Session): readonly string[] {
  const marks = known.get(session) ?? marksAnew(session)
  known.set(session, marks)
  return marks
}

function marksAnew({ id, subject, issuer, nameId, sessionIndex }: Session): readonly string[] {
  const ofAll = [id, userMark(subject)]
  if (nameId === undefined) return ofAll
  const own = [...ofAll, mark(issuer, nameId.value)]
  return sessionIndex === undefined ? own : [...own, mark(issuer, nameId.value, sessionIndex)]
}

/** Sessions named one by one; more of them than this mean all of the user's. */
const MOST_INDEXES = 100

function marksToRevoke(which: Revocation): readonly string[] {
  if ('sessionId' in which) return [which.sessionId]
  if ('user' in which) return [userMark(which.user)]
  const { issuer, nameId, sessionIndexes } = which
  // Without an index every session of the NameID is meant (SAML core 3.7.1).
  if (sessionIndexes.length === 0 || sessionIndexes.length > MOST_INDEXES) {
    return [mark(issuer, nameId)]
  }
  return sessionIndexes.map(index => mark(issuer, nameId, index))
}

/** A user as ends of sessions compare one: a spelling too many ends a session, one too few leaves a session that should end. */
export function sameUser(subject: string): string {
  return subject.normalize('NFC').toLowerCase()
}

/** No issuer is empty, so that the mark of a NameID is none of a user. */
function userMark(subject: string): string {
  return mark('', 'user', sameUser(subject))
}

function mark(...parts: readonly string[]): string {
  return createHash('sha256').update(parts.join('\0')).digest('base64url')
}
