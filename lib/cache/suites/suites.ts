/**
 * Finds what the adopted indexes of archives say about a file. It is told what is stored and what clients are given
 * (docs/decisions/0030-what-adopted-indexes-say.md).
 */
import { LRUCache } from 'lru-cache'
import type { Milliseconds } from '../../async/clock.ts'
import { inTime } from '../../async/deadline.ts'
import { whenReady } from '../../async/ready.ts'
import type { ArchivePath } from '../archive/path.ts'
import { decodedUrl, directoriesOf, packageIndexOf, parentOf } from '../archive/path.ts'
import type { Entry } from '../store/entry.ts'
import type { Standing } from '../store/upkeep/rules.ts'
import type { Missing } from './adopt.ts'
import { Adoptions, type SuiteMeans } from './adoptions.ts'
import type { Content, Generation, Listed, ReleaseFile, Suite } from './generation.ts'
import {
  baseOf,
  generationOf,
  keysOf,
  releaseIn,
  releasesOf,
  suiteOfRelease,
} from './generation.ts'
import { type Client, GivenReleases } from './given-releases.ts'
import type { KnownSuites, Source } from './known-suites.ts'
import { Past } from './past.ts'
import { openAdopted, standingOf } from './standing.ts'
import { pathName, type Table } from './table.ts'
import type { Tables } from './tables.ts'

/** What an index says about a file, and where it says so. */
export interface Claim extends Content {
  /** Key of the directory of the Release file that names the index. */
  readonly suite: string
  readonly generation: Generation
}

interface SuitesParts extends SuiteMeans {
  /** How long a request waits for the adoption of a suite that may name its file. */
  readonly wait: () => Milliseconds
  readonly onAdopted: (suite: Suite) => void
}

interface AskedFile {
  readonly key: string
  readonly archive: ArchivePath
  readonly client: Client
  readonly stored: Entry | undefined
}

/** The kinds of files that go with a Release file: it names them, or signs it. */
const indexKinds: ReadonlySet<ArchivePath['kind']> = new Set(['index', 'pdiff', 'release'])
/** Indexes of which it is remembered when clients asked for them. */
const mostAsked = 10_000
/** The part of the time from Date to Valid-Until in which it comes close. */
const lastPart = 0.1

export class Suites {
  readonly #parts: SuitesParts
  readonly past: Past
  readonly #known: KnownSuites
  readonly #tables: Tables
  readonly #adoptions: Adoptions
  readonly #given: GivenReleases
  /** Entries of immutable files that agree with all adopted indexes, as of an adoption. */
  #agreeing = new WeakSet<Entry>()
  /** Of these, the entries whose content an index names; of the others no index says anything. */
  #confirmed = new WeakSet<object>()
  /** When clients asked for indexes last, by their keys. */
  readonly #asked = new LRUCache<string, Milliseconds>({ max: mostAsked })
  /** Tables that were not there when they were needed. */
  readonly #lost = new Set<string>()

