/**
 * Fetches new versions of packages that clients use, once their suite has a new generation. It does so only when the settings
 * `suites.warm` switch it on. The search for new versions is heavy, so this file is also the program of a thread, which does the search.
 *
 * # Facts
 * - It fetches one file at a time, and begins none while another fetch is under way.
 * - A file that was fetched ahead gets the last use of the version before it, unless a client got it meanwhile. So packages that no
 *   client wants any more are not fetched for ever, and are removed with other unused files.
 * - Indexes and clients decide together which files are fetched. So files and bytes are bounded for each day. A file counts when its
 *   fetch begins.
 */
import { createReadStream } from 'node:fs'
import { type Clock, day, type Milliseconds } from '../../../async/clock.ts'
import { pause } from '../../../async/deadline.ts'
import { answerOfThread, doTaskOfThread } from '../../../async/thread.ts'
import { explainError } from '../../../errors.ts'
import { parseUri } from '../../../http/message/target.ts'
import type { Logger } from '../../../log/log.ts'
import { recentEntries } from '../../../recent.ts'
import { decompress } from '../../archive/decompress.ts'
import { indexedFiles, type ListedFile } from '../../archive/listed-file.ts'
import { type PackageFile, packageFile } from '../../archive/package-file.ts'
import { classify, decodedUrl } from '../../archive/path.ts'
import { compareVersions } from '../../archive/version.ts'
import type { Config } from '../../config/config.ts'
import type { Fetcher } from '../../fetch/fetch.ts'
import { Layout } from '../../store/disk/disk.ts'
import type { Store } from '../../store/store.ts'
import {
  type AdoptedIndex,
  type Generation,
  type KnownSuite,
  keyIn,
} from '../../suites/generation.ts'
import { longestJob } from '../../suites/thread.ts'

export interface AheadFetchParts {
  readonly cacheDirectory: string
  readonly clock: Clock
  readonly log: Logger
  readonly store: Pick<Store, 'get' | 'list' | 'touch'>
  readonly fetcher: Pick<Fetcher, 'fetch' | 'count'>
  /** The settings `suites.warm`; undefined while no origin may be asked. */
  readonly settings: () => Config['suites']['warm'] | undefined
  /** Called once for each file, with its bytes. */
  readonly onEnd: (result: 'fetched' | 'failed', bytes: number) => void
}

/** The pause after each suite. An origin can have a new Release file every second, and listing entries and reading indexes is expensive. */
const betweenSuites: Milliseconds = 60_000

/** The most packages whose new versions are searched. Those used last come first. */
const mostUsed = 20_000

/** The time after which it looks again whether other fetches have ended. */
const betweenLooks: Milliseconds = 1000

/** The number of past generations in which packages are searched, because a generation can pass while none is fetched. */
const mostPast = 3

/** The number of successive failures after which no further files of the suite are fetched. */
const mostFailures = 5

const mostSeen = 10_000

export class AheadFetches {
  readonly #parts: AheadFetchParts
  readonly #waiting = new Map<string, KnownSuite>()
  readonly #seen = recentEntries<string, true>(mostSeen)
  readonly #closing = new AbortController()
  #spent = { since: Number.NEGATIVE_INFINITY, files: 0, bytes: 0 }
  #working: Promise<void> | undefined

  constructor(parts: AheadFetchParts) {
    this.#parts = parts
  }

