/**
 * Finds what the adopted indexes of archives say about a file. The service calls it for each stored entry and for each Release file that a
 * client gets (docs/decisions/0030-what-adopted-indexes-say.md).
 */
import { isDeepStrictEqual } from 'node:util'
import type { Milliseconds } from '../../async/clock.ts'
import { resultInTime } from '../../async/deadline.ts'
import { continueWhenReady } from '../../async/ready.ts'
import { recentEntries } from '../../recent.ts'
import {
  type ArchivePath,
  decodedUrl,
  directoriesOf,
  packageIndexOf,
  parentOf,
  suiteOfRelease,
} from '../archive/path.ts'
import type { Entry } from '../store/entry.ts'
import type { ContentStanding } from '../store/retention-rules.ts'
import { Adoptions, type ArrivalEvent, type SuiteMeans } from './adoptions.ts'
import { AskedIndexes } from './asked-indexes.ts'
import { ClaimsBySha256 } from './claims-by-sha256.ts'
import { isContradicted, settledClaim, statementsOf, suitesOf } from './contradictions.ts'
import {
  baseOf,
  type Claim,
  type Content,
  type Generation,
  generationOf,
  type KnownSuite,
  keysOf,
  type ListedContent,
  type ReleaseFile,
  releaseIn,
  releasesOf,
} from './generation.ts'
import { anotherRelease, type Client, GivenReleases, noRelease } from './given-releases.ts'
import { type AdoptedSuites, type KnownSuites, type Source, standingOf } from './known-suites.ts'
import { type MustBe, unnamedFile } from './must-be.ts'
import { pastFiles } from './past.ts'
import { distrustReason } from './policy.ts'
import { References } from './references.ts'
import type { LiveSuites } from './suite.ts'
import { pathName, type Table } from './table.ts'
import type { Tables } from './tables.ts'

/** The answer of indexes about a file: a claim, `unnamed` when no index names it, or `unknown` when one of them cannot be read now. */
type Answer = Claim | 'unnamed' | 'unknown'

interface SuitesParts extends SuiteMeans, AdoptedSuites {
  readonly live: LiveSuites
  /** How long a request waits for the adoption of a suite that may name its file. */
  readonly wait: () => Milliseconds
  readonly onAdopted: (suite: KnownSuite) => void
}

/** The clients for which an entry agrees with the indexes. */
interface Agreement {
  /** The keys of the suites that may name its file. */
  readonly suites: readonly string[]
  /** The sets of own suites of these clients, each as one text. */
  readonly by: Set<string>
  /** What the entry agrees with. One index that names the content is enough. */
  must: MustBe
}

interface AskedFile {
  readonly key: string
  readonly archive: ArchivePath
  readonly client: Client
  readonly stored: Entry | undefined
}

/** The kinds of files that belong to a Release file: files that it names, and its signature. */
const indexKinds: ReadonlySet<ArchivePath['kind']> = new Set(['index', 'pdiff', 'release'])
/**
 * The suite of a lost table is not adopted again on its account for this time, also when it was adopted meanwhile: an adoption makes the
 * tables of the newest generation alone.
 */
const pauseAfterLoss: Milliseconds = 10 * 60_000
const mostLost = 10_000
/** An agreement remembers at most this many sets of own suites. */
const mostAgreements = 100
const none: readonly string[] = []
/** Valid-Until is close in this last part of the time from Date to Valid-Until. */
const lastPart = 0.1

export class Suites {
  readonly #parts: SuitesParts
  readonly past: ReturnType<typeof pastFiles>
  readonly references: References
  readonly adoptions: Adoptions
  readonly #known: KnownSuites
  /** What this process knows of each suite beyond its generations. */
  readonly live: LiveSuites
  readonly #tables: Tables
  readonly #given: GivenReleases
  /** Entries of immutable files that agree with adopted indexes. Each adoption empties it. */
  #agreeing = new WeakMap<object, Agreement>()
  readonly #asked = new AskedIndexes()
  /** Tables that were missing when they were needed, with the moment by `elapsed` until which they are not made again. */
  readonly #lost = recentEntries<string, Milliseconds>(mostLost)
  readonly #claims: ClaimsBySha256

