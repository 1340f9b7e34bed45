/**
 * Removes stored packages that no index of a generation which is kept has named for a time. Off unless the setting
 * `retention.unreferenced` says so.
 *
 * # Facts
 * - It looks once a day at everything stored, and remembers since when a package has been without a name. A package that is named
 *   again, and one of which nothing can be said any more (references.ts), begins anew.
 * - Only time counts in which it looked: a stop, and a clock that is set, make a package stay longer and never go sooner.
 * - What goes has not been asked for by a client in the same time either. What builds were given stays, and so does what past and
 *   waiting generations name. That is found out last, because their indexes have to be read for it.
 */
import { join } from 'node:path'
import { type Clock, day, hour, type Milliseconds } from '../../async/clock.ts'
import { repeat } from '../../async/repeat.ts'
import { explainError, systemCode } from '../../errors.ts'
import { writeFileAtomically } from '../../files/atomic-file.ts'
import { readBounded } from '../../files/bounded-file.ts'
import { isCount, isRecord } from '../../json.ts'
import type { Logger } from '../../log/log.ts'
import { classify, decodedUrl, directoriesOf } from '../archive/path.ts'
import { nameOf } from '../store/key.ts'
import type { Store } from '../store/store.ts'
import { type NamedBy, namedByOthers } from './past-names.ts'
import { otherIndexName, type StoredPackage } from './references.ts'
import type { Suites } from './suites.ts'

interface UnreferencedParts {
  readonly cacheDirectory: string
  readonly clock: Clock
  readonly log: Logger
  readonly store: Pick<Store, 'list' | 'evict' | 'lastUsed' | 'incomplete'>
  readonly suites: Pick<Suites, 'references' | 'adopting'>
  /** Whether a content stays whatever indexes say. */
  readonly stays: (digest: string) => boolean
  /** The time after which a package goes; 0 keeps all. */
  readonly after: () => Milliseconds
  readonly onRemoved: (bytes: number) => void
}

/** What the last look found, and what was removed since the file of these figures began. */
export interface UnreferencedFigures {
  readonly looked: Milliseconds
  readonly files: number
  readonly bytes: number
  readonly removedFiles: number
  readonly removedBytes: number
}

/** Figures, and since when packages have been without a name: seconds since the epoch by the names of their entries. */
interface Marks {
  readonly figures: UnreferencedFigures
  readonly since: ReadonlyMap<string, number>
}

/** How often it is looked whether a day has passed. */
const betweenLooks: Milliseconds = hour
/** What counts of the time between two looks, at most. */
const longestStep: Milliseconds = 1.5 * day

/** Packages that are remembered, at most; the others begin when these are gone. */
const mostMarks = 200_000
const mostBytes = 8 * 1024 * 1024

/** Packages that are judged together: each table is read once for all of them. */
const batch = 5_000
/** Packages that are removed in one turn of the event loop. */
const removedAtOnce = 100

/** Beside `statistics.json` in the cache directory: a line of figures, and a line for each moment with the names marked then. */
const fileName = 'unreferenced.jsonl'
const fileVersion = 1

const noMarks: Marks = {
  figures: { looked: 0, files: 0, bytes: 0, removedFiles: 0, removedBytes: 0 },
  since: new Map(),
}

export class Unreferenced {
  readonly #parts: UnreferencedParts
  readonly #closing = new AbortController()
  readonly #stopLooking: () => void
  #figures: UnreferencedFigures | undefined
  /** The packages that were found to be named by other generations, so that their indexes need not be read every day. */
  #namedBy: NamedBy = new Map()
  #working: Promise<void> | undefined

  private constructor(parts: UnreferencedParts, figures: UnreferencedFigures | undefined) {
    this.#parts = parts
    this.#figures = figures
    this.#stopLooking = repeat(parts.clock, betweenLooks, () => this.#look())
  }

  /** Goes on with what an earlier run found. Never rejects. */
  static async start(parts: UnreferencedParts): Promise<Unreferenced> {
    const marks = parts.after() === 0 ? undefined : await readMarks(parts)
    return new Unreferenced(parts, marks?.figures)
  }

  /** Undefined before the first look, and while nothing is to be removed. */
  get figures(): UnreferencedFigures | undefined {
    return this.#parts.after() === 0 ? undefined : this.#figures
  }

