/**
 * Sessions that ended before their time, so that a copied cookie dies with its session. Kept in memory and, for restarts, in
 * a small file beside the dynamic configuration. NameIDs are kept as hashes.
 */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { writeFileAtomically } from '../../atomic-file.ts'
import type { Clock, Milliseconds } from '../../clock.ts'
import { systemCode } from '../../errors.ts'
import type { Logger } from '../../log.ts'
import type { Revocation, Session } from '../saml/contract.ts'

export interface RevocationOptions {
  readonly path: string
  readonly clock: Clock
  readonly log: Logger
  /** The longest a session can last: entries are dropped after it. */
  readonly lifetime: () => Milliseconds
}

/** Sessions made at or before `before` under this mark are over. Entries go once none can be left. */
interface Entry {
  readonly before: Milliseconds
  readonly until: Milliseconds
}

const MOST = 200_000

export class RevocationList {
  readonly #options: RevocationOptions
  readonly #entries: Map<string, Entry>
  #saving: Promise<void> = Promise.resolve()

  private constructor(options: RevocationOptions, entries: Map<string, Entry>) {
    this.#options = options
    this.#entries = entries
  }

  /** Reads the file if there is one. One that cannot be read is an empty list and an error in the log. */
  static async open(options: RevocationOptions): Promise<RevocationList> {
    return new RevocationList(options, await read(options))
  }

  has(session: Session): boolean {
    if (this.#entries.size === 0) return false
    return marksOf(session).some(mark => {
      const entry = this.#entries.get(mark)
      return entry !== undefined && session.created <= entry.before
    })
  }

  /** Enters a revocation; settles when it is on disk, and rejects when it is in memory alone. */
  add(which: Revocation): Promise<void> {
    const { clock, lifetime } = this.#options
    const now = clock.now()
    const entry = { before: now, until: now + lifetime() }
    for (const mark of marksToRevoke(which)) this.#entries.set(mark, entry)
    for (const [mark, { until }] of this.#entries) {
      if (until > now && this.#entries.size <= MOST) break
      this.#entries.delete(mark)
    }
    this.#saving = this.#saving.catch(() => undefined).then(() => this.#save())
    return this.#saving
  }

  async #save(): Promise<void> {
    const file = { version: 1, entries: [...this.#entries] }
    await writeFileAtomically(this.#options.path, JSON.stringify(file), { mode: 0o600 })
  }
}

function marksOf({ id, issuer, nameId, sessionIndex }: Session): readonly string[] {
  if (nameId === undefined) return [id]
  const own = [id, mark(issuer, nameId.value)]
  return sessionIndex === undefined ? own : [...own, mark(issuer, nameId.value, sessionIndex)]
}

function marksToRevoke(which: Revocation): readonly string[] {
  if ('sessionId' in which) return [which.sessionId]
  const { issuer, nameId, sessionIndexes } = which
  // Without an index every session of the NameID is meant (SAML core 3.7.1).
  if (sessionIndexes.length === 0) return [mark(issuer, nameId)]
  return sessionIndexes.slice(0, 100).map(index => mark(issuer, nameId, index))
}

function mark(...parts: readonly string[]): string {
  return createHash('sha256').update(parts.join('\0')).digest('base64url')
}

async function read({ path, log }: RevocationOptions): Promise<Map<string, Entry>> {
  const entries = new Map<string, Entry>()
  try {
    const file: unknown = JSON.parse(await readFile(path, 'utf8'))
    const found = typeof file === 'object' && file !== null && 'entries' in file ? file.entries : []
    for (const pair of Array.isArray(found) ? found : []) {
      const [key, entry]: readonly unknown[] = Array.isArray(pair) ? pair : []
      if (typeof key === 'string' && isEntry(entry)) entries.set(key, entry)
    }
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') {
      log.error('the list of ended sessions cannot be read: those sessions live again', {
        path,
        error,
      })
    }
  }
  return entries
}

function isEntry(found: unknown): found is Entry {
  if (typeof found !== 'object' || found === null) return false
  return (
    'before' in found &&
    typeof found.before === 'number' &&
    'until' in found &&
    typeof found.until === 'number'
  )
}
