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
import type { Logger } from '../../../log/log.ts'
import { recentEntries } from '../../../recent.ts'
import { stanzas } from '../../archive/deb822.ts'
import { decompress } from '../../archive/decompress.ts'
import { type NamedPackage, packageNamed } from '../../archive/package-file.ts'
import { decodedUrl } from '../../archive/path.ts'
import { indexChoices } from '../../archive/suite-layout.ts'
import type { Refusal } from '../../policy/policy.ts'
import type { FileDestination } from '../../request/destination.ts'
import { Layout } from '../../store/disk/disk.ts'
import type { Claim, Generation } from '../../suites/generation.ts'
import type { Core } from '../feature.ts'
import { type DenyRow, isWithin, mayBeWithin } from './row.ts'
import { type DenyRows, readDenyFiles } from './rows.ts'

interface DenyParts extends Pick<Core, 'rules' | 'suites' | 'clock' | 'cacheDirectory'> {
  readonly log: Logger
}

/** A changed file is read once it was the same in two looks, so within a second of its change. */
const interval: Milliseconds = 250
const longestReading: Milliseconds = 60_000
/** Less than apt waits for an answer. */
const longestLookUp: Milliseconds = 20_000
const mostLookedUp = 20
const wanted = ['Package', 'Source', 'Version', 'Filename']
const heapMegabytes = 512

interface FileRows {
  readonly named: NamedPackage
  readonly rows: readonly DenyRow[]
}

export class DenyList {
  readonly #parts: DenyParts
  readonly #closing = new AbortController()
  #rows: readonly DenyRow[] = []
  #byName: ReadonlyMap<string, readonly DenyRow[]> = new Map()
  #ofFiles = new WeakMap<FileDestination, FileRows | 'none'>()
  /** The versions of listed packages by the digest of the Release file. */
  #versions = recentEntries<string, Promise<ReadonlyMap<string, string>>>(mostLookedUp)
  /** What is wrong with the files now. */
  problem: string | undefined
  #reading: Promise<void> = Promise.resolve()
  #endWatch = () => {}

  private constructor(parts: DenyParts) {
    this.#parts = parts
  }