  /** Begins to fetch the new packages of a suite that was adopted. */
  adopted(suite: KnownSuite): void {
    const days = this.#parts.settings()?.days ?? 0
    if (days === 0 || suite.generations.length < 2 || this.#closing.signal.aborted) return
    this.#waiting.set(suite.at, suite)
    this.#working ??= this.#work().finally(() => {
      this.#working = undefined
    })
  }

  /** Begins no further fetches. Resolves when the current one has ended. */
  async close(): Promise<void> {
    this.#closing.abort(new Error('the service stops'))
    await this.#working
  }

  async #work(): Promise<void> {
    const { clock, log } = this.#parts
    for (const [at, suite] of this.#waiting) {
      this.#waiting.delete(at)
      try {
        await this.#upgrade(suite)
      } catch (error) {
        if (this.#closing.signal.aborted) return
        const because = explainError(error)
        log.warn('packages could not be fetched ahead', { suite: at, because })
      }
      await pause(clock, betweenSuites, this.#closing.signal)
    }
  }

  async #upgrade({ at, generations: [next, ...past] }: KnownSuite): Promise<void> {
    const { clock, log, cacheDirectory } = this.#parts
    const after = onlyIn([next], past).filter(({ table }) => !this.#seen.has(table))
    const before = onlyIn(past.slice(0, mostPast), [next])
    if (after.length === 0 || before.length === 0) return
    for (const { table } of after) this.#seen.set(table, true)
    const used = await this.#used([...new Set(before.map(({ root }) => root))])
    if (used.size === 0) return
    const begun = clock.elapsed()
    const task: Search = { cacheDirectory, before, after, used }
    const thread = { task, heapMegabytes, signal: this.#closing.signal }
    const limit = { clock, longest: longestJob }
    const found = await answerOfThread<readonly NewerPackage[]>(program, thread, limit)
    log.debug('newer packages were found', { suite: at, newer: found.length })
    const counts = { fetched: 0, failed: 0, bytes: 0 }
    let failures = 0
    for (const one of found) {
      const result = failures < mostFailures ? await this.#one(at, one) : 'left'
      if (result === 'left') continue
      failures = result === 'failed' ? failures + 1 : 0
      counts[result] += 1
      if (result === 'fetched') counts.bytes += one.size
    }
    log.info('fetched packages ahead', {
      suite: at,
      used: used.size,
      newer: found.length,
      ...counts,
      left: found.length - counts.fetched - counts.failed,
      milliseconds: Math.round(clock.elapsed() - begun),
    })
  }

  /** The packages below these roots that clients used lately: their decoded URLs with their last uses. */
  async #used(roots: readonly string[]): Promise<ReadonlyMap<string, Milliseconds>> {
    const { store, clock, settings } = this.#parts
    const since = clock.now() - (settings()?.days ?? 0) * day
    const used: [name: string, last: Milliseconds][] = []
    for await (const some of store.list()) {
      this.#closing.signal.throwIfAborted()
      for (const { key, lastUsed } of some) {
        const name = lastUsed >= since ? decodedUrl(key) : undefined
        if (name === undefined || packageFile(name) === undefined) continue
        if (roots.some(root => name.startsWith(`${root}/`))) used.push([name, lastUsed])
      }
    }
    return new Map(used.sort(([, a], [, b]) => b - a).slice(0, mostUsed))
  }

  async #one(
    at: string,
    { root, path, size, digest, lastUsed }: NewerPackage,
  ): Promise<'fetched' | 'failed' | 'left'> {
    const { store, fetcher, onEnd } = this.#parts
    const key = keyIn(encodeURI(root), path)
    const uri = key === undefined ? undefined : parseUri(key)
    if (key === undefined || uri === undefined || 'problem' in uri) return 'left'
    await this.#turn()
    if (!this.#affords(size) || (await store.get(key))?.digest === digest) return 'left'
    this.#spent.files += 1
    this.#spent.bytes += size
    const claim = { size, digest, suite: at }
    const archive = classify(uri.path)
    const { found } = fetcher.fetch({ key, uri, archive, claim, stored: undefined, insist: false })
    const first = await found
    const filling = first.kind === 'filling' ? first.filling : undefined
    const settled = await filling?.settled
    const result = settled?.kind === 'stored' && (await settled.kept) ? 'fetched' : 'failed'
    if (result === 'fetched' && filling?.download.awaited) store.touch(key, lastUsed)
    onEnd(result, size)
    return result
  }

  /** Waits until no file is being fetched. */
  async #turn(): Promise<void> {
    const { clock, fetcher } = this.#parts
    const { signal } = this.#closing
    while (fetcher.count > 0 && !signal.aborted) await pause(clock, betweenLooks, signal)
    signal.throwIfAborted()
  }

  /** Whether the bounds of a day allow a file of this size. */
  #affords(bytes: number): boolean {
    const settings = this.#parts.settings()
    const now = this.#parts.clock.elapsed()
    if (now - this.#spent.since >= day) this.#spent = { since: now, files: 0, bytes: 0 }
    if (settings === undefined || settings.days === 0) return false
    const { files, bytes: spent } = this.#spent
    return files < settings.files && spent + bytes <= settings.size
  }
}

