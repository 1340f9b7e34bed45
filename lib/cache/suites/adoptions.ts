/**
 * Adopts suites whose Release files or indexes have changed in the store. Each suite has one adoption at a time, and another one when a
 * file has come meanwhile.
 *
 * # The update of an adopted suite, step by step
 * 1. A client asks for the Release file. `Updates.check` (suites/updates.ts) asks the origin. A new Release file is stored under a
 *    key of its own, and so is the Release.gpg of a Release: clients still get the old ones.
 * 2. `Adoptions.prepare`: the thread (adopt.ts) judges the new Release file and answers which of the files that
 *    clients use (`InUse.since`) it names and the store lacks. If it may not be adopted, clients keep the old one.
 * 3. `Updates.#fetchAll` fetches these files. While one that is not `optional` is missing, the new Release file is held back for a time,
 *    unless the old one has expired.
 * 4. `Updates` replaces the old Release.gpg and Release file by the new ones. The store calls `Suites.stored`, which calls
 *    `Adoptions.queue`. The first Release file of a suite is stored like any file and begins at this step. So does an index that a client
 *    fetches first; the store calls `Suites.arriving` for it a moment earlier, when its last byte has come.
 * 5. `Adoptions.#adopt`: the thread chooses among the Release files, reads the stored indexes that the chosen one names, and writes the
 *    missing tables (`TableMaker`). `InUse.among` chooses the files that clients use. `KnownSuites.put` notes the new generation, which
 *    `Suites.claim` reads from then on.
 * 6. `Adoptions.#anchor` gives the files that clients use their names by digest.
 */
import { day, type Milliseconds } from '../../async/clock.ts'
import { explainError } from '../../errors.ts'
import { formatDate } from '../../http/message/date.ts'
import { packageIndexOf } from '../archive/path.ts'
import type { Reading } from '../store/entry.ts'
import type { Store } from '../store/store.ts'
import type { Adoption, Job, MissingFiles, Sha512File } from './adopt.ts'
import { type AskedIndexes, componentOf } from './asked-indexes.ts'
import {
  type Content,
  type Generation,
  generationOf,
  type KnownSuite,
  keysOf,
  type ListedContent,
  type ReleaseFile,
  releasesOf,
  type Signature,
  type SuitePolicy,
  sameContents,
  withNextGeneration,
} from './generation.ts'
import type { AdoptedParts, AdoptedSuites } from './known-suites.ts'
import type { LiveSuites } from './suite.ts'
import type { SuiteEvent } from './suite-life.ts'
import { mostTableBytes } from './table.ts'
import { AdoptionThreads } from './thread.ts'

/** The parts of the service that the adoption of suites needs. */
export interface SuiteMeans extends AdoptedParts {
  readonly store: Pick<Store, 'read' | 'put' | 'has' | 'incomplete'>
  /** The policy of a suite by the key of its directory; undefined when no file of the suite is compared with indexes. */
  readonly policyOf: (at: string) => SuitePolicy | undefined
  readonly snapshotDays: () => number
  /** Whether clients may get a content of the store under this key although it came from another archive. */
  readonly shares: (digest: string, key: string) => boolean
}

interface AdoptionsParts extends SuiteMeans, AdoptedSuites {
  readonly live: LiveSuites
  readonly asked: AskedIndexes
  /** Called after each adoption, with the suite unless it was forgotten. */
  readonly onAdopted: (suite?: KnownSuite) => void
}

/** The events after which a suite is adopted. */
export type ArrivalEvent = Extract<SuiteEvent, 'release-came' | 'index-came'>

interface UnderWay {
  readonly done: Promise<void>
  again: boolean
  /** Promises that settle when whole files have been stored. */
  readonly arriving: Promise<unknown>[]
}

/** An index that no client has asked for in this time is no longer fetched with a new Release file. */
const unused: Milliseconds = 14 * day

/** At most this many suites wait to be adopted. Any other suite is adopted when a client asks for it next. */
const mostWaiting = 256

