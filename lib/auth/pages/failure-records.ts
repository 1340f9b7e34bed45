/**
 * Keeps the last failures for `authproxy explain REFERENCE`, in memory and in a file for a restart. Their facts are redacted
 * like the log. Requests of users, of logins under way and of other clients have separate lists, so that clients without a
 * login cannot push out the failures of users.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { writeFileAtomically } from '../../files/atomic-file.ts'
import { readBounded } from '../../files/bounded-file.ts'
import { isRecord } from '../../json.ts'
import type { Logger } from '../../log/log.ts'
import { clean } from '../../log/redact.ts'
import type { AssertionFinding } from '../../saml/subject.ts'

/**
 * Who sent a request, as far as its cookies prove: a browser that has been signed in, one that logs in, or neither. Refusals by
 * the rules under `access` have a list of their own, or a script that repeats a request would push out the failures of its
 * user.
 */
export type Sender = 'user' | 'login' | 'other' | 'refused'

export interface FailureRecord {
  readonly id: string
  readonly at: Milliseconds
  readonly category: string
  readonly code: string
  /** The code whose text was shown, where that of its own is less exact. */
  readonly shown?: string
  readonly status: number
  readonly title: string
  readonly client: string
  readonly method: string
  /** The path, without the query. */
  readonly path: string
  readonly facts: Readonly<Record<string, unknown>>
  readonly findings: readonly AssertionFinding[]
  readonly sender: Sender
}

/** The file of an instance, beside its dynamic configuration. */
export function failuresFile(configPath: string): string {
  return `${configPath}.failures.json`
}

/** The records that are kept for each kind of sender. */
const MOST = 200
const LONGEST_TEXT = 500
/** The bytes that are read. The file cannot be larger, because the rules of the log bound every text. */
const LARGEST = 64 * 1024 * 1024
/** The time a failure waits, so that several are written together. */
const DELAY: Milliseconds = 1000

type Options = { readonly path: string; readonly clock: Clock; readonly log: Logger }

export class FailureRecords {
  readonly #options: Options
  /** Oldest first. */
  readonly #records: Readonly<Record<Sender, FailureRecord[]>>
  #saving: Promise<void> | undefined
  #due = false

  private constructor(options: Options, records: readonly FailureRecord[]) {
    this.#options = options
    const of = (sender: Sender) => records.filter(record => record.sender === sender).slice(-MOST)
    this.#records = {
      user: of('user'),
      login: of('login'),
      other: of('other'),
      refused: of('refused'),
    }
  }

  /** Opens the records with the failures of earlier runs, as far as they can be read. */
  static async open(options: Options): Promise<FailureRecords> {
    const earlier = await readFailures(options.path).catch(() => [])
    return new FailureRecords(options, earlier)
  }

  /** Adds a record, and answers it in its redacted form. */
  add(record: FailureRecord): FailureRecord {
    const facts = clean(record.facts)
    const findings = record.findings.slice(0, 50).map(shortened)
    const records = this.#records[record.sender]
    const kept = { ...record, path: short(record.path), facts, findings }
    records.push(kept)
    if (records.length > MOST) records.shift()
    if (!this.#due) {
      this.#due = true
      this.#options.clock.after(DELAY, () => void this.flush())
    }
    return kept
  }

  /** The oldest first. */
  all(): readonly FailureRecord[] {
    return Object.values(this.#records)
      .flat()
      .sort((a, b) => a.at - b.at)
  }

  /** Settles when everything so far is on disk, or could not be written. */
  async flush(): Promise<void> {
    await this.#saving
    if (!this.#due) return
    this.#due = false
    const { path, log } = this.#options
    const text = JSON.stringify({ version: 1, failures: this.all() })
    this.#saving = writeFileAtomically(path, text, { mode: 0o600, durable: false }).catch(error =>
      log.warn('the last failures could not be kept', { path, error }),
    )
    await this.#saving
  }
}

/** The failures a daemon has kept, oldest first. Throws when the file cannot be read. */
export async function readFailures(path: string): Promise<readonly FailureRecord[]> {
  const file: unknown = JSON.parse((await readBounded(path, LARGEST)).bytes.toString())
  const found = isRecord(file) ? file['failures'] : undefined
  return Array.isArray(found) ? found.filter(isFailureRecord) : []
}

/** Whether a value that was read is a record. */
export function isFailureRecord(found: unknown): found is FailureRecord {
  if (!isRecord(found)) return false
  const texts = ['id', 'category', 'code', 'title', 'client', 'method', 'path', 'sender']
  const { at, status, findings, facts, shown } = found
  return (
    texts.every(name => typeof found[name] === 'string') &&
    (shown === undefined || typeof shown === 'string') &&
    [at, status].every(Number.isFinite) &&
    Array.isArray(findings) &&
    findings.every(isRecord) &&
    isRecord(facts)
  )
}

function shortened({ what, ok, expected, received }: AssertionFinding): AssertionFinding {
  return { what: short(what), ok, expected: short(expected), received: short(received) }
}

function short(text: string): string {
  return text.length > LONGEST_TEXT ? `${text.slice(0, LONGEST_TEXT)}…` : text
}
