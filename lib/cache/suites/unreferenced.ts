/**
 * Removes stored packages that no index of a kept generation has named for a time. The setting `retention.unreferenced` switches it on.
 *
 * # Facts
 * - Once a day it looks at all stored packages and remembers since when no index names a package. The time begins again for a package that
 *   is named again, and for one that can no longer be judged (references.ts).
 * - Only the time between two looks counts. A stop of the service, and a change of the clock, can only make a package stay longer.
 * - A package that a client asked for in the same time stays, and so does one that a build was given. A package that a past or waiting
 *   generation names stays as well; this is found out last, because their indexes must be read for it.
 */
import { join } from 'node:path'
import { type Clock, day, hour, type Milliseconds } from '../../async/clock.ts'
import { repeat } from '../../async/repeat.ts'
import { explainError, valueUnlessMissing } from '../../errors.ts'
import { writeFileAtomically } from '../../files/atomic-file.ts'
import { readBounded } from '../../files/bounded-file.ts'
import { isCount, isRecord } from '../../json.ts'
import type { Logger } from '../../log/log.ts'
import { classify, decodedUrl, directoriesOf } from '../archive/path.ts'
import { nameOf } from '../store/key.ts'
import type { Store } from '../store/store.ts'
import { type NamedBy, namedByOthers, type StoredPackage } from './past-names.ts'
import { otherIndexName } from './references.ts'
import type { Suites } from './suites.ts'

interface UnreferencedParts {
  readonly cacheDirectory: string
  readonly clock: Clock
  readonly log: Logger
  readonly store: Pick<Store, 'list' | 'evict' | 'lastUsed' | 'incomplete'>
  readonly suites: Pick<Suites, 'references'> & {
    readonly adoptions: Pick<Suites['adoptions'], 'count'>
  }
  /** Whether a content stays even if no index names it. */
  readonly stays: (digest: string) => boolean
  /** The time after which a package is removed; 0 keeps all. */
  readonly after: () => Milliseconds
  readonly onRemoved: (bytes: number) => void
}

const figureNames = ['looked', 'files', 'bytes', 'removedFiles', 'removedBytes'] as const

/** The packages that the last look found without an index, and all that were removed since the file of these figures was made. */
export type UnreferencedFigures = Readonly<Record<(typeof figureNames)[number], number>>

interface Marks {
  readonly figures: UnreferencedFigures
  /** The moment since which no index names a package, seconds since the epoch, by the name of its entry. */
  readonly since: ReadonlyMap<string, number>
}

/** How often the service checks whether a day has passed since the last look. */
const betweenLooks: Milliseconds = hour
/** At most this much of the time between two looks counts. */
const longestStep: Milliseconds = 1.5 * day

/** At most this many packages are remembered. The time of the others begins when these are gone. */
const mostMarks = 200_000
const mostBytes = 8 * 1024 * 1024

/** The number of packages that are judged together, so that each table is read once for all of them. */
const batch = 5_000
/** The number of packages that are looked at in one turn of the event loop. */
const atOnce = 1_000
/** The number of packages that are removed in one turn of the event loop. */
const removedAtOnce = 100

/** A file in the cache directory with a line of figures, and a line for each moment with the names that were marked then. */
const fileName = 'unreferenced.jsonl'
const fileVersion = 1

const noMarks: Marks = {
  figures: { looked: 0, files: 0, bytes: 0, removedFiles: 0, removedBytes: 0 },
  since: new Map(),
}

export class UnreferencedPackages {
  readonly #parts: UnreferencedParts
  readonly #closing = new AbortController()
  readonly #stopLooking: () => void
  #figures: UnreferencedFigures | undefined
  /** The packages that other generations name. They are remembered, so that the indexes need not be read every day. */
  #namedBy: NamedBy = new Map()
  #working: Promise<void> | undefined

  private constructor(parts: UnreferencedParts, figures: UnreferencedFigures | undefined) {
    this.#parts = parts
    this.#figures = figures
    this.#stopLooking = repeat(parts.clock, betweenLooks, () => this.#look())
  }

