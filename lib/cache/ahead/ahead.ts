/**
 * Fetches new versions of packages that clients use, once their suite has a new generation. Off unless the settings
 * `suites.warm` say so.
 *
 * # Facts
 * - One file at a time, and none is begun while a file that a client wants is being fetched.
 * - A file that was fetched ahead was used when the version before it was used last, unless a client got it meanwhile: what no
 *   client wants any more is not fetched again and again, and goes with the others that are unused.
 * - Indexes decide what there is to fetch, clients which packages. So files and bytes are bounded for each day, whatever both do;
 *   a file counts when it is begun.
 */
import { type Clock, day, type Milliseconds } from '../../async/clock.ts'
import { pause, withDeadline } from '../../async/deadline.ts'
import { runInThread } from '../../async/thread.ts'
import { explainError } from '../../errors.ts'
import { parseUri } from '../../http/message/target.ts'
import type { Logger } from '../../log/log.ts'
import { recentEntries } from '../../recent.ts'
import { classify, decodedUrl } from '../archive/path.ts'
import type { Config } from '../config/config.ts'
import type { Fetcher } from '../fetch/fetch.ts'
import type { Store } from '../store/store.ts'
import { packageFile } from '../store/upkeep/versions.ts'
import { type AdoptedIndex, type Generation, keyIn, type Suite } from '../suites/generation.ts'
import { longestJob } from '../suites/thread.ts'
import type { Newer, Search } from './newest.ts'

export interface AheadParts {
  readonly cacheDirectory: string
  readonly clock: Clock
  readonly log: Logger
  readonly store: Pick<Store, 'get' | 'list' | 'touch'>
  readonly fetcher: Pick<Fetcher, 'fetch' | 'count'>
  /** Undefined while no origin may be asked. */
  readonly settings: () => Config['suites']['warm'] | undefined
  /** Called once for each file, with its bytes. */
  readonly onEnd: (result: 'fetched' | 'failed', bytes: number) => void
}

/** An origin may have a new Release every second: entries are listed and indexes read no more often than this. */
const betweenSuites: Milliseconds = 60_000

/** Packages that are looked for, those used last first. */
const mostUsed = 20_000

/** How long to wait until it is looked again whether clients' files are being fetched. */
const betweenLooks: Milliseconds = 1000

/** Past generations in which packages are looked for: one may have come and gone while nothing was fetched. */
const mostPast = 3

/** The number of failures one behind the other after which the origin is left alone. */
const mostFailures = 5

/** Tables of indexes that have been looked into. */
const mostSeen = 10_000

export class Ahead {
  readonly #parts: AheadParts
  readonly #waiting = new Map<string, Suite>()
  readonly #seen = recentEntries<string, true>(mostSeen)
  readonly #closing = new AbortController()
  #spent = { since: Number.NEGATIVE_INFINITY, files: 0, bytes: 0 }
  #working: Promise<void> | undefined

  constructor(parts: AheadParts) {
    this.#parts = parts
  }

  /** A suite was adopted. */
  adopted(suite: Suite): void {
    const days = this.#parts.settings()?.days ?? 0
    if (days === 0 || suite.generations.length < 2 || this.#closing.signal.aborted) return
    this.#waiting.set(suite.at, suite)
    this.#working ??= this.#work().finally(() => {
      this.#working = undefined
    })
  }

  /** Begins no more; resolves when what it does now has ended. */
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

  async #upgrade({ at, generations: [next, ...past] }: Suite): Promise<void> {
    const { clock, log, cacheDirectory } = this.#parts
    const after = onlyIn([next], past).filter(({ table }) => !this.#seen.has(table))
    const before = onlyIn(past.slice(0, mostPast), [next])
    if (after.length === 0 || before.length === 0) return
    for (const { table } of after) this.#seen.set(table, true)
    const used = await this.#used([...new Set(before.map(({ root }) => root))])
    if (used.size === 0) return
    const begun = clock.elapsed()
    const found = await this.#search({ cacheDirectory, before, after, used })
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

  /** The packages below these roots that clients asked for lately, by their decoded URLs, with their last use. */
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

  /** Searches in a thread. Rejects when this is closed, when it takes too long, and when an index cannot be read. */
  #search(task: Search): Promise<readonly Newer[]> {
    const { clock } = this.#parts
    const { signal } = this.#closing
    const late = () => new Error('it takes too long')
    const limit = { clock, after: longestJob, signal, late, aborted: () => signal.reason }
    const program = new URL('./newest.js', import.meta.url)
    return withDeadline(limit, stop =>
      runInThread(
        program,
        { task, heapMegabytes, signal: stop },
        (found: readonly Newer[], resolve) => resolve(found),
      ),
    )
  }

  async #one(
    at: string,
    { root, path, size, digest, lastUsed }: Newer,
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

  /** Whether a file of so many bytes may be fetched within what is allowed for a day. */
  #affords(bytes: number): boolean {
    const settings = this.#parts.settings()
    const now = this.#parts.clock.elapsed()
    if (now - this.#spent.since >= day) this.#spent = { since: now, files: 0, bytes: 0 }
    if (settings === undefined || settings.days === 0) return false
    const { files, bytes: spent } = this.#spent
    return files < settings.files && spent + bytes <= settings.size
  }
}

/** The packages that are looked for and the stanzas of an index take a tenth of it. */
const heapMegabytes = 512

type Generations = ReadonlyArray<Generation | undefined>

/** The indexes that some generations have and others have not, each once. */
function onlyIn(some: Generations, others: Generations): readonly AdoptedIndex[] {
  const tables = new Map<string, AdoptedIndex>()
  for (const index of some.flatMap(one => one?.indexes ?? [])) tables.set(index.table, index)
  for (const { table } of others.flatMap(one => one?.indexes ?? [])) tables.delete(table)
  return [...tables.values()]
}
