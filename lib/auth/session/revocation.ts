/**
 * Sessions that ended before their time, so that a copied cookie dies with its session. Kept in memory and, for restarts and
 * for a second process beside this one, in a file beside the dynamic configuration. NameIDs are kept as hashes.
 *
 * # In doubt
 * - A file that cannot be read may have named anybody: every session made before is over, and everybody logs in once more.
 * - A file that cannot be written costs nobody the logout: it holds here, and is written when that is possible again.
 * - When there are too many entries the oldest is not forgotten: all sessions as old as it are over.
 */
import { createHash } from 'node:crypto'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { Logger } from '../../log/log.ts'
import {
  appearance,
  noRevocations,
  type RevocationEntry,
  type Revocations,
  readRevocations,
  setAside,
  writeRevocations,
} from './revocation-file.ts'
import type { Session } from './token.ts'

/** One session by its ID, or what a LogoutRequest names: all of a NameID's at an issuer, or those of a session index. */
export type Revocation =
  | { readonly sessionId: string }
  | { readonly issuer: string; readonly nameId: string; readonly sessionIndexes: readonly string[] }

export interface RevocationOptions {
  readonly path: string
  readonly clock: Clock
  readonly log: Logger
  /** The longest a session can last: entries are dropped after it. */
  readonly lifetime: () => Milliseconds
  /** Entries at most. */
  readonly most?: number
}

const MOST = 200_000
/** How often the file is looked at, and written again when it could not be. */
const INTERVAL: Milliseconds = 1000
const RETRY: Milliseconds = 60_000

export class RevocationList {
  readonly #options: RevocationOptions
  #entries = new Map<string, RevocationEntry>()
  #allBefore = noRevocations.allBefore
  /** The longest lifetime so far: sessions made under it may still be about. */
  #longest: Milliseconds = 0
  /** What the file looked like when it was last read or written. */
  #seen: string | undefined
  /** When what is here alone is to be written. */
  #dueAt: Milliseconds = Number.POSITIVE_INFINITY
  #writing: Promise<void> = Promise.resolve()
  #waiting: Promise<void> | undefined
  #cancelWatch = () => {}
  #checking: Promise<void> = Promise.resolve()
  #closed = false

  private constructor(options: RevocationOptions) {
    this.#options = options
  }

  /** Reads the file if there is one, and watches it. */
  static async open(options: RevocationOptions): Promise<RevocationList> {
    const list = new RevocationList(options)
    const { path, clock, log } = options
    list.#seen = await appearance(path)
    try {
      list.#merge(await readRevocations(path))
    } catch (error) {
      const aside = await setAside(path)
      list.#allBefore = clock.now()
      log.error(
        'the list of ended sessions cannot be read: all sessions are over, everybody logs in once more',
        { path, error, ...(aside ? { kept_as: `${path}.damaged` } : {}) },
      )
      await list.#save()
    }
    list.#watch()
    return list
  }