  constructor(parts: SuitesParts) {
    const { known, live, tables, clock } = parts
    this.#parts = parts
    this.#known = known
    this.live = live
    this.#tables = tables
    this.past = pastFiles({ known, tables, clock, has: digest => parts.store.has(digest) })
    this.references = new References({ known, tables })
    this.#given = new GivenReleases(clock)
    this.adoptions = new Adoptions({
      ...parts,
      asked: this.#asked,
      onAdopted: suite => {
        this.#agreeing = new WeakMap()
        if (suite !== undefined) parts.onAdopted(suite)
      },
    })
    this.#claims = new ClaimsBySha256(parts, this.adoptions)
    this.reconfigured()
  }

  /**
   * Notes that the configuration has been read. Suites that were judged by another policy are judged again, and those that are
   * no longer compared are forgotten.
   */
  reconfigured(): void {
    const { policyOf } = this.#parts
    this.#agreeing = new WeakMap()
    for (const { at, policy } of this.#known.all) {
      const now = policyOf(at)
      const differs = policy !== undefined && !isDeepStrictEqual(now, policy)
      if (now === undefined || differs) this.adoptions.queue(at)
    }
    for (const suite of this.live.all) {
      if (!suite.isUncompared || policyOf(suite.at) === undefined) continue
      suite.isUncompared = false
      this.adoptions.queue(suite.at)
    }
  }