/** A failed adoption is not tried again with the same Release files for this time. It is short, because a file may just be late. */
const pauseAfterFailure: Milliseconds = 30_000
export class Adoptions {
  readonly #parts: AdoptionsParts
  readonly #threads: AdoptionThreads
  readonly #inUse: InUse
  readonly #underWay = new Map<string, UnderWay>()
  #removing: Promise<void> = Promise.resolve()
  #closed = false

  constructor(parts: AdoptionsParts) {
    this.#parts = parts
    this.#threads = new AdoptionThreads(parts.clock)
    this.#inUse = new InUse(parts, files => this.sha512(files))
  }

  /** Adopts the suite in the directory with this key, at once or after the adoption that is under way. */
  queue(at: string, because: ArrivalEvent = 'release-came'): void {
    const underWay = this.#waits(at, because)
    if (underWay !== undefined) underWay.again = true
  }

  /** Counts the suite as being adopted until `stored` has settled, because the arriving file will queue an adoption when it is stored. */
  expect(at: string, because: ArrivalEvent, stored: Promise<unknown>): void {
    this.#waits(at, because)?.arriving.push(stored)
  }

  #waits(at: string, because: ArrivalEvent): UnderWay | undefined {
    const running = this.#underWay.get(at)
    if (running === undefined && (this.#closed || this.#underWay.size >= mostWaiting)) {
      return undefined
    }
    this.#parts.live.of(at).note(because)
    if (running !== undefined) return running
    const underWay: UnderWay = {
      again: false,
      arriving: [],
      done: Promise.resolve().then(() => this.#run(at, underWay)),
    }
    this.#underWay.set(at, underWay)
    return underWay
  }

  /** Forgets all that is known of a suite, and adopts its stored files like those of a new suite. */
  async forget(at: string): Promise<void> {
    await this.#parts.live.forget(at)
    this.queue(at)
  }

  /** Adopts a suite after a Release file with this SHA-256 has come, unless an adoption has failed with that file lately. */
  came(at: string, digest: string): void {
    const { digests = [], until = 0 } = this.#parts.live.of(at).failed ?? {}
    if (!digests.includes(digest) || this.#parts.clock.elapsed() >= until) this.queue(at)
  }

  /** Settles when the adoption of the suite with this directory has ended; undefined when none is under way. */
  pending(at: string): Promise<void> | undefined {
    return this.#underWay.get(at)?.done
  }

  /** Keys of the directories of suites that wait to be adopted. */
  get waiting(): Iterable<string> {
    return this.#underWay.keys()
  }

  /** The number of suites that are being adopted. */
  get count(): number {
    return this.#underWay.size
  }

  /** The number of jobs that the thread which reads indexes has not finished, those for Release files that are not adopted yet included. */
  get jobs(): number {
    return this.#threads.jobs
  }

  async close(): Promise<void> {
    this.#closed = true
    await this.#threads.close()
    await Promise.all([...this.#underWay.values()].map(({ done }) => done))
    await this.#removing
  }

  async #run(at: string, underWay: UnderWay): Promise<void> {
    try {
      while (!this.#closed) {
        if (underWay.again) {
          underWay.again = false
          await this.#adopt(at)
        } else if (underWay.arriving.length > 0) await Promise.all(underWay.arriving.splice(0))
        else break
      }
    } catch (error) {
      const because = explainError(error)
      if (!this.#closed)
        this.#parts.log.warn('a suite could not be adopted', { suite: at, because })
    } finally {
      this.#underWay.delete(at)
      const suite = this.#parts.live.of(at)
      if (suite.known === undefined) suite.note('unadoptable')
      else suite.note('adopted')
      if (this.#underWay.size === 0) this.#removing = this.#clear()
    }
  }

  async #adopt(at: string): Promise<void> {
    const { known, live, log, clock, policyOf, onAdopted } = this.#parts
    await this.#removing
    await known.readOn()
    const policy = policyOf(at)
    const releases = policy === undefined ? [] : await this.#releases(at)
    if (releases === 'unreadable') return this.#notRead(at)
    const suite = known.at(at)
    if (policy === undefined || releases.length === 0) {
      if (policy === undefined || !this.#parts.store.incomplete) await live.forget(at)
      if (suite !== undefined && policy === undefined) live.of(at).isUncompared = true
      return onAdopted()
    }
    const memory = live.of(at)
    const [adopted] = suite?.generations ?? []
    const begun = clock.elapsed()
    // The adoption counts as failed until it has succeeded.
    memory.failed = {
      digests: releases.flatMap(({ digest, signedBy }) => [digest, signedBy?.digest ?? digest]),
      until: begun + pauseAfterFailure,
    }
    const job = { at, releases, policy, adopted: barOf(suite, releases, policy) }
    let { generation: found, unknown = [], distrusted } = await this.#work(job)
    if (found === undefined) return this.#distrust(at, policy, distrusted)
    const sha256s = await this.#inUse.sha256s(at, unknown, adopted)
    if (sha256s === 'unreadable') return this.#notRead(at)
    if (sha256s.size > 0) found = (await this.#work({ ...job, sha256s })).generation ?? found
    memory.failed = undefined
    const contents = await this.#inUse.among(at, found, adopted)
    if (contents === 'unreadable') return this.#notRead(at)
    const generation = { ...found, contents }
    // The suite was forgotten meanwhile, so its old generation does not count and the Release files are judged again.
    if (suite !== undefined && known.at(at) === undefined) return this.queue(at)
    // The known suite is read again, because a Release file may have been held back meanwhile.
    const next = withNextGeneration(known.at(at) ?? suite, {
      at,
      next: generation,
      days: this.#parts.snapshotDays(),
      policy,
    })
    await live.adopted(next)
    onAdopted(next)
    await this.#anchor(at, generation)
    const { signature, release, indexes } = generation
    const { is, ...by } = signature
    log.info('adopted a suite', {
      suite: at,
      release: release.digest,
      signature: is,
      ...by,
      indexes: indexes.length,
      milliseconds: Math.round(clock.elapsed() - begun),
    })
    this.#warnOfContradictions(at, generation)
  }

  /** Says once for each set of contradictions that indexes of a suite disagree, because the owner of the archive wants to know. */
  #warnOfContradictions(at: string, { contradictions = [] }: Generation): void {
    const names = contradictions.map(one => one.names).join(' ')
    const { said } = this.#parts.live.of(at)
    if (names === '' || said.contradictions === names) return
    said.contradictions = names
    const { path = '', indexes = [] } = contradictions[0]?.examples[0] ?? {}
    this.#parts.log.warn('indexes of a suite contradict each other', {
      suite: at,
      path,
      indexes: indexes.join(' '),
      files: contradictions.reduce((sum, { count }) => sum + count, 0),
    })
  }

  /** Notes that the adopted Release file would not be adopted under the policy of now, so that no file is compared with its indexes. */
  async #distrust(at: string, policy: SuitePolicy, signature: Signature | undefined) {
    const { known, onAdopted } = this.#parts
    const suite = known.at(at)
    const [adopted, ...past] = suite?.generations ?? []
    if (suite === undefined || adopted === undefined || signature === undefined) return
    await known.put({ ...suite, policy, generations: [{ ...adopted, signature }, ...past] })
    onAdopted()
  }

  /**
   * The files that clients use, that a new Release file names, and that the store lacks; undefined when the Release file may not be
   * adopted. When the adopted Release file has expired and no good signature is required, the result for a refused one is an empty list.
   */
  async prepare(at: string, release: ReleaseFile): Promise<MissingFiles | undefined> {
    const { known, clock, policyOf } = this.#parts
    await this.pending(at)
    const policy = policyOf(at)
    const [adopted] = known.at(at)?.generations ?? []
    if (policy === undefined || adopted === undefined) return { files: [], byHash: false }
    const now = clock.now()
    const used = this.#inUse.since(now - unused, at, adopted)
    const inUse = used.map(({ path }) => path)
    const { missing } = await this.#work({ at, releases: [release], adopted, policy, inUse })
    if (missing !== undefined) {
      const optional = await this.#inUse.optional(at, used)
      return { ...missing, optional, secondary: this.#inUse.secondary(at, used) }
    }
    if (policy.verify === 'require') return undefined
    // The Release file is not adopted, but clients get it, because they cannot use the expired one.
    const expired = (adopted.validUntil ?? Number.POSITIVE_INFINITY) < now
    return expired ? { files: [], byHash: false } : undefined
  }

  /**
   * Gives the files that clients use names by digest, so that they stay when other contents take their plain names. A content that the
   * store has only from another archive gets no name here unless `shares` allows it, because not all clients may use that archive.
   */
  async #anchor(at: string, generation: Generation): Promise<void> {
    const { store, clock, shares } = this.#parts
    const now = clock.now()
    const { contents, date } = generation
    const releases = releasesOf(generation).flatMap(({ name, signedBy, ...release }) => {
      const signature = signedBy ? [{ path: 'Release.gpg', ...signedBy }] : []
      return [{ path: name, ...release }, ...signature]
    })
    const lastModified = formatDate(Math.min(date ?? now, now))
    const times = { stored: now, validated: now, initialAge: 0, lastModified }
    for (const listed of [...contents, ...releases]) {
      const { digest, size } = listed
      const [plain = '', ...names] = keysOf(at, listed)
      const own = [plain, ...names].map(key => store.read(key))
      const came = (await Promise.all(own)).some(entry => hasContent(entry, listed))
      if (!came && !shares(digest, plain)) continue
      for (const key of names) {
        if ((await store.read(key)) !== undefined) continue
        store.put({ key, fields: [], digest, size, ...times, verified: { by: 'name' } })
      }
    }
  }

  /** The SHA-512 of contents by their SHA-256. Contents that are missing or too large together are left out. */
  async sha512(hash: readonly Content[]): Promise<ReadonlyMap<string, string>> {
    const { cacheDirectory } = this.#parts
    const { sha512 } = await this.#threads.run({ cacheDirectory, hash })
    return sha512 ?? new Map()
  }

  /** Has the thread do a job, and logs the refusals. */
  async #work(job: Omit<Job, 'cacheDirectory' | 'mostTableBytes' | 'now'>): Promise<Adoption> {
    const { cacheDirectory, memory, clock, log, tables } = this.#parts
    const about = { cacheDirectory, mostTableBytes: mostTableBytes(memory), now: clock.now() }
    const adoption = await this.#threads
      .run({ ...job, ...about })
      // The thread may have made tables, also when nothing comes of the adoption in the end.
      .finally(() => tables.readAgain())
    const { generation, missing, refused, notRead = [] } = adoption
    const suite = this.#parts.live.of(job.at)
    const isRefused = generation === undefined && missing === undefined
    suite.refusal = isRefused ? refused.join('; ') : undefined
    for (const because of refused) {
      log.warn('verification of a suite', { suite: job.at, because })
    }
    const [first] = notRead
    if (first !== undefined && !suite.said.notRead) {
      suite.said.notRead = true
      const { path, because } = first
      const index = `${job.at}/${path}`
      log.warn('an index is served and not read, so files are not compared with it', {
        index,
        because,
        indexes: notRead.length,
      })
    }
    return adoption
  }

  async #releases(at: string): Promise<readonly ReleaseFile[] | 'unreadable'> {
    const { store } = this.#parts
    const [inRelease, release, signature] = await Promise.all(
      ['InRelease', 'Release', 'Release.gpg'].map(name => store.read(`${at}/${name}`)),
    )
    if (inRelease === 'unreadable' || release === 'unreadable' || signature === 'unreadable') {
      return 'unreadable'
    }
    const found: ReleaseFile[] = []
    if (inRelease) found.push({ name: 'InRelease', ...named(inRelease) })
    const signedBy = signature && named(signature)
    if (release) found.push({ name: 'Release', ...named(release), signedBy })
    return found
  }

