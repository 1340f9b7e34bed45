/**
 * The list of denied packages in a running service: whether it denies a file, and its files, which are read again when they change.
 *
 * # Facts
 * - Clients ask for few different files again and again, and have the same object for each (request/destination.ts). So the rows for a
 *   file are found once.
 * - What the name of a file does not say, its epoch or its release, the suites know. Where they do not name the file, it is denied if the
 *   list could mean it.
 */
import { createReadStream } from 'node:fs'
import type { Milliseconds } from '../../../async/clock.ts'
import { resultInTime } from '../../../async/deadline.ts'
import { repeat } from '../../../async/repeat.ts'
import { answerOfThread } from '../../../async/thread.ts'
import { explainError, Failure } from '../../../errors.ts'
import { settledLook } from '../../../files/settled-files.ts'
import { recentEntries } from '../../../recent.ts'
import { stanzas } from '../../archive/deb822.ts'
import { decompress } from '../../archive/decompress.ts'
import { type NamedPackage, packageNamed } from '../../archive/package-file.ts'
import { decodedUrl } from '../../archive/path.ts'
import { indexChoices } from '../../archive/suite-layout.ts'
import type { RefuseFile } from '../../decide/decide.ts'
import type { Refusal } from '../../policy/policy.ts'
import type { FileDestination } from '../../request/destination.ts'
import { Layout } from '../../store/disk/disk.ts'
import type { Claim, Generation } from '../../suites/generation.ts'
import { groupsOf } from '../../suites/past-names.ts'
import type { Core } from '../feature.ts'
import { type DenyRow, isWithin, mayBeWithin } from './row.ts'
import { type DenyRows, readDenyFiles } from './rows.ts'

type DenyParts = Pick<Core, 'rules' | 'suites' | 'clock' | 'cacheDirectory'> & {
  readonly log: ReturnType<Core['log']['child']>
}

/** A changed file is read once it was the same in two looks, so within a second of its change. */
const interval: Milliseconds = 250
const longestReading: Milliseconds = 60_000
/** Less than apt waits for an answer. */
const longestLookUp: Milliseconds = 20_000
const mostLookedUp = 20

export class DenyList {
  readonly #parts: DenyParts
  readonly #closing = new AbortController()
  #rows: readonly DenyRow[] = []
  #byName: ReadonlyMap<string, readonly DenyRow[]> = new Map()
  /** The rows that may deny a file. */
  #ofFiles = new WeakMap<FileDestination, readonly DenyRow[]>()
  /** The versions of listed packages by the paths of their files, for a Release file. */
  readonly #versions = recentEntries<string, Promise<ReadonlyMap<string, string>>>(mostLookedUp)
  /** What is wrong with the files now. */
  problem: string | undefined
  #reading: Promise<void> = Promise.resolve()
  readonly #endWatch: () => void

  /** Reads the files. Throws a Failure when they cannot be used. */
  static async open(parts: DenyParts): Promise<DenyList> {
    const found = await readDenyFiles(parts.rules().config.deny)
    if ('problem' in found) throw new Failure(`deny: ${found.problem}`, { code: 'deny' })
    return new DenyList(parts, found.rows)
  }

  private constructor(parts: DenyParts, rows: readonly DenyRow[]) {
    this.#parts = parts
    this.#use(rows)
    const files = () => ({ of: parts.rules(), paths: parts.rules().config.deny })
    const look = settledLook(files, () => {
      this.#reading = this.#reading.then(() => this.#readAgain())
    })
    this.#endWatch = repeat(parts.clock, interval, look)
  }

  /** The rows in force. */
  get rows(): readonly DenyRow[] {
    return this.#rows.filter(this.#isInForce)
  }

  async close(): Promise<void> {
    this.#endWatch()
    this.#closing.abort(new Error('the service stops'))
    await this.#reading
  }

