/**
 * The last failures, for `authproxy explain REQUEST-ID`: a bounded list in memory and in a file beside the dynamic
 * configuration, so that a command can read what the daemon knows. What is kept is redacted like the log.
 */

import type { Clock, Milliseconds } from '../../async/clock.ts'
import { writeFileAtomically } from '../../atomic-file.ts'
import { readBounded } from '../../bounded-file.ts'
import type { Logger } from '../../log/log.ts'
import { clean } from '../../log/redact.ts'
import type { Finding } from '../saml/core/check-assertion.ts'

export interface FailureRecord {
  readonly id: string
  readonly at: Milliseconds
  readonly category: string
  readonly code: string
  readonly status: number
  readonly title: string
  readonly client: string
  readonly method: string
  /** Path without query. */
  readonly path: string
  readonly facts: Readonly<Record<string, unknown>>
  readonly findings: readonly Finding[]
}

/** The file of an instance, beside its dynamic configuration. */
export function failuresFile(configPath: string): string {
  return `${configPath}.failures.json`
}

const MOST = 200
const LONGEST_TEXT = 500
/** More than the file can have: every text of a fact is bounded by the log's rules. */
const LARGEST = 64 * 1024 * 1024
const DELAY: Milliseconds = 1000

export class FailureRecords {
  readonly #path: string
  readonly #clock: Clock
  readonly #log: Logger
  #records: FailureRecord[] = []
  #saving: Promise<void> | undefined
  #due = false

  private constructor(path: string, { clock, log }: { clock: Clock; log: Logger }) {
    this.#path = path
    this.#clock = clock
    this.#log = log
  }

  /** With the failures of earlier runs, as far as they can be read. */
  static async open(path: string, tools: { clock: Clock; log: Logger }): Promise<FailureRecords> {
    const records = new FailureRecords(path, tools)
    records.#records = (await readFailures(path).catch(() => [])).slice(-MOST)
    return records
  }

  add(record: FailureRecord): void {
    const facts = clean(record.facts)
    const findings = record.findings.slice(0, 50).map(shortened)
    this.#records.push({ ...record, path: record.path.slice(0, LONGEST_TEXT), facts, findings })
    if (this.#records.length > MOST) this.#records.shift()
    if (this.#due) return
    this.#due = true
    this.#clock.after(DELAY, () => void this.flush())
  }

  /** Settles when everything so far is on disk, or cannot be. */
  async flush(): Promise<void> {
    await this.#saving
    if (!this.#due) return
    this.#due = false
    const text = JSON.stringify({ version: 1, failures: this.#records })
    this.#saving = writeFileAtomically(this.#path, text, { mode: 0o600, durable: false }).catch(
      error => this.#log.warn('the last failures could not be kept', { path: this.#path, error }),
    )
    await this.#saving
  }
}

/** The failures a daemon has kept, oldest first. Throws when the file cannot be read. */
export async function readFailures(path: string): Promise<readonly FailureRecord[]> {
  const file: unknown = JSON.parse((await readBounded(path, LARGEST)).bytes.toString())
  if (typeof file !== 'object' || file === null || !('failures' in file)) return []
  return Array.isArray(file.failures) ? file.failures.filter(isFailureRecord) : []
}

function isFailureRecord(found: unknown): found is FailureRecord {
  if (typeof found !== 'object' || found === null) return false
  const texts = ['id', 'category', 'code', 'title', 'client', 'method', 'path']
  const has = (name: string) => typeof Reflect.get(found, name) === 'string'
  const { at, status, findings }: { at?: unknown; status?: unknown; findings?: unknown } = found
  return texts.every(has) && [at, status].every(Number.isFinite) && Array.isArray(findings)
}

function shortened({ what, ok, expected, received }: Finding): Finding {
  const short = (text: string) =>
    text.length > LONGEST_TEXT ? `${text.slice(0, LONGEST_TEXT)}…` : text
  return { what: short(what), ok, expected: short(expected), received: short(received) }
}