  /** Reads the figures of an earlier run and begins to look. Never rejects. */
  static async start(parts: UnreferencedParts): Promise<UnreferencedPackages> {
    const marks = parts.after() === 0 ? undefined : await readMarks(parts)
    return new UnreferencedPackages(parts, marks?.figures)
  }

  /** The figures; undefined before the first look, and while the setting is off. */
  get figures(): UnreferencedFigures | undefined {
    return this.#parts.after() === 0 ? undefined : this.#figures
  }

  /** The keys of the packages that a look would remove now. Empty while the setting is off, and while a look could not judge. */
  async forecast(): Promise<readonly string[]> {
    const { after, clock } = this.#parts
    const wanted = after()
    if (wanted === 0 || !this.#canJudge) return []
    const { due } = await this.#judge(wanted, clock.now())
    return (await this.#withoutName(due)).map(({ key }) => key)
  }

  async close(): Promise<void> {
    this.#closing.abort(new Error('the service stops'))
    this.#stopLooking()
    await this.#working
  }

  #look(): Promise<void> | undefined {
    const { after, clock, log } = this.#parts
    const wanted = after()
    if (wanted === 0) {
      this.#figures = undefined
      this.#namedBy = new Map()
      return undefined
    }
    const age = clock.now() - (this.#figures?.looked ?? Number.NEGATIVE_INFINITY)
    // A last look in the future means that the clock was set back.
    if (age >= 0 && age < day) return undefined
    if (!this.#canJudge) return undefined
    this.#working = this.#lookAtAll(wanted).catch((error: unknown) => {
      if (this.#closing.signal.aborted) return
      log.warn('retention: the look for packages without an index was broken off', {
        because: explainError(error),
      })
    })
    return this.#working
  }

  get #canJudge(): boolean {
    const { store, suites } = this.#parts
    return !store.incomplete && suites.references.complete && suites.adoptions.count === 0
  }

  /** The packages that no adopted index names, since when, and those of them whose time is over. */
  async #judge(wanted: Milliseconds, now: Milliseconds) {
    const { figures: before, since } = (await readMarks(this.#parts)) ?? noMarks
    const passed = now - before.looked
    const later = passed - Math.min(Math.max(0, passed), longestStep)
    const { found, blind, passedOver } = await this.#unnamed(since, now)
    const marks = new Map<string, number>()
    const due: StoredPackage[] = []
    let [files, bytes] = [passedOver, 0]
    for (const [n, one] of found.entries()) {
      if (n > 0 && n % atOnce === 0) await new Promise(resolve => setImmediate(resolve))
      if ([...directoriesOf(one.url)].some(below => blind.has(below))) continue
      files += 1
      bytes += one.size
      const name = nameOf(one.key)
      const marked = since.get(name)
      const moment = marked === undefined ? now : marked * 1000 + later
      marks.set(name, Math.floor(moment / 1000))
      if (moment <= now - wanted && one.lastUsed <= now - wanted) due.push(one)
    }
    return { before, marks, due, files, bytes, passedOver }
  }

  async #lookAtAll(wanted: Milliseconds): Promise<void> {
    const { clock, log } = this.#parts
    const now = clock.now()
    const { before, marks, due, files, bytes, passedOver } = await this.#judge(wanted, now)
    const gone = await this.#remove(await this.#withoutName(due), now - wanted)
    for (const { key } of gone) marks.delete(nameOf(key))
    const removedBytes = gone.reduce((sum, { size }) => sum + size, 0)
    const figures = {
      looked: now,
      files: files - gone.length,
      bytes: bytes - removedBytes,
      removedFiles: before.removedFiles + gone.length,
      removedBytes: before.removedBytes + removedBytes,
    }
    this.#figures = figures
    await this.#write({ figures, since: marks })
    log.info('retention: looked for packages that no index names', {
      files: figures.files,
      bytes: figures.bytes,
      removed: gone.length,
      removedBytes,
      ...(passedOver > 0 && { passedOver }),
    })
  }

  /** The packages that adopted indexes do not name. Marked packages are all among them, and new ones up to `mostMarks`. */
  async #unnamed(marked: Marks['since'], now: Milliseconds) {
    const { store, suites, stays } = this.#parts
    const { references } = suites
    const { signal } = this.#closing
    /** Decoded URLs of directories whose packages cannot be judged. */
    const blind = new Set(references.unreadBelow())
    const found: StoredPackage[] = []
    let [room, passedOver] = [mostMarks - marked.size, 0]
    let waiting: StoredPackage[] = []
    const judge = async (): Promise<void> => {
      for (const one of await references.unnamed(waiting, signal)) {
        if (stays(one.digest)) continue
        const isMarked = marked.has(nameOf(one.key))
        if (isMarked || room > 0) found.push(one)
        else passedOver += 1
        if (!isMarked) room -= 1
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
    return { found, blind, passedOver }
  }

  /** Those of these packages that no past or waiting generation names. */
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

  /**
   * Removes packages, except those that a client has asked for meanwhile, and those that a generation names that was adopted meanwhile.
   * Answers the removed packages.
   */
  async #remove(
    packages: readonly StoredPackage[],
    before: Milliseconds,
  ): Promise<readonly StoredPackage[]> {
    const { store, suites, log, onRemoved } = this.#parts
    const { signal } = this.#closing
    const gone: StoredPackage[] = []
    for (let at = 0; at < packages.length && !signal.aborted; at += batch) {
      const some = await suites.references.unnamed(packages.slice(at, at + batch), signal)
      for (const [n, one] of some.entries()) {
        if (n > 0 && n % removedAtOnce === 0) await new Promise(resolve => setImmediate(resolve))
        if (signal.aborted) break
        const { key, digest, size } = one
        if ((store.lastUsed(key) ?? Number.POSITIVE_INFINITY) > before) continue
        if (!(await store.evict(key, { digest, content: false }))) continue
        log.debug('removed because no index names it', { key })
        onRemoved(size)
        gone.push(one)
      }
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

/** The decoded URL of a package or a source file; undefined for any other key. */
function packageUrl(key: string): string | undefined {
  const path = key.slice(key.indexOf('/', key.indexOf('://') + 3))
  return classify(path).kind === 'pool' ? decodedUrl(key) : undefined
}

function* linesOf({ figures, since }: Marks): Generator<string> {
  yield `${JSON.stringify({ version: fileVersion, ...figures })}\n`
  const byMoment = new Map<number, string[]>()
  for (const [name, moment] of since) {
    const same = byMoment.get(moment)
    if (same === undefined) byMoment.set(moment, [name])
    else same.push(name)
    if (same === undefined || same.length < atOnce) continue
    yield `${JSON.stringify([moment, same])}\n`
    byMoment.delete(moment)
  }
  for (const line of byMoment) yield `${JSON.stringify(line)}\n`
}

/** The marks of an earlier run. Undefined when they are missing or damaged; the time of every package then begins again. */
async function readMarks({ cacheDirectory, log }: UnreferencedParts): Promise<Marks | undefined> {
  try {
    const found = await valueUnlessMissing(readBounded(join(cacheDirectory, fileName), mostBytes))
    return found && (await decodeMarks(found.bytes.toString()))
  } catch (error) {
    log.warn('retention: cannot read since when no index names packages', {
      because: explainError(error),
    })
    return undefined
  }
}

async function decodeMarks(text: string): Promise<Marks> {
  const [first = '', ...lines] = text.trimEnd().split('\n')
  const head: unknown = JSON.parse(first)
  if (!isRecord(head) || head['version'] !== fileVersion)
    throw new Error('it is of another version')
  const figures = figureNames.map(name => [name, head[name]] as const)
  if (!figures.every(([, value]) => isCount(value))) throw new Error('its figures are damaged')
  const since = new Map<string, number>()
  for (const [n, line] of lines.entries()) {
    if (n > 0 && n % 10 === 0) await new Promise(resolve => setImmediate(resolve))
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
  return { figures: Object.fromEntries(figures) as UnreferencedFigures, since }
}