const program = new URL('./ahead.js', import.meta.url)
/** The heap of the thread. The searched packages and the stanzas of an index take a tenth of it. */
const heapMegabytes = 512

type Generations = ReadonlyArray<Generation | undefined>

/** The indexes that some generations have and others do not have, each once. */
function onlyIn(some: Generations, others: Generations): readonly AdoptedIndex[] {
  const tables = new Map<string, AdoptedIndex>()
  for (const index of some.flatMap(one => one?.indexes ?? [])) tables.set(index.table, index)
  for (const { table } of others.flatMap(one => one?.indexes ?? [])) tables.delete(table)
  return [...tables.values()]
}

/** The task of the search. */
interface Search {
  readonly cacheDirectory: string
  /** The earlier and the new indexes, by the digests of their contents. */
  readonly before: readonly AdoptedIndex[]
  readonly after: readonly AdoptedIndex[]
  /** The last uses of packages by clients, by their decoded URLs. */
  readonly used: ReadonlyMap<string, Milliseconds>
}

/** A package that replaces one that clients use. */
interface NewerPackage {
  /** The last use of the replaced package. */
  readonly lastUsed: Milliseconds
  /** The decoded URL of the directory from which its path counts. */
  readonly root: string
  readonly path: string
  readonly size: number
  readonly digest: string
}

/** A package in an index, identified by directory, name and architecture. */
interface Indexed {
  readonly file: PackageFile
  readonly name: string
  readonly root: string
  readonly listed: ListedFile
}

/**
 * The newest version of each used package that earlier indexes named. The package that was used last comes first. Throws when an index
 * cannot be read.
 */
async function newest(search: Search): Promise<readonly NewerPackage[]> {
  const lastUsed = (one?: Indexed): Milliseconds => search.used.get(one?.name ?? '') ?? 0
  const before = new Map<string, Indexed>()
  for await (const one of packagesOf(search, search.before)) {
    const { name } = one.file
    if (lastUsed(one) > lastUsed(before.get(name))) before.set(name, one)
  }
  const after = new Map<string, Indexed>()
  const still = new Set<string>()
  for await (const one of packagesOf(search, search.after)) {
    const { file } = one
    const old = before.get(file.name)
    if (old === undefined) continue
    if (old.name === one.name) still.add(file.name)
    const other = after.get(file.name)
    const newer = other === undefined || compareVersions(file.version, other.file.version) > 0
    if (newer) after.set(file.name, one)
  }
  const found = [...after.values()].flatMap(({ file, name, root, listed }) => {
    const old = before.get(file.name)
    const { sha256: digest } = listed.digests
    if (old === undefined || digest === undefined || old.name === name) return []
    // File names lack the epoch. If the old file is no longer named, the new one is newer whatever their names say.
    const older = still.has(file.name) && compareVersions(file.version, old.file.version) <= 0
    const { path, size } = listed
    return older ? [] : [{ lastUsed: lastUsed(old), root, path, size, digest }]
  })
  return found.sort((a, b) => b.lastUsed - a.lastUsed)
}

async function* packagesOf(
  { cacheDirectory }: Search,
  indexes: readonly AdoptedIndex[],
): AsyncGenerator<Indexed> {
  const layout = new Layout(cacheDirectory)
  for (const { table, root } of indexes) {
    const unpacked = decompress(createReadStream(layout.blob(table)))
    for await (const listed of indexedFiles('Packages', unpacked)) {
      const name = `${root}/${listed.path}`
      const file = packageFile(name)
      if (file !== undefined) yield { file, name, root, listed }
    }
  }
}

await doTaskOfThread(newest)