  readonly refuse: RefuseFile = file => {
    let found = this.#ofFiles.get(file)
    if (found === undefined) {
      found = this.#rowsOf(packageNamed(file.uri.path))
      this.#ofFiles.set(file, found)
    }
    const rows = found.length === 0 ? found : found.filter(this.#isInForce)
    const named = rows.length === 0 ? undefined : packageNamed(file.uri.path)
    if (named === undefined) return undefined
    const certain = rows.find(
      ({ byRelease, ranges }) =>
        byRelease === undefined && mayBeWithin(named.version, ranges) === true,
    )
    return certain === undefined
      ? this.#judge(file, named, rows)
      : refusalBy(certain, named, named.version)
  }

  readonly #isInForce = ({ until = Number.POSITIVE_INFINITY }: DenyRow): boolean =>
    this.#parts.clock.now() < until

  #rowsOf(named: NamedPackage | undefined): readonly DenyRow[] {
    if (named === undefined) return []
    const { name, directory, version, architecture } = named
    return [...new Set([name, directory])]
      .flatMap(listed => this.#byName.get(listed) ?? [])
      .filter(
        ({ source, architecture: only = architecture, ranges, byRelease, ...row }) =>
          row.package === (source ? directory : name) &&
          only === architecture &&
          mayBeWithin(version, [ranges, ...(byRelease?.values() ?? [])].flat()) !== false,
      )
  }

  /** Decides by what the suites know of the file. */
  async #judge(
    { key, archive }: FileDestination,
    named: NamedPackage,
    rows: readonly DenyRow[],
  ): Promise<Refusal | undefined> {
    const client = { address: '', port: 0 }
    const must = await this.#parts.suites.mustBe({ key, archive, client, stored: undefined })
    const claim = must.claim ?? (await must.awaited)
    for (const row of rows) {
      const ranges = row.byRelease?.get(releaseOf(claim) ?? '') ?? row.ranges
      let [is, version] = [mayBeWithin(named.version, ranges), named.version]
      if (is === 'unknown') {
        version = claim && (await this.#versionIn(claim, key))
        is = version === undefined || isWithin(version, ranges)
      }
      if (is) return refusalBy(row, named, version)
    }
    return undefined
  }

  /** The version of a package file that the indexes of its suite name; undefined when they cannot be read in time. */
  async #versionIn({ generation }: Claim, key: string): Promise<string | undefined> {
    const { clock, log } = this.#parts
    const { digest } = generation.release
    const reading = this.#versions.get(digest) ?? this.#readVersions(generation)
    this.#versions.set(digest, reading)
    const url = decodedUrl(key) ?? ''
    try {
      const versions = (await resultInTime(reading, clock, longestLookUp)) ?? []
      return [...versions].find(([path]) => url.endsWith(`/${path}`))?.[1]
    } catch (error) {
      this.#versions.delete(digest)
      log.warn('cannot read the versions of denied packages', { because: explainError(error) })
      return undefined
    }
  }

  async #readVersions({ contents }: Generation): Promise<ReadonlyMap<string, string>> {
    const layout = new Layout(this.#parts.cacheDirectory)
    const found = new Map<string, string>()
    for (const [index] of indexChoices(contents)) {
      if (index?.kind !== 'Packages') continue
      const unpacked = decompress(createReadStream(layout.blob(index.digest)))
      for await (const { fields } of stanzas(unpacked, { wanted })) {
        const [name = '', source = name] = [fields.get('package'), fields.get('source')]
        const [path, version] = [fields.get('filename'), fields.get('version')]
        // `Source: name (version)` is that of a package whose source has another version.
        const isListed = this.#byName.has(name) || this.#byName.has(source.split(' ')[0] ?? '')
        if (isListed && path !== undefined && version !== undefined) found.set(path, version)
      }
    }
    return found
  }

  async #readAgain(): Promise<void> {
    const { rules, clock, log } = this.#parts
    const { signal } = this.#closing
    const { deny } = rules().config
    if (deny.length === 0) return this.#use([])
    const thread = { task: deny, heapMegabytes: 512, signal }
    const program = new URL('./rows.js', import.meta.url)
    const limits = { clock, longest: longestReading }
    const found = await answerOfThread<DenyRows>(program, thread, limits).catch(
      (error: unknown) => ({ problem: explainError(error) }),
    )
    if (signal.aborted) return
    if ('rows' in found) return this.#use(found.rows)
    if (found.problem === this.problem) return
    this.problem = found.problem
    log.warn('the earlier list of denied packages stays in force', { because: found.problem })
  }

  #use(rows: readonly DenyRow[]): void {
    this.problem = undefined
    this.#rows = rows
    this.#byName = groupsOf(rows, row => row.package)
    this.#ofFiles = new WeakMap()
    this.#versions.clear()
  }
}

const wanted = ['Package', 'Source', 'Version', 'Filename']

/** The code name of the release that a suite belongs to, such as `bookworm` for `bookworm-security`. */
function releaseOf(claim: Claim | undefined): string | undefined {
  const name = /\/dists\/([a-z]+)/.exec(claim?.suite ?? '')?.[1]
  return name === 'unstable' ? 'sid' : name
}

function refusalBy({ reason }: DenyRow, named: NamedPackage, version: string | undefined): Refusal {
  const what = [named.name, version ?? named.version ?? ''].join(' ').trim()
  const unsure =
    version === undefined ? ' (its version is not known, so it may be another one)' : ''
  return { deny: 'deny', sentence: `${what} is denied by this proxy: ${reason}${unsure}` }
}
