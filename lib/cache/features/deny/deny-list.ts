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
import { Rests } from '../../../async/rests.ts'
import { answerOfThread } from '../../../async/thread.ts'
import { explainError, Failure } from '../../../errors.ts'
import { settledLook } from '../../../files/settled-files.ts'
import { formatUri } from '../../../http/message/target.ts'
import { recentEntries } from '../../../recent.ts'
import { stanzas } from '../../archive/deb822.ts'
import { decompress } from '../../archive/decompress.ts'
import { readPath } from '../../archive/listed-file.ts'
import { packageNamed } from '../../archive/package-file.ts'
import { classify, decodedUrl } from '../../archive/path.ts'
import { indexChoices } from '../../archive/suite-layout.ts'
import type { RefuseFile } from '../../decide/decide.ts'
import type { Refusal } from '../../policy/policy.ts'
import type { FileDestination } from '../../request/destination.ts'
import { Layout } from '../../store/disk/disk.ts'
import type { Claim, Generation } from '../../suites/generation.ts'
import { groupsOf } from '../../suites/past-names.ts'
import type { Core } from '../feature.ts'
import { distributionOf } from './advisories.ts'
import { type PackageFacts, plainUri } from './plain.ts'
import { comparedVersion, type DenyRow, isWithin, mayBeWithin } from './row.ts'
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

/** A file that rows may deny. */
interface Suspect {
  readonly named: PackageFacts
  readonly rows: readonly DenyRow[]
}