  has(session: Session): boolean {
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

  /** Enters a revocation, which holds at once; settles when it is on disk, or cannot be, which the log tells. Never throws. */
  add(which: Revocation): Promise<void> {
    const { clock, lifetime } = this.#options
    const now = clock.now()
    this.#longest = Math.max(this.#longest, lifetime())
    const entry = { before: now, until: now + this.#longest }
    for (const mark of marksToRevoke(which)) this.#enter(mark, entry)
    this.#prune(now)
    return this.#save()
  }

  /** Looks at the file now: another process may have written it, or ours may still be due. Never throws. */
  async check(): Promise<void> {
    const { path, clock, log } = this.#options
    const now = await appearance(path)
    if (now !== undefined && now !== this.#seen) {
      this.#seen = now
      try {
        if (this.#merge(await readRevocations(path))) return await this.#save()
      } catch (error) {
        log.error('the list of ended sessions was changed and cannot be read; ours is written', {
          path,
          error,
        })
        return await this.#save()
      }
    }
    if (clock.now() >= this.#dueAt) await this.#save()
  }

  /** Ends the watch; settles when nothing is being read or written any more. */
  async close(): Promise<void> {
    this.#closed = true
    this.#cancelWatch()
    await this.#checking
    if (this.#dueAt < Number.POSITIVE_INFINITY) await this.#save()
    await this.#writing
  }

  /** The latest at the end, so that the first entries are the first that may go. */
  #enter(mark: string, entry: RevocationEntry): void {
    this.#entries.delete(mark)
    this.#entries.set(mark, entry)
  }

  #prune(now: Milliseconds): void {
    const { most = MOST } = this.#options
    for (const [mark, { before, until }] of this.#entries) {
      if (until > now && this.#entries.size <= most) break
      if (until > now) this.#allBefore = Math.max(this.#allBefore, before)
      this.#entries.delete(mark)
    }
  }

  /** Takes what the file says over; true when there is something here that it does not say. */
  #merge(found: Revocations): boolean {
    const { clock, log, path } = this.#options
    const now = clock.now()
    if (found.allBefore > now) {
      log.warn(
        'the list of ended sessions ends sessions that are still to be made; it is not believed',
        {
          path,
          allBefore: new Date(found.allBefore),
        },
      )
    }
    const own = this.#entries
    const ownAllBefore = this.#allBefore
    this.#allBefore = Math.max(ownAllBefore, Math.min(found.allBefore, now))
    const news = [...own].filter(([mark, { before }]) => {
      return before > (found.entries.get(mark)?.before ?? Number.NEGATIVE_INFINITY)
    })
    if (own.size === 0) this.#entries = new Map(found.entries)
    else {
      const all = new Map([...found.entries, ...news])
      this.#entries = new Map([...all].sort(([, a], [, b]) => a.before - b.before))
    }
    this.#prune(now)
    return news.length > 0 || ownAllBefore > found.allBefore
  }

  /** One write serves all who come while another is under way. */
  #save(): Promise<void> {
    this.#waiting ??= this.#writing.then(() => {
      this.#waiting = undefined
      this.#writing = this.#write()
      return this.#writing
    })
    return this.#waiting
  }

  async #write(): Promise<void> {
    const { path, clock, log } = this.#options
    try {
      // What another process has written since is not to be lost.
      const now = await appearance(path)
      if (now !== undefined && now !== this.#seen) {
        this.#merge(await readRevocations(path).catch(() => noRevocations))
      }
      this.#dueAt = Number.POSITIVE_INFINITY
      await writeRevocations(path, { allBefore: this.#allBefore, entries: this.#entries })
      this.#seen = await appearance(path)
    } catch (error) {
      this.#dueAt = clock.now() + RETRY
      log.error(
        'ended sessions could not be written down: they stay ended here, but would live again after a restart',
        { path, error },
      )
    }
  }

  #watch(): void {
    if (this.#closed) return
    this.#cancelWatch = this.#options.clock.after(INTERVAL, () => {
      this.#checking = this.check().finally(() => this.#watch())
    })
  }
}

function marksOf({ id, issuer, nameId, sessionIndex }: Session): readonly string[] {
  if (nameId === undefined) return [id]
  const own = [id, mark(issuer, nameId.value)]
  return sessionIndex === undefined ? own : [...own, mark(issuer, nameId.value, sessionIndex)]
}

/** Sessions named one by one; more of them than this mean all of somebody's. */
const MOST_INDEXES = 100

function marksToRevoke(which: Revocation): readonly string[] {
  if ('sessionId' in which) return [which.sessionId]
  const { issuer, nameId, sessionIndexes } = which
  // Without an index every session of the NameID is meant (SAML core 3.7.1).
  if (sessionIndexes.length === 0 || sessionIndexes.length > MOST_INDEXES) {
    return [mark(issuer, nameId)]
  }
  return sessionIndexes.map(index => mark(issuer, nameId, index))
}

function mark(...parts: readonly string[]): string {
  return createHash('sha256').update(parts.join('\0')).digest('base64url')
}
