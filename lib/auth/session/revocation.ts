/**
 * Remembers sessions that ended before their time, so that a copied cookie ends with its session.
 *
 * They are in memory and, for restarts and for a second process beside this one, in a file beside the dynamic configuration.
 * NameIDs and users are kept as hashes.
 *
 * # Format of the file, version 1
 *     { "version": 1, "allBefore": 1900000000000, "entries": [["<mark>", { "before": …, "until": … }], …] }
 * Sessions made at or before `before` under a mark are over; the entry may be dropped after `until`. `allBefore`, when there, is
 * the same for every session. Moments are milliseconds since the epoch. Oldest entry first.
 *
 * # In doubt
 * - A file that cannot be read may have named any session: all that were made before are over, every user logs in once more.
 * - When the file cannot be written, a logout still holds here, and is written when that is possible again.
 * - When there are too many entries the oldest is not forgotten: all sessions as old as it are over. Unsigned LogoutRequests,
 *   which any stranger can send, fill half of the list at most.
 */
import { createHash } from 'node:crypto'
import { link, rename, rm } from 'node:fs/promises'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { unlessMissing } from '../../errors.ts'
import { writeFileAtomically } from '../../files/atomic-file.ts'
import { readBounded } from '../../files/bounded-file.ts'
import { isRecord } from '../../json.ts'
import type { Logger } from '../../log/log.ts'
import { WatchedFile } from '../keys/watched-file.ts'
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

export interface RevocationEntry {
  readonly before: Milliseconds
  readonly until: Milliseconds
}

interface Revocations {
  /** Every session made at or before this moment is over. */
  readonly allBefore: Milliseconds
  readonly entries: ReadonlyMap<string, RevocationEntry>
}

const noRevocations: Revocations = {
  allBefore: Number.NEGATIVE_INFINITY,
  entries: new Map(),
}

const MOST = 200_000
/** Three times what the most entries take. */
const LARGEST = 64 * 1024 * 1024

/** The file of an instance, beside its dynamic configuration. */
export function revocationsFile(configPath: string): string {
  return `${configPath}.revoked.json`
}

/** The list as sessions use it: that of this instance, or one that instances share. */
export type EndedSessions = Pick<RevocationList, 'has' | 'add' | 'isWritten'>

export class RevocationList {
  readonly #options: RevocationOptions
  readonly #file: WatchedFile
  #entries = new Map<string, RevocationEntry>()
  #allBefore = noRevocations.allBefore
  /** The longest lifetime so far, of the setting and of sessions in use: a reload may have made the setting shorter. */
  #longest: Milliseconds = 0

