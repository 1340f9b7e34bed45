/**
 * The results of reading a value or a file: the value, or sentences that name the value found, the value expected and the
 * correction. Pure.
 */

export type ReadResult<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly problem: string }

export function readResult<T>(value: T): ReadResult<T> {
  return { ok: true, value }
}

export function readFailure(problem: string): ReadResult<never> {
  return { ok: false, problem }
}

/** The sentence of all kinds of settings: `found X, expected Y; how to correct it`. */
export function mismatch(found: unknown, what: string, mend?: string): ReadResult<never> {
  return readFailure(
    `found ${describe(found)}, expected ${what}${mend === undefined ? '' : `; ${mend}`}`,
  )
}

/** Describes the value found, for a message: `"8 parsecs"`, `a list`, `nothing`. */
export function describe(found: unknown): string {
  if (found === null || found === undefined) return 'nothing'
  if (Array.isArray(found)) return 'a list'
  if (typeof found === 'object') return 'a group of settings'
  return typeof found === 'string' ? quoteText(found) : String(found)
}

/** Puts a text between quotes and cuts it after 60 characters. */
export function quoteText(text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text)
}

/** A place in a file, by keys and list indexes. */
export type Path = readonly (string | number)[]

/** A remark to the author of a file. */
export interface Remark {
  readonly path: Path
  /** The subject of the remark: a key, its value, or a required key that is missing. */
  readonly at: 'key' | 'value' | 'absent'
  readonly text: string
}

/** What a check of values has to say. Problems prevent the start; warnings are only printed. */
export interface Remarks {
  readonly problems: readonly Remark[]
  readonly warnings: readonly Remark[]
}

/** Collects remarks on values that have been read, by their paths below `place`. */
export function valueRemarks(...place: Path) {
  const problems: Remark[] = []
  const warnings: Remark[] = []
  const to = (remarks: Remark[]) => (path: Path, text: string) => {
    remarks.push({ path: [...place, ...path], at: 'value', text })
  }
  return { problems, warnings, wrong: to(problems), warn: to(warnings) }
}

/** The result of checking a whole file: the values, or their problems. */
export type CheckResult<T, Problem = Remark> = (
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly problems: readonly Problem[] }
) & { readonly warnings: readonly Problem[] }

/** Facts about values that only a file has; values from another source do not have them. */
export interface InFile {
  readonly lineOf: (path: Path) => number
  /** Keys without a value: they count as absent. */
  readonly empty: readonly Path[]
}

export type Check<T> = (found: unknown, file?: InFile) => CheckResult<T>

/** A remark as a sentence that begins with `place`, which names where it belongs. */
export function remarkText({ at, text, path }: Remark, place = keyPath(path)): string {
  if (place === '') return text
  return at === 'absent' ? `${place} not set: ${text}` : `${place}: ${text}`
}

/** `remap[2].from`: how messages and manuals name a place in the file. */
export function keyPath(path: Path): string {
  return path
    .map((step, i) => (typeof step === 'number' ? `[${step}]` : i ? `.${step}` : step))
    .join('')
}

/** The known word that is most like the one typed; undefined when none is alike enough to be meant. */
export function nearestName(typed: string, known: readonly string[]): string | undefined {
  const most = Math.max(1, Math.floor(Math.min(typed.length, 40) / 3))
  const meant = typed.slice(0, 64).toLowerCase()
  const [best] = known
    .map(word => ({ word, distance: editDistance(meant, word.toLowerCase()) }))
    .filter(({ distance }) => distance <= most)
    .sort((a, b) => a.distance - b.distance)
  return best?.word
}

/** Insertions, deletions, replacements and swaps of neighbours between two short words (optimal string alignment). */
function editDistance(a: string, b: string): number {
  const rows = [Array.from({ length: b.length + 1 }, (_, j) => j)]
  const at = (i: number, j: number): number => rows[i]?.[j] ?? 0
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i]
    rows.push(row)
    for (let j = 1; j <= b.length; j += 1) {
      const replaced = at(i - 1, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1)
      const swaps = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      const swapped = swaps ? at(i - 2, j - 2) + 1 : replaced
      row.push(Math.min(at(i - 1, j) + 1, at(i, j - 1) + 1, replaced, swapped))
    }
  }
  return at(a.length, b.length)
}