  /** Whether files are compared with a generation under the policy of now. */
  #counts({ at }: KnownSuite, { signature }: Generation): boolean {
    const policy = this.#parts.policyOf(at)
    return policy !== undefined && distrustReason(signature, policy) === undefined
  }

  get all(): readonly KnownSuite[] {
    return this.#known.all
  }

  at(key: string): KnownSuite | undefined {
    return this.#known.at(key)
  }

  /** Notes the waiting generations of a suite, and the Release files that clients get with the reasons. */
  noteDelay(at: string, state: Parameters<KnownSuites['note']>[1]): Promise<void> {
    return this.#known.note(at, state)
  }

  /** The standing of a content for retention. */
  standing(digest: string): ContentStanding {
    return standingOf({ known: this.#known, tables: this.#tables }, digest)
  }

  /**
   * Whether an entry is the Release file of a known generation, or its suite is being adopted now. Clients that keep such a Release file
   * find the files that it names.
   */
  governs(entry: Entry): boolean {
    const at = suiteOfUnsigned(entry.key)
    if (at === undefined) return false
    return (
      this.generationOf(entry) !== undefined || this.live.peek(at)?.answers.package === 'awaited'
    )
  }

  /** The generation that a stored Release file belongs to. */
  generationOf({ key, digest }: Entry): Generation | undefined {
    return generationOf(this.#known.at(suiteOfRelease(key) ?? ''), digest)
  }

  /** The moment from which the origin is asked about a Release file even if it is fresh, because its Valid-Until is close. */
  checkFrom(entry: Entry): Milliseconds | undefined {
    const { date, validUntil } = this.generationOf(entry) ?? {}
    if (validUntil === undefined) return undefined
    return validUntil - Math.max(0, validUntil - (date ?? entry.stored)) * lastPart
  }

  /** The signature that was adopted with a Release file. */
  signatureOf(entry: Entry): Content | undefined {
    const generation = this.generationOf(entry)
    return generation && releaseIn(generation, entry.digest)?.signedBy
  }

  /**
   * Notes that an operator has removed these files. A suite whose Release file or signature is among them is forgotten. An index among
   * them no longer counts as used.
   */
  async removed(keys: readonly string[]): Promise<void> {
    const forgotten = new Set(keys.flatMap(key => suiteOfRelease(key) ?? []))
    for (const at of forgotten) await this.adoptions.forget(at)
    for (const key of keys) this.#asked.forget(key)
    const gone = new Set(keys)
    for (const at of new Set(keys.flatMap(key => [...directoriesOf(key)]))) {
      const suite = this.#known.at(at)
      const [adopted, ...past] = suite?.generations ?? []
      if (suite === undefined || adopted === undefined) continue
      const contents = adopted.contents.filter(one => !keysOf(at, one).some(key => gone.has(key)))
      if (contents.length === adopted.contents.length) continue
      await this.#known.put({ ...suite, generations: [{ ...adopted, contents }, ...past] })
    }
  }

  /** The generation whose Release file a client got lately, for an index that it asks for by digest; undefined when it got none. */
  usedBy(client: Client, key: string): Pick<Claim, 'suite' | 'generation'> | undefined {
    const { suite } = this.#known.above(decodedUrl(key) ?? '') ?? {}
    const generation = suite && generationOf(suite, this.#given.to(client, suite.at))
    return generation && { suite: suite.at, generation }
  }

  /** Whether clients used the file with this path in a known generation of a suite. */
  hadFile(at: string, path: string): boolean {
    const { generations = [] } = this.#known.at(at) ?? {}
    return generations.some(({ contents }) => contents.some(one => one.path === path))
  }

  /** Notes that an entry was stored. Adopts its suite if that may change what the indexes say. */
  stored(entry: Entry): void {
    for (const at of this.#changedBy(entry)) this.adoptions.queue(at, eventOf(entry))
  }

  /**
   * Notes that the content of an entry is whole and clients may have it. `kept` settles once it is stored, after the call of `stored`.
   * Until then its suite counts as being adopted, because a client that has an index asks at once for the files that it names.
   */
  arriving(entry: Entry, kept: Promise<unknown>): void {
    for (const at of this.#changedBy(entry)) this.adoptions.expect(at, eventOf(entry), kept)
  }

  /** Keys of the directories of suites whose indexes may say something else after this entry was stored. */
  *#changedBy({ key, digest }: Entry): Generator<string> {
    const suite = suiteOfRelease(key)
    if (suite !== undefined) {
      const [adopted] = this.#known.at(suite)?.generations ?? []
      if (adopted === undefined || !isRelease(adopted, digest)) yield suite
      return
    }
    if (this.#known.size === 0 && this.adoptions.count === 0) return
    if (packageIndexOf(key) === undefined && !key.includes('/by-hash/')) return
    for (const at of directoriesOf(key)) {
      const generation = this.#known.at(at)?.generations[0]
      const inUse = (one: ListedContent): boolean =>
        one.digest === digest && keysOf(at, one).includes(key)
      if (generation && isRelease(generation, digest)) return
      if (generation?.contents.some(inUse)) return
      const waits = this.adoptions.pending(at) !== undefined
      if (waits || (generation && this.#mayName(generation, digest))) yield at
    }
  }

  /** Notes that a client gets this Release file. The file need not be stored. */
  given(client: Client, { key, digest }: Pick<Entry, 'key' | 'digest'>): void {
    const suite = suiteOfUnsigned(key)
    if (suite !== undefined) this.#given.note(client, suite, digest)
  }

  /** The same for a stored Release file. Adopts its suite if that was never adopted. */
  givenStored(client: Client, entry: Entry): void {
    this.given(client, entry)
    const suite = suiteOfUnsigned(entry.key)
    if (suite === undefined) return
    const [adopted] = this.#known.at(suite)?.generations ?? []
    const { policyOf } = this.#parts
    // A Release file that does not count may count now, because a keyring has changed.
    const policy = adopted && policyOf(suite)
    if (adopted && (policy === undefined || !distrustReason(adopted.signature, policy))) return
    this.adoptions.came(suite, entry.digest)
  }

  /** Notes that a client has another Release file than this stored one, and did not get it from this cache. */
  hasAnother(client: Client, { key }: Entry): void {
    this.given(client, { key, digest: anotherRelease })
  }

  /** Notes that a client has learnt that the origin gives no Release file. It may still get the other form of it. */
  denied(client: Client, key: string): void {
    const suite = suiteOfUnsigned(key)
    if (suite === undefined || this.live.peek(suite)?.isDenied !== true) return
    this.given(client, { key, digest: noRelease })
  }

  /** Whether this client has no Release file of one of these suites, and gets its files like any others. */
  #isUnreleased(client: Client, suites: readonly string[]): boolean {
    if (!this.#given.hasUnreleased) return false
    const isAny = (at: string) => this.live.peek(at)?.answers.unreleased === 'any-file'
    return suites.some(at => this.#given.lacks(client, at) && isAny(at))
  }

  /**
   * Notes that a client asks for this file. An index that clients ask for counts as used, and is fetched with a new Release file. Tables that
   * were missing for the answer are made again.
   */
  askedByClient(
    { key, archive: { kind }, client }: Omit<AskedFile, 'stored'>,
    { lost = [] }: Pick<MustBe, 'lost'>,
  ): void {
    for (const source of lost) this.#makeAgain(source)
    if (this.#known.size === 0 && this.adoptions.count === 0) return
    if (kind !== 'by-hash' && kind !== 'index' && kind !== 'pdiff') return
    this.#asked.noteClient(client.address, key)
    if (kind !== 'pdiff') this.#asked.note(key, this.#parts.clock.now())
  }

  /**
   * What the requested file must be for this client, at once when the tables are in memory and no adoption is under way. An adoption that
   * may name a file is waited for, except for a package and a file that is not stored: the origin can be asked meanwhile.
   */
  mustBe(asked: AskedFile): MustBe | Promise<MustBe> {
    const { key, stored, archive, client } = asked
    if (archive.kind === 'by-hash') return { is: 'by-name', digest: archive.digest }
    if (archive.kind === 'release' && !key.endsWith('.gpg')) return unnamedFile.release
    if (this.#known.size === 0 && this.adoptions.count === 0) return unnamedFile['no-suite']
    const agreement = stored && this.#agreeing.get(stored)
    const agrees =
      agreement?.by.has(this.#ownOf(agreement.suites, client).join(' ')) === true &&
      !this.#isUnreleased(client, agreement.suites)
    const adopting = this.adoptions.count > 0
    if (agrees && !(adopting && archive.kind === 'pool')) return agreement.must
    const name = decodedUrl(key)
    if (name === undefined) return unnamedFile['no-suite']
    const adopted = adopting ? this.#adoptedInTime(name, asked) : undefined
    if (adopted === undefined) return agrees ? agreement.must : this.#find(name, asked)
    const must = adopted.then(done => (done ? this.#find(name, asked) : unnamedFile.late))
    return stored === undefined || archive.kind === 'pool'
      ? { is: 'awaited', awaited: must.then(({ claim }) => claim) }
      : must
  }

  /** Whether the adoption that may name the file ends within the time that a request waits; undefined when there is none. */
  #adoptedInTime(name: string, asked: AskedFile): Promise<boolean | undefined> | undefined {
    const { clock, wait } = this.#parts
    const at = this.#pendingFor(name, asked)
    const adopted = at === undefined ? undefined : this.adoptions.pending(at)?.then(() => true)
    if (at === undefined || adopted === undefined) return undefined
    return resultInTime(adopted, clock, wait()).then(done => {
      if (done === undefined) this.#noteLate(at)
      return done
    })
  }

  /** Says once for each suite that its files are sent uncompared, because the request for one has waited as long as it may. */
  #noteLate(at: string): void {
    const { said } = this.live.of(at)
    if (said.late) return
    said.late = true
    const { log } = this.#parts
    const jobs = this.adoptions.jobs
    log.warn('a suite was not read in time, so a file was sent without being compared with it', {
      suite: at,
      jobs,
    })
  }

  async close(): Promise<void> {
    await this.adoptions.close()
    await this.#known.close()
  }

  #find(name: string, asked: AskedFile): MustBe | Promise<MustBe> {
    const agreeing = this.#agreeing
    const lost: Source[] = []
    return continueWhenReady(this.#answer(name, asked, lost), answer => {
      const { stored, archive } = asked
      const must = this.#mustBeBy(answer, name)
      const { claim } = must
      if (lost.length > 0) return { ...must, lost }
      const agrees = answer === 'unnamed' || claim?.digest === stored?.digest
      // A contradiction is settled for each client by the indexes that it has fetched.
      const settled = agrees && claim?.contradicting === undefined
      if (stored === undefined || !settled || !archive.immutable) return must
      const suites = suitesOf(this.#known.rootedAt(this.#known.rootAbove(name)))
      if (this.#isUnreleased(asked.client, suites)) return must
      const agreement: Agreement = agreeing.get(stored) ?? {
        suites,
        by: new Set(),
        must,
      }
      if (agreement.by.size < mostAgreements) {
        agreement.by.add(this.#ownOf(agreement.suites, asked.client).join(' '))
      }
      if (agreement.must.claim === undefined) agreement.must = must
      agreeing.set(stored, agreement)
      return agreement.must
    })
  }

  #mustBeBy(answer: Answer, name: string): MustBe {
    if (typeof answer !== 'string') return { is: 'named', claim: answer }
    if (answer === 'unknown') return unnamedFile.unreadable
    const isCovered = this.#known.above(name) ?? this.#known.rootAbove(name)
    return unnamedFile[isCovered === undefined ? 'no-suite' : answer]
  }

  /** The answer of the indexes about a file. Sources whose tables are missing are added to `lost`. */
  #answer(name: string, asked: AskedFile, lost: Source[]): Answer | Promise<Answer> {
    const { archive, client, stored } = asked
    if (archive.kind === 'release') return this.#findSignature(asked) ?? 'unnamed'
    const found = indexKinds.has(archive.kind)
      ? this.#findIndex(name, client, lost)
      : this.#findFile(name, client, lost)
    return continueWhenReady(found, answer =>
      typeof answer === 'string' ? answer : this.#claims.of(answer, stored),
    )
  }

  /**
   * The signature that was adopted with the Release file that the client got. A client that got none lately is assumed to have the
   * adopted one.
   */
  #findSignature({ key, client }: AskedFile): Claim | undefined {
    const suite = parentOf(key)
    const { generation, release } = this.#releaseOf(client, suite) ?? {}
    if (generation === undefined || release?.signedBy === undefined) return undefined
    if (this.#parts.policyOf(suite) === undefined) return undefined
    // The origin may sign an unchanged Release file again, so a signature that the store lost makes no claim.
    if (!this.#parts.store.has(release.signedBy.digest)) return undefined
    return { ...release.signedBy, suite, generation }
  }

  /**
   * Whether this client has a known Release file whose signature the store does not have: it was adopted unsigned, or its signature is
   * lost.
   */
  lacksSignature(client: Client, at: string): boolean {
    const { release } = this.#releaseOf(client, at) ?? {}
    if (release === undefined) return false
    return release.signedBy === undefined || !this.#parts.store.has(release.signedBy.digest)
  }

  /**
   * The Release file that this client got, with its generation. For a client that got none lately it is the file named `Release` of the
   * adopted generation.
   */
  #releaseOf(
    client: Client,
    at: string,
  ): { readonly generation: Generation; readonly release: ReleaseFile } | undefined {
    const { given, generation } = this.#generationFor(client, this.#known.at(at))
    const release =
      generation &&
      releasesOf(generation).find(({ name, digest }) =>
        given === undefined ? name === 'Release' : digest === given,
      )
    return generation && release && { generation, release }
  }

  /** The generation whose Release file this client got, and the SHA-256 of this file. It is the adopted one if the client got none. */
  #generationFor(client: Client, suite: KnownSuite | undefined) {
    const given = suite && this.#given.to(client, suite.at)
    return {
      given,
      generation:
        given === undefined || given === noRelease
          ? suite?.generations[0]
          : generationOf(suite, given),
    }
  }

  /**
   * What the Release file that the client got says about an index under its plain name. A client that got none lately, such as curl, is
   * assumed to have the adopted one.
   */
  #findIndex(name: string, client: Client, lost: Source[]): Answer | Promise<Answer> {
    const { suite, path = '' } = this.#known.above(name) ?? {}
    const { generation } = this.#generationFor(client, suite)
    if (suite === undefined || generation === undefined) return 'unnamed'
    if (!this.#counts(suite, generation)) return 'unnamed'
    if (this.#isUnreleased(client, [suite.at])) return 'unnamed'
    const source = { suite, generation, table: generation.release.digest }
    return this.#ask([source], pathName(path), lost)
  }

  /** The answer of the indexes of packages about a file. */
  #findFile(name: string, client: Client, lost: Source[]): Answer | Promise<Answer> {
    const root = this.#known.rootAbove(name)
    if (root === undefined) return 'unnamed'
    const path = pathName(name.slice(root.length + 1))
    const sources = this.#known
      .rootedAt(root)
      .filter(({ suite, generation }) => this.#counts(suite, generation))
      .filter(({ suite }) => !this.#isUnreleased(client, [suite.at]))
    const own = new Set(this.#ownOf(suitesOf(sources), client))
    const tables = this.#tables
    const settle = async (): Promise<Answer> => {
      const said = await statementsOf(sources, { path, tables, lost })
      const fetched = (index: string) => this.#asked.askedBy(client.address, parentOf(index))
      return said === 'unknown' ? said : (settledClaim(said, { own, fetched }) ?? 'unnamed')
    }
    if (this.#known.isContradicted(root, path)) return settle()
    return continueWhenReady(this.#ask(ownFirst(sources, own), path, lost), answer => {
      if (typeof answer === 'string') return answer
      return isContradicted(answer, { sources, own, path, tables }) ? settle() : answer
    })
  }

  /** The suites whose Release file the client got; none when there is only one suite and so no disagreement. */
  #ownOf(suites: readonly string[], client: Client): readonly string[] {
    return suites.length < 2 ? none : suites.filter(at => this.#given.has(client, at))
  }

  /** The claim of the first of these indexes that names a path, at once when the tables are in memory. */
  #ask(sources: readonly Source[], path: Buffer, lost: Source[]): Answer | Promise<Answer> {
    for (const source of sources) {
      const table = this.#tables.hot(source.table)
      if (table === undefined) return this.#askDisk(sources, path, lost)
      const claim = claimIn(table, source, path)
      if (claim !== undefined) return claim
    }
    return 'unnamed'
  }

  async #askDisk(sources: readonly Source[], path: Buffer, lost: Source[]): Promise<Answer> {
    let answer: Answer = 'unnamed'
    for (const source of sources) {
      const table = this.#tables.hot(source.table) ?? (await this.#tables.load(source.table))
      if (table === undefined || table === 'unreadable') {
        if (table === undefined) lost.push(source)
        answer = 'unknown'
        continue
      }
      const claim = claimIn(table, source, path)
      if (claim !== undefined) return claim
    }
    return answer
  }

  /** Adopts the suite of a lost table again, so that the table is made. Each table is tried once in `pauseAfterLoss`. */
  #makeAgain({ table, suite }: Source): void {
    const now = this.#parts.clock.elapsed()
    if ((this.#lost.get(table) ?? 0) > now) return
    this.#lost.set(table, now + pauseAfterLoss)
    this.adoptions.queue(suite.at)
  }

  /** Whether the Release file of a generation may name a content with this SHA-256. */
  #mayName({ release }: Generation, digest: string): boolean {
    const table = this.#tables.hot(release.digest)
    return table === undefined || table.hasSha512 || table.names(Buffer.from(digest, 'hex'))
  }

  /**
   * The suite that is being adopted and may name the file. For an index it counts only when the client got a Release file that is not
   * adopted yet. For another stored file it counts only when the client got any Release file of the suite lately.
   */
  #pendingFor(name: string, { stored, archive, client }: AskedFile): string | undefined {
    const index = indexKinds.has(archive.kind)
    if (this.adoptions.count === 0) return undefined
    for (const at of this.adoptions.waiting) {
      const base = baseOf({ at })
      const dists = base.lastIndexOf('/dists/')
      const root = index || dists < 0 ? base : base.slice(0, dists)
      if (!name.startsWith(`${root}/`)) continue
      const given = this.#given.to(client, at)
      if (stored !== undefined && !index && given === undefined) continue
      // A new adoption of the client's Release file may find another signature.
      const adopted =
        archive.kind !== 'release' && generationOf(this.#known.at(at), given) !== undefined
      if (!index || (given !== undefined && !adopted)) return at
    }
    return undefined
  }
}

/** The key of the suite's directory for a Release file; undefined for its signature and for any other file. */
function suiteOfUnsigned(key: string): string | undefined {
  return key.endsWith('.gpg') ? undefined : suiteOfRelease(key)
}

/** The event in the life of a suite that the arrival of a file is. */
function eventOf({ key }: Entry): ArrivalEvent {
  return suiteOfRelease(key) === undefined ? 'index-came' : 'release-came'
}

/** Whether the content with this SHA-256 is a Release file of a generation or its signature. */
function isRelease(generation: Generation, digest: string): boolean {
  return releasesOf(generation).some(
    release => release.digest === digest || release.signedBy?.digest === digest,
  )
}

/** The indexes in the order to ask: first those of suites whose Release file the client got, because suites of one pool may disagree. */
function ownFirst(sources: readonly Source[], own: ReadonlySet<string>): readonly Source[] {
  if (own.size === 0) return sources
  const isOwn = ({ suite }: Source) => own.has(suite.at)
  return [...sources.filter(isOwn), ...sources.filter(source => !isOwn(source))]
}

function claimIn(table: Table, { suite, generation }: Source, path: Buffer): Claim | undefined {
  const found = table.find(path)
  return found && { ...found, suite: suite.at, generation }
}