export class DenyList {
  readonly #parts: DenyParts
  readonly #closing = new AbortController()
  #rows: readonly DenyRow[] = []
  #byName: ReadonlyMap<string, readonly DenyRow[]> = new Map()
  /** The rows that may deny a file. */
  #ofFiles = new WeakMap<FileDestination, Suspect | 'none'>()
  /** The listed packages by the paths of their files, for a Release file. */
  readonly #packages = recentEntries<string, Promise<ReadonlyMap<string, PackageFacts>>>(
    mostLookedUp,
  )
  /** The Release files with an index that could not be read. It is left alone for a while, or each request would read it and warn. */
  readonly #unreadable: Rests
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
    this.#unreadable = new Rests(parts.clock)
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
    const suspect = this.#ofFiles.get(file) ?? this.#suspect(packageNamed(plainUri(file.uri).path))
    this.#ofFiles.set(file, suspect)
    return suspect === 'none' ? undefined : this.#judge(file, suspect)
  }

  #suspect(named: PackageFacts | undefined): Suspect | 'none' {
    if (named === undefined || this.#rows.length === 0) return 'none'
    const rows = this.#rowsOf(named)
    // A name without a version may be that of any package.
    return rows.length === 0 && named.version !== undefined ? 'none' : { named, rows }
  }

  readonly #isInForce = ({ until = Number.POSITIVE_INFINITY }: DenyRow): boolean =>
    this.#parts.clock.now() < until

  #rowsOf(named: PackageFacts): readonly DenyRow[] {
    const { name, directory, architecture } = named
    return [...new Set([name, directory])]
      .flatMap(listed => this.#byName.get(listed) ?? [])
      .filter(row => {
        const { source, architecture: only = architecture, ranges, byRelease } = row
        const all = [ranges, ...(byRelease?.values() ?? [])].flat()
        return (
          row.package === (source ? directory : name) &&
          (architecture === '' || only === architecture) &&
          mayBeWithin(comparedVersion(row, named), all) !== false
        )
      })
  }

  /** Decides by what the suites know of the file. */
  async #judge({ uri }: FileDestination, { named, rows }: Suspect): Promise<Refusal | undefined> {
    const plain = plainUri(uri)
    const [key, archive] = [formatUri(plain), classify(plain.path)]
    const client = { address: '', port: 0 }
    const must = await this.#parts.suites.mustBe({ key, archive, client, stored: undefined })
    const claim = must.claim ?? (await must.awaited)
    const release = releaseOf(claim)
    const distribution = distributionOf(release)
    const found = named.version === undefined ? await this.#inIndex(claim, key) : undefined
    const about = found ?? named
    for (const row of found === undefined ? rows : this.#rowsOf(found)) {
      const isElsewhere =
        row.distribution !== undefined && row.distribution !== (distribution ?? row.distribution)
      if (isElsewhere || !this.#isInForce(row)) continue
      const ranges = row.byRelease?.get(release ?? '') ?? row.ranges
      let [is, version] = [mayBeWithin(comparedVersion(row, about), ranges), about.version]
      if (is === 'unknown') {
        const whole = await this.#inIndex(claim, key)
        version = whole?.version
        is = whole === undefined || isWithin(comparedVersion(row, whole) ?? '', ranges)
      }
      if (is) return refusalBy(row, about, version)
    }
    return undefined
  }

  /** What the indexes of its suite say of the package in a file; undefined when it is not listed, or they cannot be read in time. */
  async #inIndex(claim: Claim | undefined, key: string): Promise<PackageFacts | undefined> {
    if (claim === undefined) return undefined
    const { generation } = claim
    const { clock, log } = this.#parts
    const { digest } = generation.release
    if (this.#unreadable.left(digest) > 0) return undefined
    const reading = this.#packages.get(digest) ?? this.#readPackages(generation)
    this.#packages.set(digest, reading)
    const url = decodedUrl(key) ?? ''
    try {
      const packages = (await resultInTime(reading, clock, longestLookUp)) ?? []
      return [...packages].find(([path]) => url.endsWith(`/${path}`))?.[1]
    } catch (error) {
      this.#packages.delete(digest)
      this.#unreadable.note(digest)
      log.warn('cannot read the versions of denied packages', { because: explainError(error) })
      return undefined
    }
  }

  async #readPackages({ contents }: Generation): Promise<ReadonlyMap<string, PackageFacts>> {
    const layout = new Layout(this.#parts.cacheDirectory)
    const found = new Map<string, PackageFacts>()
    for (const [index] of indexChoices(contents)) {
      if (index === undefined) continue
      const ofSources = index.kind === 'Sources'
      const unpacked = decompress(createReadStream(layout.blob(index.digest)))
      for await (const { fields } of stanzas(unpacked, { wanted })) {
        const field = (name: string): string => fields.get(name) ?? ''
        const [name, version] = [field('package'), field('version')]
        const listed = field('checksums-sha256') || field('files')
        const file = ofSources
          ? `${field('directory')}/${/\S+\.dsc$/m.exec(listed)?.[0]}`
          : field('filename')
        // `Source: name (version)` is that of a package whose source has another version.
        const [directory = ''] = (field('source') || name).split(' ')
        const architecture = ofSources ? 'source' : field('architecture')
        const isListed = this.#byName.has(name) || this.#byName.has(directory)
        const path = isListed && version !== '' ? readPath(file) : undefined
        if (path !== undefined) found.set(path, { name, version, directory, architecture })
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
    this.#packages.clear()
  }
}

const wanted = [
  ...['Package', 'Source', 'Version', 'Architecture', 'Filename', 'Directory', 'Files'],
  'Checksums-Sha256',
]

/** The code name of the release that a suite belongs to, such as `bookworm` for `bookworm-security`. */
function releaseOf(claim: Claim | undefined): string | undefined {
  const name = /\/dists\/([a-z]+)/.exec(claim?.suite ?? '')?.[1]
  return name === 'unstable' ? 'sid' : name
}

function refusalBy({ reason }: DenyRow, named: PackageFacts, version: string | undefined): Refusal {
  const what = [named.name, version ?? named.version ?? ''].join(' ').trim()
  const unsure =
    version === undefined ? ' (its version is not known, so it may be another one)' : ''
  return { deny: 'deny', sentence: `${what} is denied by this proxy: ${reason}${unsure}` }
}