  private constructor(parts: SuitesParts, known: KnownSuites, tables: Tables) {
    this.#parts = parts
    this.#known = known
    this.#tables = tables
    this.past = new Past({ known, tables, clock: parts.clock })
    this.#given = new GivenReleases(parts.clock)
    this.#adoptions = new Adoptions({
      ...parts,
      known,
      tables,
      askedAt: key => this.#asked.get(key),
      onAdopted: suite => {
        this.#agreeing = new WeakSet()
        this.#confirmed = new WeakSet()
        if (suite !== undefined) parts.onAdopted(suite)
      },
    })
  }

  /** Reads what an earlier run knew. Never rejects. */
  static async open(parts: SuitesParts): Promise<Suites> {
    const { known, tables } = await openAdopted(parts)
    return new Suites(parts, known, tables)
  }

  get all(): readonly Suite[] {
    return this.#known.all
  }

  /** Suites that are being adopted. */
  get adopting(): number {
    return this.#adoptions.count
  }

  /** What adopted indexes say of a content, for retention. */
  standing(digest: string): Standing {
    return standingOf({ known: this.#known, tables: this.#tables }, digest)
  }

  /** Whether an entry is the Release file of a suite that is adopted or about to be. */
  governs({ key }: Entry): boolean {
    const at = suiteOfRelease(key)
    if (at === undefined || key.endsWith('.gpg')) return false
    return this.#known.at(at) !== undefined || this.#adoptions.pending(at) !== undefined
  }

  /** The generation that a stored Release file belongs to. */
  generationOf({ key, digest }: Entry): Generation | undefined {
    return generationOf(this.#known.at(suiteOfRelease(key) ?? ''), digest)
  }

  /** From when on the origin is asked about a Release file however fresh it is: its Valid-Until comes close. */
  checkFrom(entry: Entry): Milliseconds | undefined {
    const { date, validUntil } = this.generationOf(entry) ?? {}
    if (validUntil === undefined) return undefined
    return validUntil - Math.max(0, validUntil - (date ?? entry.stored)) * lastPart
  }

  /** Whether an adopted index names the content of an entry for its file; `claim` has to have been asked about it. */
  confirms(entry: object): boolean {
    return this.#confirmed.has(entry)
  }

  /** What a Release file that has come in place of another lacks; undefined when it may not be adopted. */
  prepare(at: string, release: ReleaseFile): Promise<Missing | undefined> {
    return this.#adoptions.prepare(at, release)
  }

  /** An entry was stored: if indexes may say something else now, its suite is adopted. */
  stored({ key, digest }: Entry): void {
    const suite = suiteOfRelease(key)
    if (suite !== undefined) {
      const [adopted] = this.#known.at(suite)?.generations ?? []
      if (adopted === undefined || !isRelease(adopted, digest)) this.#adoptions.queue(suite)
      return
    }
    if (this.#known.size === 0 && this.#adoptions.count === 0) return
    if (packageIndexOf(key) === undefined && !key.includes('/by-hash/')) return
    for (const at of directoriesOf(key)) {
      const generation = this.#known.at(at)?.generations[0]
      const inUse = (one: Listed): boolean => one.digest === digest && keysOf(at, one).includes(key)
      if (generation && isRelease(generation, digest)) return
      if (generation?.contents.some(inUse)) return
      const waits = this.#adoptions.pending(at) !== undefined
      if (waits || generation !== undefined) this.#adoptions.queue(at)
    }
  }

  /** A client gets this Release file, stored or not. */
  given(client: Client, { key, digest }: Pick<Entry, 'key' | 'digest'>): void {
    const suite = suiteOfRelease(key)
    if (suite !== undefined && !key.endsWith('.gpg')) this.#given.note(client, suite, digest)
  }

  /** The same for one that is stored: if its suite was never adopted, it is adopted now. */
  givenStored(client: Client, entry: Entry): void {
    this.given(client, entry)
    const suite = suiteOfRelease(entry.key)
    if (suite === undefined || entry.key.endsWith('.gpg')) return
    if (this.#known.at(suite) === undefined) this.#adoptions.came(suite, entry.digest)
  }

  /** A client has another Release file than this stored one, which was not given to it. */
  hasAnother(client: Client, { key }: Entry): void {
    const suite = suiteOfRelease(key)
    if (suite !== undefined && !key.endsWith('.gpg')) this.#given.forget(client, suite)
  }

  /** What the file that is asked for must be; at once when the tables are in memory and no adoption is under way. */
  claim(asked: AskedFile): Claim | undefined | Promise<Claim | undefined> {
    const { key, archive, stored } = asked
    if (this.#known.size === 0 && this.#adoptions.count === 0) return undefined
    if (archive.kind === 'by-hash' || archive.kind === 'index') {
      this.#asked.set(key, this.#parts.clock.now())
    }
    if (archive.kind === 'by-hash') return undefined
    if (archive.kind === 'release' && !key.endsWith('.gpg')) return undefined
    if (stored !== undefined && this.#agreeing.has(stored)) return undefined
    const name = decodedUrl(key)
    if (name === undefined) return undefined
    const pending = this.#pendingFor(name, asked)
    if (pending === undefined) return this.#find(name, asked)
    const { clock, wait } = this.#parts
    const adopted = pending.then(() => true)
    return inTime(adopted, clock, wait()).then(done => (done ? this.#find(name, asked) : undefined))
  }

  close(): Promise<void> {
    return this.#adoptions.close()
  }

  #find(name: string, asked: AskedFile): Claim | undefined | Promise<Claim | undefined> {
    if (asked.archive.kind === 'release') return this.#findSignature(asked)
    const [agreeing, confirmed] = [this.#agreeing, this.#confirmed]
    const found = indexKinds.has(asked.archive.kind)
      ? this.#findIndex(name, asked.client)
      : this.#findFile(name)
    return whenReady(found, claim => {
      const { stored, archive } = asked
      const agrees = claim === undefined || claim.digest === stored?.digest
      if (stored === undefined || !agrees || !archive.immutable) return claim
      agreeing.add(stored)
      if (claim !== undefined) confirmed.add(stored)
      return claim
    })
  }

  /** The signature that belongs to the Release the client was given. */
  #findSignature({ key, client }: AskedFile): Claim | undefined {
    const suite = parentOf(key)
    const given = this.#given.to(client, suite)
    const generation = generationOf(this.#known.at(suite), given)
    const { signedBy } = (generation && releaseIn(generation, given)) ?? {}
    return generation && signedBy && { ...signedBy, suite, generation }
  }

  /** What the Release the client was given says about an index under its plain name. */
  #findIndex(name: string, client: Client): Claim | undefined | Promise<Claim | undefined> {
    const { suite, path = '' } = this.#known.above(name) ?? {}
    const generation = suite && generationOf(suite, this.#given.to(client, suite.at))
    if (suite === undefined || generation === undefined) return undefined
    const source = { suite, generation, table: generation.release.digest }
    return this.#ask([source], pathName(path))
  }

  /** What the indexes of packages say about a file. */
  #findFile(name: string): Claim | undefined | Promise<Claim | undefined> {
    for (const root of directoriesOf(name)) {
      const sources = this.#known.rootedAt(root)
      if (sources.length > 0) return this.#ask(sources, pathName(name.slice(root.length + 1)))
    }
    return undefined
  }

  /** What the first of these indexes that names a path says about it; at once when the tables are in memory. */
  #ask(sources: readonly Source[], path: Buffer): Claim | undefined | Promise<Claim | undefined> {
    for (const source of sources) {
      const table = this.#tables.hot(source.table)
      if (table === undefined) return this.#askDisk(sources, path)
      const claim = claimIn(table, source, path)
      if (claim !== undefined) return claim
    }
    return undefined
  }

  async #askDisk(sources: readonly Source[], path: Buffer): Promise<Claim | undefined> {
    for (const source of sources) {
      const { table: digest, suite } = source
      const table = this.#tables.hot(digest) ?? (await this.#tables.load(digest))
      if (table === undefined) {
        // What cannot be made again is not tried again and again.
        if (!this.#lost.has(digest)) this.#adoptions.queue(suite.at)
        this.#lost.add(digest)
        continue
      }
      const claim = claimIn(table, source, path)
      if (claim !== undefined) return claim
    }
    return undefined
  }

  /**
   * The adoption under way whose suite may name the file. What is stored does not wait for one, unless it is an index and the
   * client has a Release that is not adopted yet.
   */
  #pendingFor(name: string, { stored, archive, client }: AskedFile): Promise<void> | undefined {
    const index = indexKinds.has(archive.kind)
    if (this.#adoptions.count === 0 || (stored !== undefined && !index)) return undefined
    for (const at of this.#adoptions.waiting) {
      const base = baseOf({ at })
      const dists = base.lastIndexOf('/dists/')
      const root = index || dists < 0 ? base : base.slice(0, dists)
      if (!name.startsWith(`${root}/`)) continue
      const given = index ? this.#given.to(client, at) : undefined
      const adopted = generationOf(this.#known.at(at), given) !== undefined
      if (!index || (given !== undefined && !adopted)) return this.#adoptions.pending(at)
    }
    return undefined
  }
}

/** Whether content with this SHA-256 is a Release file of a generation or its signature. */
function isRelease(generation: Generation, digest: string): boolean {
  return releasesOf(generation).some(
    release => release.digest === digest || release.signedBy?.digest === digest,
  )
}

function claimIn(table: Table, { suite, generation }: Source, path: Buffer): Claim | undefined {
  const found = table.find(path)
  return found && { ...found, suite: suite.at, generation }
}
