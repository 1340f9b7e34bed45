/**
 * Names for groups that the identity provider names by an ID or a distinguished name, from a file that is read again when it changes.
 *
 * # Format
 * Each group has a line: the value that the identity provider sends, a tab or ` => `, and the name. Empty lines, and lines that
 * begin with `#`, do not count. A distinguished name has no ` => `, since it escapes the `>` (RFC 4514 section 2.4).
 *
 *     7d3f3b0e-6a5c-4e1a-9d7e-0c8f4a1b2c3d => ops
 */
import type { Clock } from '../../async/clock.ts'
import { explainError, Failure } from '../../errors.ts'
import { readBounded } from '../../files/bounded-file.ts'
import { WatchedFile } from '../../files/watched-file.ts'
import type { Logger } from '../../log/log.ts'

/** The content of the file. */
export interface GroupTable {
  /** The names by the value the identity provider sends, in lower case. */
  readonly names: ReadonlyMap<string, string>
  /** All names of the table, in lower case. A value of the identity provider that equals one makes no member of that group. */
  readonly given: ReadonlySet<string>
}

const LARGEST = 4 * 1024 * 1024
const MOST_LINES = 100_000
const LONGEST_NAME = 256

/** The table, or the problem of the file with its line. */
export function readGroupTable(text: string): GroupTable | string {
  const names = new Map<string, string>()
  const lines = text.replace(/^\ufeff/, '').split('\n')
  if (lines.length > MOST_LINES) return `more than ${MOST_LINES} lines`
  for (const [index, line] of lines.entries()) {
    const bare = line.trim()
    if (bare === '' || bare.startsWith('#')) continue
    const problem = (what: string) => `line ${index + 1}: ${what}`
    const [sent = '', name, ...more] = bare.split(/\t| => /).map(part => part.trim())
    if (name === undefined) return problem('there is neither a tab nor " => " between two parts')
    if (more.length > 0) return problem('there are more than two parts')
    if (sent === '' || name === '') return problem('a part is empty')
    if (name.length > LONGEST_NAME) return problem(`the name is longer than ${LONGEST_NAME}`)
    if (/[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]/u.test(name)) return problem('the name has control characters')
    const key = sent.toLowerCase()
    if (names.has(key) && names.get(key) !== name)
      return problem('an earlier line gives this group another name')
    names.set(key, name)
  }
  return { names, given: new Set([...names.values()].map(name => name.toLowerCase())) }
}

/** Reads the file. Throws a Failure that names it when the file cannot be used. */
export async function loadGroupTable(path: string): Promise<GroupTable> {
  const fail = (problem: string, cause?: unknown): never => {
    throw new Failure(`cannot use identity.rename ${path}: ${problem}`, { code: 'RENAME', cause })
  }
  const { bytes } = await readBounded(path, LARGEST).catch(cause =>
    fail(explainError(cause), cause),
  )
  const text = bytes.toString('utf8')
  // A file of another encoding would give names with replacement characters.
  if (!Buffer.from(text, 'utf8').equals(bytes)) fail('it is not UTF-8')
  const table = readGroupTable(text)
  return typeof table === 'string' ? fail(table) : table
}

interface GroupNamesOptions {
  readonly path: string
  readonly clock: Clock
  readonly log: Logger
}

/** Holds the names in force: those of the last file that could be used. */
export class GroupNames {
  readonly path: string
  #table: GroupTable
  #problem: string | undefined
  readonly #file: WatchedFile

  private constructor({ path, clock, log }: GroupNamesOptions, table: GroupTable) {
    this.path = path
    this.#table = table
    this.#file = new WatchedFile({
      path,
      clock,
      readAgain: async () => {
        this.#table = await loadGroupTable(path)
        this.#problem = undefined
        log.info('names of groups read again', { path, names: this.#table.names.size })
      },
      write: async () => {},
      reportFailure: error => {
        this.#problem = `${explainError(error)}; the earlier names stay in force`
        log.warn(this.#problem)
      },
    })
  }

  /** Reads the file and watches it from now on. Throws a Failure when the file cannot be used. */
  static async open(options: GroupNamesOptions): Promise<GroupNames> {
    // The watch begins before the first reading, so its first check sees a change in between.
    const names = new GroupNames(options, { names: new Map(), given: new Set() })
    await names.#file.look()
    names.#table = await loadGroupTable(options.path)
    names.#file.watch()
    return names
  }

  get table(): GroupTable {
    return this.#table
  }

  /** The reason why the present file is not in force; undefined when it is. */
  get problem(): string | undefined {
    return this.#problem
  }

  close(): Promise<void> {
    return this.#file.close()
  }
}