  /** Keeps the known generations while the disk cannot read the entries of Release files. */
  #notRead(at: string): void {
    this.#parts.log.warn('a suite is not adopted again while the disk fails', { suite: at })
  }

  /** Forgets the suites whose Release files are gone, and removes the tables no suite needs. */
  async #clear(): Promise<void> {
    const { known, live, tables, store } = this.#parts
    if (this.#closed) return
    for (const { at } of store.incomplete ? [] : known.all) {
      const releases = await this.#releases(at)
      if (releases !== 'unreadable' && releases.length === 0) await live.forget(at)
    }
    const needed = known.tables()
    if (known.complete) await tables.keepOnly(needed)
    await tables.warm(needed)
  }
}

/**
 * The generation with which new Release files of a suite are compared: the adopted one, as long as the store has the Release file of a
 * known generation. Otherwise clients already get an unknown Release file, which is then judged like that of a new suite. When a
 * signature is required, the adopted generation always counts.
 */
function barOf(
  suite: KnownSuite | undefined,
  releases: readonly ReleaseFile[],
  { verify }: SuitePolicy,
): Generation | undefined {
  const known = releases.some(({ digest }) => generationOf(suite, digest) !== undefined)
  return known || verify === 'require' ? suite?.generations[0] : undefined
}

function named({ digest, size }: Content): Content {
  return { digest, size }
}