  async close(): Promise<void> {
    this.#closing.abort(new Error('the service stops'))
    this.#stopLooking()
    await this.#working
  }

  #look(): Promise<void> | undefined {
    const { after, clock, log, store, suites } = this.#parts
    const wanted = after()
    if (wanted === 0) {
      this.#figures = undefined
      this.#namedBy = new Map()
      return undefined
    }
    const age = clock.now() - (this.#figures?.looked ?? Number.NEGATIVE_INFINITY)
    // A look in the future took place before the clock was set back.
    if (age >= 0 && age < day) return undefined
    if (store.incomplete || !suites.references.complete || suites.adopting > 0) return undefined
    this.#working = this.#lookAtAll(wanted)
      .catch((error: unknown) => {
        if (this.#closing.signal.aborted) return
        log.warn('retention: the look for packages without an index was broken off', {
          because: explainError(error),
        })
      })
      .finally(() => {
        this.#working = undefined
      })
    return this.#working
  }

  async #lookAtAll(wanted: Milliseconds): Promise<void> {
    const { clock, log } = this.#parts
    const { figures: before, since } = (await readMarks(this.#parts)) ?? noMarks
    const now = clock.now()
    const passed = now - before.looked
    const later = passed - Math.min(Math.max(0, passed), longestStep)
    const { found, passedOver } = await this.#unnamed(since, now)
    const marks = new Map<string, number>()
    const due: StoredPackage[] = []
    for (const one of found) {
      const name = nameOf(one.key)
      const marked = since.get(name)
      const moment = marked === undefined ? now : marked * 1000 + later
      marks.set(name, Math.floor(moment / 1000))
      if (moment <= now - wanted && one.lastUsed <= now - wanted) due.push(one)
    }
    // A generation may be adopted while the indexes of others are read.
    const { references } = this.#parts.suites
    const left = await references.unnamed(await this.#withoutName(due), this.#closing.signal)
    const gone = await this.#remove(left, now - wanted)
    for (const { key } of gone) marks.delete(nameOf(key))
    const removedBytes = bytesOf(gone)
    const figures = {
      looked: now,
      files: found.length - gone.length + passedOver,
      bytes: bytesOf(found) - removedBytes,
      removedFiles: before.removedFiles + gone.length,
      removedBytes: before.removedBytes + removedBytes,
    }
    this.#figures = figures
    await this.#write({ figures, since: marks })
    const { files, bytes } = figures
    log.info('retention: looked for packages that no index names', {
      files,
      bytes,
      removed: gone.length,
      removedBytes,
      ...(passedOver > 0 && { passedOver }),
    })
  }

  /** The packages that adopted indexes do not name, those that are marked in any case. */
  async #unnamed(
    marked: Marks['since'],
    now: Milliseconds,
  ): Promise<{ readonly found: readonly StoredPackage[]; readonly passedOver: number }> {
    const { store, suites, stays } = this.#parts
    const { references } = suites
    const { signal } = this.#closing
    const blind = new Set(references.unreadBelow())
    const found: StoredPackage[] = []
    let [unmarked, passedOver] = [0, 0]
    let waiting: StoredPackage[] = []
    const judge = async (): Promise<void> => {
      for (const one of await references.unnamed(waiting, signal)) {
        if (stays(one.digest)) continue
        const isMarked = marked.has(nameOf(one.key))
        if (!isMarked && unmarked === mostMarks - marked.size) passedOver += 1
        else found.push(one)
        if (!isMarked) unmarked = Math.min(unmarked + 1, mostMarks - marked.size)
      }
      waiting = []
    }
    for await (const some of store.list()) {
      signal.throwIfAborted()
      for (const one of some) {
        const below = references.blindBelow(one, now)
        if (below !== undefined) blind.add(below)
        const url = packageUrl(one.key)
        if (url !== undefined) waiting.push({ ...one, url })
      }
      if (waiting.length >= batch) await judge()
    }
    await judge()
    const seen = found.filter(({ url }) => ![...directoriesOf(url)].some(below => blind.has(below)))
    return { found: seen, passedOver }
  }

  /** Those of these packages that no other generation names that is kept. */
  async #withoutName(due: readonly StoredPackage[]): Promise<readonly StoredPackage[]> {
    const { suites, cacheDirectory } = this.#parts
    const indexes = suites.references.others()
    const kept = new Set(indexes.map(otherIndexName))
    const known = new Map(
      due.flatMap(({ key }) => {
        const index = this.#namedBy.get(key)
        return index !== undefined && kept.has(otherIndexName(index)) ? [[key, index] as const] : []
      }),
    )
    const packages = due.filter(({ key }) => !known.has(key))
    if (packages.length > 0 && indexes.length > 0) {
      const task = { cacheDirectory, indexes, packages }
      for (const [key, index] of await namedByOthers(task, this.#closing.signal)) {
        known.set(key, index)
      }
    }
    this.#namedBy = known
    return due.filter(({ key }) => !known.has(key))
  }

  /** Removes them, but for those that a client has asked for meanwhile. Answers those that are gone. */
  async #remove(
    packages: readonly StoredPackage[],
    before: Milliseconds,
  ): Promise<readonly StoredPackage[]> {
    const { store, log, onRemoved } = this.#parts
    const gone: StoredPackage[] = []
    for (const [n, one] of packages.entries()) {
      if (n > 0 && n % removedAtOnce === 0) await new Promise(resolve => setImmediate(resolve))
      if (this.#closing.signal.aborted) break
      const { key, digest, size } = one
      if ((store.lastUsed(key) ?? Number.POSITIVE_INFINITY) > before) continue
      if (!(await store.evict(key, { digest, content: false }))) continue
      log.debug('removed because no index names it', { key })
      onRemoved(size)
      gone.push(one)
    }
    return gone
  }

  async #write(marks: Marks): Promise<void> {
    const { cacheDirectory, log } = this.#parts
    try {
      await writeFileAtomically(join(cacheDirectory, fileName), linesOf(marks), { durable: false })
    } catch (error) {
      log.warn('retention: cannot note which packages no index names', {
        because: explainError(error),
      })
    }
  }
}

/** The decoded URL of a package or a source file; undefined for any other. */
function packageUrl(key: string): string | undefined {
  const path = key.slice(key.indexOf('/', key.indexOf('://') + 3))
  return classify(path).kind === 'pool' ? decodedUrl(key) : undefined
}

function bytesOf(packages: readonly StoredPackage[]): number {
  return packages.reduce((sum, { size }) => sum + size, 0)
}

function* linesOf({ figures, since }: Marks): Generator<string> {
  yield `${JSON.stringify({ version: fileVersion, ...figures })}\n`
  const byMoment = new Map<number, string[]>()
  for (const [name, moment] of since) {
    const same = byMoment.get(moment)
    if (same === undefined) byMoment.set(moment, [name])
    else same.push(name)
  }
  for (const line of byMoment) yield `${JSON.stringify(line)}\n`
}

/** Undefined when there are none, or they are damaged: then the time of every package begins anew. */
async function readMarks({ cacheDirectory, log }: UnreferencedParts): Promise<Marks | undefined> {
  try {
    const { bytes } = await readBounded(join(cacheDirectory, fileName), mostBytes)
    return decodeMarks(bytes.toString())
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined
    log.warn('retention: cannot read since when no index names packages', {
      because: explainError(error),
    })
    return undefined
  }
}

function decodeMarks(text: string): Marks {
  const [first = '', ...lines] = text.trimEnd().split('\n')
  const head: unknown = JSON.parse(first)
  if (!isRecord(head) || head['version'] !== fileVersion)
    throw new Error('it is of another version')
  const figure = (name: keyof UnreferencedFigures): number => {
    const value = head[name]
    if (!isCount(value)) throw new Error('its figures are damaged')
    return value
  }
  const figures = {
    looked: figure('looked'),
    files: figure('files'),
    bytes: figure('bytes'),
    removedFiles: figure('removedFiles'),
    removedBytes: figure('removedBytes'),
  }
  const since = new Map<string, number>()
  for (const line of lines) {
    const found: unknown = JSON.parse(line)
    const [moment, names] = Array.isArray(found) ? found : []
    if (!isCount(moment) || !Array.isArray(names)) throw new Error('a line of it is damaged')
    for (const name of names) {
      if (typeof name !== 'string' || !/^[0-9a-f]{16}$/.test(name)) {
        throw new Error('a name in it is damaged')
      }
      since.set(name, moment)
    }
  }
  return { figures, since }
}