  /** Reads the files. Throws a Failure when they cannot be used. */
  static async open(parts: DenyParts): Promise<DenyList> {
    const list = new DenyList(parts)
    const found = await readDenyFiles(parts.rules().config.deny)
    if ('problem' in found) throw new Failure(`deny: ${found.problem}`, { code: 'deny' })
    list.#use(found.rows)
    const files = () => ({ of: parts.rules(), paths: parts.rules().config.deny })
    const look = settledLook(files, () => void list.#readAgain())
    list.#endWatch = repeat(parts.clock, interval, look)
    return list
  }

  get rows(): readonly DenyRow[] {
    const now = this.#parts.clock.now()
    return this.#rows.filter(row => isInForce(row, now))
  }

  async close(): Promise<void> {
    this.#endWatch()
    this.#closing.abort(new Error('the service stops'))
    await this.#reading
  }

  /** The refusal of a file; undefined when no row denies it. */
  readonly refuse = (file: FileDestination): Refusal | undefined | Promise<Refusal | undefined> => {
    if (this.#byName.size === 0) return undefined
    let found = this.#ofFiles.get(file)
    if (found === undefined) {
      found = this.#rowsOf(file)
      this.#ofFiles.set(file, found)
    }
    return found === 'none' ? undefined : this.#judge(file, found)
  }

  #rowsOf({ uri }: FileDestination): FileRows | 'none' {
    const named = packageNamed(uri.path)
    if (named === undefined) return 'none'
    const rows = [named.name, ...(named.name === named.directory ? [] : [named.directory])]
      .flatMap(name => this.#byName.get(name) ?? [])
      .filter(row => row.package === (row.source ? named.directory : named.name))
      .filter(({ architecture: only = named.architecture }) => only === named.architecture)
    return rows.length === 0 ? 'none' : { named, rows }
  }

  #judge(file: FileDestination, { named, rows }: FileRows) {
    const now = this.#parts.clock.now()
    const open: DenyRow[] = []
    for (const row of rows) {
      if (!isInForce(row, now)) continue
      const is = row.byRelease === undefined ? mayBeWithin(named.version, row.ranges) : 'unknown'
      if (is === true) return refusalBy(row, named, named.version)
      if (is === 'unknown') open.push(row)
    }
    return open.length === 0 ? undefined : this.#judgeBySuite(file, named, open)
  }

  /** Decides by what the suites know of the file. */
  async #judgeBySuite(
    file: FileDestination,
    named: NamedPackage,
    rows: readonly DenyRow[],
  ): Promise<Refusal | undefined> {
    const { key, archive } = file
    const client = { address: '', port: 0 }
    const must = await this.#parts.suites.mustBe({ key, archive, client, stored: undefined })
    const claim = must.claim ?? (await must.awaited)
    const release = claim && releaseOf(claim.suite)
    for (const { byRelease, ranges: common, ...row } of rows) {
      const ranges = byRelease?.get(release ?? '') ?? common
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
    let reading = this.#versions.get(digest)
    if (reading === undefined) {
      reading = this.#versionsIn(generation)
      this.#versions.set(digest, reading)
    }
    try {
      const url = decodedUrl(key) ?? ''
      const versions = await resultInTime(reading, clock, longestLookUp)
      for (const [path, version] of versions ?? []) if (url.endsWith(`/${path}`)) return version
    } catch (error) {
      this.#versions.delete(digest)
      const because = explainError(error)
      log.warn('the versions of denied packages cannot be read from an index', { because })
    }
    return undefined
  }

  /** The versions of listed packages that the stored indexes of a generation name, by the paths of their files. */
  async #versionsIn({ contents }: Generation): Promise<ReadonlyMap<string, string>> {
    const layout = new Layout(this.#parts.cacheDirectory)
    const found = new Map<string, string>()
    for (const [index] of indexChoices(contents)) {
      if (index?.kind !== 'Packages') continue
      const unpacked = decompress(createReadStream(layout.blob(index.digest)))
      for await (const { fields } of stanzas(unpacked, { wanted })) {
        const [name = '', source = name] = [fields.get('package'), fields.get('source')]
        const [path, version] = [fields.get('filename'), fields.get('version')]
        const isListed = this.#byName.has(name) || this.#byName.has(source.split(' ')[0] ?? '')
        if (isListed && path !== undefined && version !== undefined) found.set(path, version)
      }
    }
    return found
  }

  #readAgain(): Promise<void> {
    this.#reading = this.#reading.then(async () => {
      const { rules, clock, log } = this.#parts
      const { signal } = this.#closing
      const thread = { task: rules().config.deny, heapMegabytes, signal }
      const program = new URL('./rows.js', import.meta.url)
      const found = await answerOfThread<DenyRows>(program, thread, {
        clock,
        longest: longestReading,
      }).catch((error: unknown) => ({ problem: explainError(error) }))
      if (signal.aborted) return
      if ('rows' in found) this.#use(found.rows)
      else if (found.problem !== this.problem) {
        this.problem = found.problem
        log.warn('the earlier list of denied packages stays in force', { because: found.problem })
      }
    })
    return this.#reading
  }

  #use(rows: readonly DenyRow[]): void {
    const byName = new Map<string, DenyRow[]>()
    for (const row of rows) {
      const same = byName.get(row.package)
      if (same === undefined) byName.set(row.package, [row])
      else same.push(row)
    }
    this.problem = undefined
    this.#rows = rows
    this.#byName = byName
    this.#ofFiles = new WeakMap()
    this.#versions.clear()
  }
}

function isInForce({ until }: DenyRow, now: Milliseconds): boolean {
  return until === undefined || now < until
}

/** The code name of the release that a suite belongs to, such as `bookworm` for `bookworm-security`. */
function releaseOf(suite: string): string | undefined {
  const name = /\/dists\/([a-z]+)/.exec(suite)?.[1]
  return name === 'unstable' ? 'sid' : name
}

function refusalBy(
  { reason }: Pick<DenyRow, 'reason'>,
  { name, version: written }: NamedPackage,
  version: string | undefined,
): Refusal {
  const what = [name, version ?? written].filter(word => word !== undefined).join(' ')
  const unsure =
    version === undefined ? ' (its version is not known, so it may be another one)' : ''
  return { deny: 'deny', sentence: `${what} is denied by this proxy: ${reason}${unsure}` }
}