  private constructor(options: RevocationOptions) {
    const { path, clock, log } = options
    this.#options = options
    this.#file = new WatchedFile({
      path,
      clock,
      changed: () => this.#changed(),
      write: () => this.#write(),
      failed: error =>
        log.error(
          'ended sessions could not be written down: they stay ended here, but would be valid again after a restart',
          { path, error },
        ),
    })
  }

  /** Reads the file if there is one, and watches it. */
  static async open(options: RevocationOptions): Promise<RevocationList> {
    const list = new RevocationList(options)
    const { path, clock, log } = options
    await list.#file.look()
    try {
      list.#merge(await readRevocations(path))
    } catch (error) {
      // Kept, so that it can be looked at. It stays in its place until another is written: without a file no session would be over.
      const aside = await keepAs(path, `${path}.damaged`).then(
        () => ({ kept_as: `${path}.damaged` }),
        () => ({}),
      )
      list.#allBefore = clock.now()
      log.error(
        'the list of ended sessions cannot be read: all sessions are over, every user has to log in once more',
        { path, error, ...aside },
      )
      await list.#file.write()
    }
    list.#file.watch()
    return list
  }

  has(session: Session): boolean {
    this.#longest = Math.max(this.#longest, session.expires - session.created)
    if (session.created <= this.#allBefore) return true
    if (this.#entries.size === 0) return false
    return marksOf(session).some(mark => {
      const entry = this.#entries.get(mark)
      return entry !== undefined && session.created <= entry.before
    })
  }

  /** Entries held. */
  get size(): number {
    return this.#entries.size
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
    if (by === 'anyone' && this.#entries.size + marks.length > most / 2) {
      log.warn('an unsigned LogoutRequest ends no session: the list of ended sessions is half full')
      return false
    }
    this.#longest = Math.max(this.#longest, lifetime())
    const longest = now + this.#longest
    for (const mark of marks) {
      // The lifetime may have been longer before.
      const until = Math.max(longest, this.#entries.get(mark)?.until ?? longest)
      this.#entries.delete(mark)
      this.#entries.set(mark, { before: now, until })
    }
    this.#prune(now)
    await this.#file.write()
    return true
  }

  /** What the list holds, by mark. */
  get entries(): ReadonlyMap<string, RevocationEntry> {
    return this.#entries
  }

  /** Takes in what another list holds of these marks, where that is later; settles as `add` does. */
  async takeIn(found: Iterable<readonly [mark: string, entry: RevocationEntry]>): Promise<void> {
    const now = this.#options.clock.now()
    let more = false
    for (const [mark, { before, until }] of found) {
      const own = this.#entries.get(mark)
      if (until <= now || (own !== undefined && own.before >= before)) continue
      this.#entries.delete(mark)
      this.#entries.set(mark, { before, until: Math.max(until, own?.until ?? until) })
      more = true
    }
    this.#prune(now)
    if (more) await this.#file.write()
  }

  /** Whether all entries are on disk. */
  get isWritten(): boolean {
    return this.#file.isWritten
  }

  /** Looks at the file now. Never throws. */
  check(): Promise<void> {
    return this.#file.check()
  }

  /** Ends the watch; settles when nothing is being read or written any more. */
  close(): Promise<void> {
    return this.#file.close()
  }

  /** Drops entries that have lapsed, and the oldest when there are too many. The latest are at the end. */
  #prune(now: Milliseconds): void {
    const { most = MOST } = this.#options
    for (const [mark, { before, until }] of this.#entries) {
      if (until > now && this.#entries.size <= most) break
      // A moment to come would end sessions that have not begun.
      if (until > now) this.#allBefore = Math.max(this.#allBefore, Math.min(before, now))
      this.#entries.delete(mark)
    }
  }

  /** Adds what the file says; true when there is something here that it does not say. */
  #merge(found: Revocations): boolean {
    const { clock, log, path } = this.#options
    const now = clock.now()
    if (found.allBefore > now) {
      const allBefore = new Date(found.allBefore)
      log.warn('the list of ended sessions has an allBefore in the future, which is not believed', {
        path,
        allBefore,
      })
    }
    const own = [...this.#entries].filter(([mark, { before }]) => {
      return before > (found.entries.get(mark)?.before ?? Number.NEGATIVE_INFINITY)
    })
    const more = own.length > 0 || this.#allBefore > found.allBefore
    this.#allBefore = Math.max(this.#allBefore, Math.min(found.allBefore, now))
    const all = [...new Map([...found.entries, ...own])]
    this.#entries = new Map(
      own.length === 0 ? all : all.sort(([, a], [, b]) => a.before - b.before),
    )
    this.#prune(now)
    return more
  }

  /** Another process has written the file: what it says counts as well, and what it lacks is written again. */
  async #changed(): Promise<void> {
    const { path, log } = this.#options
    try {
      if (!this.#merge(await readRevocations(path))) return
    } catch (error) {
      log.error('the list of ended sessions was changed and cannot be read; ours is written', {
        path,
        error,
      })
    }
    await this.#file.write()
  }

  async #write(): Promise<void> {
    const { path } = this.#options
    // What another process has written since is not to be lost.
    if (await this.#file.look()) this.#merge(await readRevocations(path).catch(() => noRevocations))
    const known = Number.isFinite(this.#allBefore) ? { allBefore: this.#allBefore } : {}
    const text = JSON.stringify({ version: 1, ...known, entries: [...this.#entries] })
    await writeFileAtomically(path, text, { mode: 0o600 })
  }
}

/** Gives a file another name besides its own; what can have no second name, such as a directory, is moved. */
async function keepAs(path: string, kept: string): Promise<void> {
  await rm(kept, { force: true })
  await link(path, kept).catch(() => rename(path, kept))
}

/** Reads the file; nothing when there is none. Throws one sentence when it cannot be read, or is not what we write. */
async function readRevocations(path: string): Promise<Revocations> {
  const found = await unlessMissing(readBounded(path, LARGEST))
  if (found === undefined) return noRevocations
  const file: unknown = JSON.parse(found.bytes.toString())
  if (!isRecord(file) || file['version'] !== 1) throw new Error('it has another version, or none')
  const { allBefore = noRevocations.allBefore, entries } = file
  if (typeof allBefore !== 'number') throw new Error('its allBefore is no moment')
  if (!Array.isArray(entries) || !entries.every(isEntry)) throw new Error('its entries are none')
  return { allBefore, entries: new Map(entries) }
}

function isEntry(found: unknown): found is readonly [string, RevocationEntry] {
  const [mark, entry]: readonly unknown[] = Array.isArray(found) ? found : []
  if (typeof mark !== 'string' || !isRecord(entry)) return false
  return Number.isFinite(entry['before']) && Number.isFinite(entry['until'])
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

/** The marks under which a revocation is entered. */
export function marksToRevoke(which: Revocation): readonly string[] {
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
