/**
 * Compares the versions of the packages that two generations of a suite name in their stored Packages files. This is also the program
 * of a thread, which `ChangesInThread` starts, because the work is heavy.
 *
 * # Facts
 * - A generation may name several versions of a package. Versions that both generations name have not changed.
 * - Packages files that clients do not use are not stored, so they are not compared.
 */
import { createReadStream } from 'node:fs'
import type { Clock } from '../../../async/clock.ts'
import { answerOfThread, doTaskOfThread } from '../../../async/thread.ts'
import { explainError } from '../../../errors.ts'
import type { Logger } from '../../../log/log.ts'
import { recentEntries } from '../../../recent.ts'
import { stanzas } from '../../archive/deb822.ts'
import { decompress } from '../../archive/decompress.ts'
import { indexChoices } from '../../archive/suite-layout.ts'
import { compareVersions } from '../../archive/version.ts'
import { Layout } from '../../store/disk/disk.ts'
import type { ListedContent } from '../../suites/generation.ts'
import { longestJob } from '../../suites/thread.ts'

/** A package whose versions differ. A generation that does not name the package has no version. */
export interface Change {
  readonly name: string
  readonly architecture: string
  /** The newest version that only the earlier generation names, else its newest. `new` is the same of the later one. */
  readonly old?: string | undefined
  readonly new?: string | undefined
}

/** The files of two generations that clients use. */
export interface Comparison {
  readonly cacheDirectory: string
  readonly before: readonly ListedContent[]
  readonly after: readonly ListedContent[]
}

/** The number of packages that differ, and of those among them that are new or gone. */
export interface ChangeCount {
  readonly packages: number
  readonly added: number
  readonly removed: number
}

/** The most packages of a generation that are compared. The others are ignored. */
const mostPackages = 1_000_000

/** The packages whose versions differ, in order of name and architecture. Rejects when an index cannot be read. */
export async function changesBetween({
  cacheDirectory,
  before,
  after,
}: Comparison): Promise<readonly Change[]> {
  const layout = new Layout(cacheDirectory)
  const [olds, news] = [indexesOf(before), indexesOf(after)]
  // Indexes that both generations have with the same content are skipped.
  const same = new Set(olds.map(digestOf).filter(one => news.map(digestOf).includes(one)))
  const [old, next] = [new Map<string, Set<string>>(), new Map<string, Set<string>>()]
  for (const [indexes, found] of [
    [olds, old],
    [news, next],
  ] as const) {
    for (const index of indexes) {
      if (!same.has(digestOf(index))) await collect(layout.blob(digestOf(index)), found)
    }
  }
  const changes: Change[] = []
  for (const key of new Set([...old.keys(), ...next.keys()])) {
    const [was, is] = [old.get(key) ?? none, next.get(key) ?? none]
    const gone = newestOf([...was].filter(version => !is.has(version)))
    const come = newestOf([...is].filter(version => !was.has(version)))
    const [name = '', architecture = ''] = key.split(' ')
    if (come !== undefined)
      changes.push({ name, architecture, old: gone ?? newestOf([...was]), new: come })
    else if (gone !== undefined)
      changes.push({ name, architecture, old: gone, new: newestOf([...is]) })
  }
  const byName = (a: Change, b: Change): number =>
    a.name === b.name ? compare(a.architecture, b.architecture) : compare(a.name, b.name)
  return changes.sort(byName)
}

export function countOfChanges(changes: readonly Change[]): ChangeCount {
  return {
    packages: changes.length,
    added: changes.filter(change => change.old === undefined).length,
    removed: changes.filter(change => change.new === undefined).length,
  }
}

const none: ReadonlySet<string> = new Set()

function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b)
}

function newestOf(versions: readonly string[]): string | undefined {
  return versions.reduce<string | undefined>(
    (newest, one) => (newest === undefined || compareVersions(one, newest) > 0 ? one : newest),
    undefined,
  )
}

/** The Packages files of a generation, each in the compression that is the fastest to decompress. */
function indexesOf(contents: readonly ListedContent[]): readonly ListedContent[] {
  return indexChoices(contents).flatMap(([first]) => (first?.kind === 'Packages' ? [first] : []))
}

function digestOf({ digest }: ListedContent): string {
  return digest
}

async function collect(path: string, found: Map<string, Set<string>>): Promise<void> {
  const unpacked = decompress(createReadStream(path))
  for await (const { fields, damaged } of stanzas(unpacked, { wanted })) {
    const [name, version] = [fields.get('package'), fields.get('version')]
    if (damaged || name === undefined || version === undefined) continue
    const key = `${name} ${fields.get('architecture') ?? ''}`
    const versions = found.get(key)
    if (versions !== undefined) versions.add(version)
    else if (found.size < mostPackages) found.set(key, new Set([version]))
  }
}

const wanted = ['Package', 'Version', 'Architecture']

interface ChangesParts {
  readonly cacheDirectory: string
  readonly clock: Clock
  readonly log: Logger
}

type Between = Omit<Comparison, 'cacheDirectory'>
/** `name` identifies the two generations. */
type CountTask = Between & { readonly name: string }
/** The task of the thread: `result` says what it sends. */
type ThreadTask = Comparison & { readonly result: 'list' | 'count' }

const mostCounts = 1000
const heapMegabytes = 512

/** Compares generations in threads, and remembers for the pages how many packages a waiting generation changes. */
export class ChangesInThread {
  readonly #parts: ChangesParts
  readonly #counts = recentEntries<string, ChangeCount | 'unknown'>(mostCounts)
  readonly #closing = new AbortController()
  #working: Promise<void> | undefined

  constructor(parts: ChangesParts) {
    this.#parts = parts
  }

  /** The count; undefined until it is known. A call begins it, unless another count is under way. */
  of(counting: CountTask): ChangeCount | 'unknown' | undefined {
    const known = this.#counts.get(counting.name)
    if (known === undefined && !this.#closing.signal.aborted) {
      this.#working ??= this.#count(counting).finally(() => {
        this.#working = undefined
      })
    }
    return known
  }

  /** The result of `changesBetween`. Rejects also when that takes too long, and when the service stops. */
  list(between: Between): Promise<readonly Change[]> {
    return this.#run<readonly Change[]>('list', between)
  }

  async close(): Promise<void> {
    this.#closing.abort(new Error('the service stops'))
    await this.#working
  }

  async #count({ name, ...between }: CountTask): Promise<void> {
    try {
      this.#counts.set(name, await this.#run<ChangeCount>('count', between))
    } catch (error) {
      if (this.#closing.signal.aborted) return
      this.#counts.set(name, 'unknown')
      const because = explainError(error)
      this.#parts.log.warn('changes of a suite could not be counted', { because })
    }
  }

  #run<Result>(result: ThreadTask['result'], { before, after }: Between): Promise<Result> {
    const { clock, cacheDirectory } = this.#parts
    const task: ThreadTask = { cacheDirectory, before, after, result }
    const thread = { task, heapMegabytes, signal: this.#closing.signal }
    const program = new URL('./changes.js', import.meta.url)
    return answerOfThread<Result>(program, thread, { clock, longest: longestJob })
  }
}

await doTaskOfThread(async ({ result, ...task }: ThreadTask) => {
  const changes = await changesBetween(task)
  return result === 'list' ? changes : countOfChanges(changes)
})