/**
 * Finds the files of a generation that clients use, and their names by digest.
 */
class InUse {
  readonly #parts: Pick<AdoptionsParts, 'clock' | 'log' | 'store' | 'asked'>
  readonly #sha512: Adoptions['sha512']

  constructor(parts: AdoptionsParts, sha512: Adoptions['sha512']) {
    this.#parts = parts
    this.#sha512 = sha512
  }

  /**
   * The files of a generation that clients use. The store may also have the content of an unused file, for example an empty one, because
   * another file has the same content. `unreadable` when the disk cannot read an entry.
   */
  async among(
    at: string,
    { contents }: Generation,
    adopted: Generation | undefined,
  ): Promise<readonly ListedContent[] | 'unreadable'> {
    const { store, clock } = this.#parts
    const before = new Map(adopted?.contents.map(one => [one.path, this.#lastAsked(at, one)]))
    const used: ListedContent[] = []
    for (const listed of contents) {
      const entries = await Promise.all(keysOf(at, listed).map(key => store.read(key)))
      if (entries.includes('unreadable')) return 'unreadable'
      const stored = entries.some(entry => hasContent(entry, listed))
      const earlier = before.get(listed.path)
      if (!stored && earlier === undefined) continue
      const asked = Math.max(this.#lastAsked(at, listed), earlier ?? 0) || clock.now()
      used.push({ ...listed, asked })
    }
    return this.#withRightNames(at, used, adopted)
  }

  /**
   * The same files, each with its SHA-512 only if that is right, because its content is later put under that name. The SHA-512 is right
   * when the adopted generation had it, when an entry has that name, or when hashing confirms it.
   */
  async #withRightNames(
    at: string,
    used: readonly ListedContent[],
    adopted: Generation | undefined,
  ): Promise<readonly ListedContent[]> {
    const { store } = this.#parts
    const known = new Map(adopted?.contents.map(one => [one.digest, one.sha512]))
    for (const listed of used) {
      const [, strongest = ''] = listed.sha512 === undefined ? [] : keysOf(at, listed)
      if (hasContent(await store.read(strongest), listed)) {
        known.set(listed.digest, listed.sha512)
      }
    }
    const unknown = used.filter(one => one.sha512 !== undefined && !known.get(one.digest))
    const hashed = await this.#hashed(at, unknown)
    return used.map(({ sha512, ...listed }) => {
      const right = known.get(listed.digest) ?? hashed.get(listed.digest)
      return sha512 !== undefined && sha512 === right ? { ...listed, sha512 } : listed
    })
  }

  /** The SHA-256, by their SHA-512, of stored files that a Release file names by their SHA-512 alone. */
  async sha256s(
    at: string,
    files: readonly Sha512File[],
    adopted: Generation | undefined,
  ): Promise<ReadonlyMap<string, string> | 'unreadable'> {
    const known = new Map(adopted?.contents.map(one => [one.sha512, one.digest]))
    const sha256s = new Map<string, string>()
    const unknown: Content[] = []
    for (const { path, size, sha512 } of files) {
      const [plain = '', strongest = ''] = keysOf(at, { path, size, sha512, digest: '' })
      const entries = await Promise.all([plain, strongest].map(key => this.#parts.store.read(key)))
      if (entries.includes('unreadable')) return 'unreadable'
      const digest = known.get(sha512)
      if (digest !== undefined) sha256s.set(sha512, digest)
      else {
        const contents = entries.flatMap(entry => (entry === 'unreadable' ? [] : (entry ?? [])))
        unknown.push(...contents.filter(one => one.size === size).map(named))
      }
    }
    for (const [sha256, sha512] of await this.#hashed(at, unknown)) sha256s.set(sha512, sha256)
    return sha256s
  }

  /** The files of a generation that clients have asked for since a moment. */
  since(since: Milliseconds, at: string, { contents }: Generation): readonly ListedContent[] {
    return contents.filter(listed => this.#lastAsked(at, listed) > since)
  }

  /**
   * Paths of files that perhaps no client uses: another file of the directory has the same name by digest, and no client has asked for
   * the plain name.
   */
  async optional(at: string, used: readonly ListedContent[]): Promise<ReadonlySet<string>> {
    const { store, asked } = this.#parts
    const optional = new Set<string>()
    for (const listed of sameContents(used)) {
      const [plain = ''] = keysOf(at, listed)
      if ((asked.at(plain) ?? (await store.read(plain))) === undefined) optional.add(listed.path)
    }
    return optional
  }

  /**
   * Paths of all files except the Packages and Sources files of main architectures. An architecture is a main one when clients ask for it
   * at least half as often as for any other of its component. All architectures are main ones before clients have asked for any.
   */
  secondary(at: string, used: readonly ListedContent[]): ReadonlySet<string> {
    const { asked } = this.#parts
    const most = new Map<string, number>()
    const files = used.map(({ path, ...listed }) => {
      const [key = ''] = keysOf(at, { path, ...listed })
      const component = componentOf(key)
      const times = asked.times(key)
      most.set(component, Math.max(times, most.get(component) ?? 0))
      return { path, component, times }
    })
    const isMain = ({ path, component, times }: (typeof files)[number]): boolean =>
      packageIndexOf(path) !== undefined && 2 * times >= (most.get(component) ?? 0)
    return new Set(files.flatMap(one => (isMain(one) ? [] : [one.path])))
  }

  async #hashed(at: string, contents: readonly Content[]): Promise<ReadonlyMap<string, string>> {
    if (contents.length === 0) return new Map()
    return this.#sha512(contents).catch((error: unknown) => {
      this.#parts.log.warn('files could not be hashed', { suite: at, because: explainError(error) })
      return new Map()
    })
  }

  #lastAsked(at: string, listed: ListedContent): Milliseconds {
    const asked = keysOf(at, listed).map(key => this.#parts.asked.at(key) ?? 0)
    return Math.max(listed.asked ?? 0, ...asked)
  }
}

function hasContent(stored: Reading, { digest }: Content): boolean {
  return stored !== undefined && stored !== 'unreadable' && stored.digest === digest
}
