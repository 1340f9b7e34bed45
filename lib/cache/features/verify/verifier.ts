/**
 * Checks all stored files: contents, names by digest, indexes against Release files, packages against indexes. It reads and reports, and
 * removes no file. The work is heavy, so it runs in a thread of its own (thread.ts).
 *
 * # Beside a running daemon
 * The daemon stores and removes files during the check. So the entry of a file that looks wrong is read again, together with that of the
 * index or Release file that it contradicts. The file counts as wrong only when neither was replaced meanwhile.
 */
import { type Clock, keepAlive, type Milliseconds } from '../../../async/clock.ts'
import { pause } from '../../../async/deadline.ts'
import { bytesAtMost, iterate } from '../../../bytes/source.ts'
import { explainError } from '../../../errors.ts'
import { decompress } from '../../archive/decompress.ts'
import {
  digests,
  indexedFiles,
  type ListedFile,
  type PackageIndex,
} from '../../archive/listed-file.ts'
import {
  type ArchivePath,
  classify,
  decodedUrl,
  directoriesOf,
  packageIndexOf,
  parentOf,
} from '../../archive/path.ts'
import { maxReleaseBytes, readRelease } from '../../archive/release.ts'
import {
  currentReleases,
  indexChoices,
  type KnownRelease,
  rootsOf,
} from '../../archive/suite-layout.ts'
import type { ExaminedContent, HashAlgorithm } from '../../store/disk/examine.ts'
import type { Entry } from '../../store/entry.ts'
import type { ReadableStore } from '../../store/store.ts'
import { type Signature, type SuitePolicy, signerText } from '../../suites/generation.ts'
import { distrustReason, rankOf } from '../../suites/policy.ts'
import { checkSignature } from '../../suites/signing/signature.ts'
import type {
  Progress,
  RepositoryReport,
  UncheckedBecause,
  VerificationReport,
  WrongFile,
} from './report.ts'

export interface VerifyParts {
  readonly store: ReadableStore
  readonly clock: Clock
  /** Bytes a second; 0 is no limit. */
  readonly rate: number
  /** The policy for signatures in a directory, by its key; undefined when they are not judged. */
  readonly policyOf: (at: string) => SuitePolicy | undefined
  readonly onProgress: (progress: Progress) => void
  /** Called with each wrong file as soon as it is found. */
  readonly onWrong: (wrong: WrongFile) => void
  /** Called with the digest of each content that has just been hashed and is right. */
  readonly onWhole?: (digest: string) => void
}

/** Checks all stored files. Rejects with the error of the file system when the store cannot be listed. */
export function verify(parts: VerifyParts): Promise<VerificationReport> {
  return new Verification(parts).run()
}

/** The verdict of the indexes about a file. One index that agrees with the file is enough. */
interface Said {
  readonly verdict: Verdict
  readonly according: StoredFile
  /** The directory of the Release file that names the index. */
  readonly base: string
}

/** At most this many contradictions are reported. */
const mostContradictions = 1000

type Unread = VerificationReport['unread'][number]

class Verification {
  readonly #parts: VerifyParts
  readonly #inventory = new Inventory()
  readonly #contents: HashedContents
  readonly #wrong: WrongFile[] = []
  readonly #unread: Unread[] = []
  /** The indexes that contradict each other, by the stored file. */
  readonly #contradictions = new Map<StoredFile, readonly string[]>()
  #unreadableBecause: string | undefined
  readonly #unchecked = { 'no-index': 0, weak: 0, unreadable: 0, changed: 0 }
  /** Files that match the digest in their name, an index or a Release file. */
  readonly #confirmed = new Set<StoredFile>()
  /** Digests of the contents with which `onWhole` was called. */
  readonly #whole = new Set<string>()
  /** Files that were counted as wrong or as unchecked. */
  readonly #settled = new Set<StoredFile>()

  constructor(parts: VerifyParts) {
    this.#parts = parts
    const onRead = (done: number) => this.#progress('reading', done)
    this.#contents = new HashedContents({ ...parts, onRead })
  }

  async run(): Promise<VerificationReport> {
    const { store, clock } = this.#parts
    const started = clock.now()
    this.#progress('listing', 0)
    for await (const entry of store.entries()) this.#inventory.add(entry)
    await this.#checkNames()
    const releases = await this.#readReleases()
    const repositories: RepositoryReport[] = []
    const choices: (readonly StoredIndex[])[] = []
    const trusted = currentReleases(releases.filter(({ refused }) => refused === undefined))
    const others = releases.filter(({ base }) => trusted.every(one => one.base !== base))
    for (const known of [...trusted, ...currentReleases(others)]) {
      const { file, base, refused, signature } = known
      const claims = refused === undefined ? [...this.#inventory.listedBy(known)] : []
      const right = await this.#checkIndexes(file, claims)
      const named = right.map(({ file, listed: { path } }) => ({ ...file, file, path, base }))
      choices.push(...indexChoices(named))
      const { suite, date } = known.release
      repositories.push({
        release: file.key,
        suite,
        signature,
        refused,
        date: date === undefined ? undefined : new Date(date).toISOString(),
        indexes: claims.length,
        indexesRight: right.length,
      })
    }
    await this.#checkPackages(choices)
    const unsigned = this.#inventory.indexesOutside(releases)
    await this.#checkPackages(unsigned.map(index => [index]))
    await this.#checkContents()
    return {
      version: 1,
      started: new Date(started).toISOString(),
      finished: new Date(clock.now()).toISOString(),
      files: this.#inventory.files,
      contents: this.#inventory.contents.size,
      bytes: this.#inventory.bytes,
      repositories,
      confirmed: this.#confirmed.size,
      wrong: this.#wrong,
      unchecked: this.#unchecked,
      contradictions: [...this.#contradictions].map(([{ key }, indexes]) => ({ key, indexes })),
      ...(this.#unreadableBecause !== undefined && { unreadableBecause: this.#unreadableBecause }),
      unread: this.#unread,
    }
  }

  /** Compares the files that are named by a digest with this digest. */
  async #checkNames(): Promise<void> {
    for (const { file, expected } of this.#inventory.byHash) {
      const { algorithm, hex } = expected
      const digests = await this.#digests(file, [algorithm])
      if (digests === undefined) continue
      const found = digests.get(algorithm)
      const sentence = `its ${algorithm} is ${found} and its name says ${hex}`
      if (found === hex) this.#confirmed.add(file)
      else await this.#report(file, 'by-hash', { sentence })
    }
  }

  async #readReleases(): Promise<readonly JudgedRelease[]> {
    const found: JudgedRelease[] = []
    for (const one of this.#inventory.releases) {
      const { file } = one
      if ((await this.#digests(file)) === undefined) continue
      const read = await this.#readRelease(one).catch(error => {
        this.#unread.push({ key: file.key, because: explainError(error) })
      })
      if (read === undefined) continue
      if ('because' in read) await this.#report(file, read.because, read)
      // The Release file of a component lists no files; the Release file of its suite lists it.
      else if (read.release.files.size > 0) found.push(read)
    }
    return found
  }

  /** Reads a stored Release file and checks its signature, as an adoption does. Rejects when a file cannot be read. */
  async #readRelease({ file, base }: StoredRelease): Promise<JudgedRelease | WrongRelease> {
    const { clock, policyOf } = this.#parts
    const at = parentOf(file.key)
    const inPlace = file.key.endsWith('/InRelease')
    const signatures = inPlace ? [] : this.#inventory.named(`${base}/Release.gpg`)
    const according = signatures.find(({ key }) => key === `${at}/Release.gpg`)
    const content = await this.#contents.whole(file)
    const { release, because } = readRelease(content)
    if (release === undefined) return { because: 'release', sentence: because }
    const known = { file, base, inPlace, release }
    const policy = policyOf(at)
    if (policy === undefined) {
      return { ...known, rank: 0, signature: undefined, refused: undefined }
    }
    const detached = according && (await this.#contents.whole(according))
    const { keyrings } = policy
    const signature = await checkSignature(content, detached, { keyrings, now: clock.now() })
    if (signature.is !== 'bad') {
      const refused = distrustReason(signature, policy)
      return { ...known, rank: rankOf(signature), signature, refused }
    }
    const by = signature.by === undefined ? '' : `, by ${signerText(signature)}`
    const sentence = `its signature is bad${by}`
    return { because: 'signature', sentence, ...(according && { according }) }
  }

  /** Compares files with the Release file that lists them. Answers the right ones. */
  async #checkIndexes(
    according: StoredFile,
    claims: readonly ListedStoredFile[],
  ): Promise<readonly ListedStoredFile[]> {
    const right: ListedStoredFile[] = []
    for (const claim of claims) {
      const { file, listed } = claim
      if (this.#settled.has(file)) continue
      const digests = await this.#digests(file, listed.digests.sha512 ? ['sha512'] : [])
      if (digests === undefined) continue
      const verdict = judge(file, listed, digests)
      if (verdict.is === 'right') right.push(claim)
      const because = file.validated < according.stored ? 'stale-index' : 'index'
      await this.#conclude(file, because, { verdict, according })
    }
    return right
  }

  /** Compares packages with indexes. One index of each choice is read. A file that was confirmed before stays confirmed. */
  async #checkPackages(choices: ReadonlyArray<readonly StoredIndex[]>): Promise<void> {
    const said = new Map<StoredFile, Said>()
    for (const choice of choices) await this.#readOne(choice, said)
    for (const [file, words] of said) {
      if (this.#settled.has(file) || this.#confirmed.has(file)) continue
      await this.#conclude(file, 'package', words)
    }
  }

  async #conclude(
    file: StoredFile,
    because: WrongFile['because'],
    { verdict, according }: Omit<Said, 'base'>,
  ): Promise<void> {
    if (verdict.is === 'right') this.#confirmed.add(file)
    else if (verdict.is === 'unchecked') this.#settle(file, 'weak')
    else await this.#report(file, because, { ...verdict, according })
  }

  async #readOne(choice: readonly StoredIndex[], said: Map<StoredFile, Said>): Promise<void> {
    const failed: Unread[] = []
    for (const index of choice) {
      if ((await this.#digests(index.file)) === undefined) continue
      try {
        return await this.#readIndex(index, said)
      } catch (error) {
        failed.push({ key: index.file.key, because: explainError(error) })
      }
    }
    this.#unread.push(...failed)
  }

  /** Notes the verdicts of an index about stored files. Throws when the index cannot be read to its end. */
  async #readIndex(
    { file: according, kind, base }: StoredIndex,
    said: Map<StoredFile, Said>,
  ): Promise<void> {
    const roots = rootsOf(base).map(root => {
      return { root, right: 0, verdicts: new Map<StoredFile, Verdict>() }
    })
    const chunks = decompress(this.#contents.read(according))
    for await (const listed of indexedFiles(kind, chunks)) {
      for (const at of roots) {
        for (const file of this.#inventory.named(`${at.root}/${listed.path}`)) {
          const verdict = await this.#judgePackage(file, listed)
          at.verdicts.set(file, better(verdict, at.verdicts.get(file)))
          if (verdict.is === 'right') at.right += 1
        }
      }
    }
    // The paths of a flat repository may begin in several directories: the directory with the most right files is taken.
    const best = roots.reduce((a, b) => (b.right > a.right ? b : a))
    for (const [file, verdict] of best.verdicts) {
      const before = said.get(file)
      this.#compare(file, before, { verdict, according, base })
      if (before === undefined || better(verdict, before.verdict) === verdict) {
        said.set(file, { verdict, according, base })
      }
    }
  }

  /** Notes that two indexes of one suite name different contents for a file. */
  #compare(file: StoredFile, before: Said | undefined, now: Said): void {
    if (before?.base !== now.base || this.#contradictions.size >= mostContradictions) return
    const [one, other] = [before.verdict, now.verdict]
    if (one.is === 'unchecked' || other.is === 'unchecked') return
    const agree = one.is === 'right' || other.is === 'right' ? one.is === other.is : false
    const same = one.is === 'wrong' && other.is === 'wrong' && one.sentence === other.sentence
    if (agree || same || this.#contradictions.has(file)) return
    this.#contradictions.set(file, [before.according.key, now.according.key])
  }

  async #judgePackage(file: StoredFile, listed: ListedFile): Promise<Verdict> {
    const { sha512, sha256 } = listed.digests
    if (sha512 === undefined || sha256 !== undefined) return judge(file, listed)
    // The index gives only a SHA-512, so the content must be read.
    const examined = await this.#contents.examine(file, ['sha512'])
    return examined.found === 'whole' ? judge(file, listed, examined.digests) : { is: 'unchecked' }
  }

  /** Reads the contents that were not read before. */
  async #checkContents(): Promise<void> {
    for (const files of this.#inventory.contents.values()) {
      for (const file of files) {
        const digests = await this.#digests(file)
        if (digests === undefined || this.#settled.has(file) || this.#confirmed.has(file)) continue
        this.#settle(file, 'no-index')
      }
    }
  }

  /** The digests of a file's content. Undefined when the content is not the stored one or cannot be read, which is reported once. */
  async #digests(
    file: StoredFile,
    algorithms: readonly HashAlgorithm[] = [],
  ): Promise<ReadonlyMap<HashAlgorithm, string> | undefined> {
    const examined = await this.#contents.examine(file, algorithms)
    if (examined.found === 'whole') {
      if (!this.#whole.has(file.digest)) this.#parts.onWhole?.(file.digest)
      this.#whole.add(file.digest)
      return examined.digests
    }
    this.#confirmed.delete(file)
    if (this.#settled.has(file)) return undefined
    if (examined.found === 'unknown') {
      this.#unreadableBecause ??= examined.because
      this.#settle(file, 'unreadable')
    } else await this.#report(file, 'content', { sentence: examined.because })
    return undefined
  }

  async #report(
    file: StoredFile,
    because: WrongFile['because'],
    { sentence, according }: { readonly sentence: string; readonly according?: StoredFile },
  ): Promise<void> {
    for (const one of according === undefined ? [file] : [file, according]) {
      const now = await this.#parts.store.read(one.key)
      if (now === 'unreadable') return this.#settle(file, 'unreadable')
      if (now?.digest !== one.digest) return this.#settle(file, 'changed')
    }
    this.#settled.add(file)
    const { key, digest } = file
    const said = according && { according: according.key }
    const wrong: WrongFile = { key, digest, because, sentence, ...said }
    this.#wrong.push(wrong)
    this.#parts.onWrong(wrong)
  }

  #settle(file: StoredFile, because: UncheckedBecause): void {
    this.#settled.add(file)
    this.#unchecked[because] += 1
  }

  #progress(doing: Progress['doing'], done: number): void {
    const total = this.#inventory.bytes
    this.#parts.onProgress({ doing, done, total, wrong: this.#wrong.length })
  }
}

/** The verdict that counts of two about one file. */
function better(one: Verdict, other: Verdict | undefined): Verdict {
  const rank = { right: 2, wrong: 1, unchecked: 0 }
  return other === undefined || rank[one.is] > rank[other.is] ? one : other
}

type Verdict =
  | { readonly is: 'right' }
  /** `sentence` says which size or digest was expected and which was found. */
  | { readonly is: 'wrong'; readonly sentence: string }
  /** The index gives no digest that is strong enough, or the content could not be read. */
  | { readonly is: 'unchecked' }

/**
 * Compares a file with the strongest digest that an index gives for it: the SHA-512 when that of the content is `known`, else the
 * SHA-256. MD5 and SHA-1 are not used, because they can be forged.
 */
function judge(
  file: StoredFile,
  listed: ListedFile,
  known?: ReadonlyMap<HashAlgorithm, string>,
): Verdict {
  const { sha512, sha256 } = listed.digests
  const own512 = known?.get('sha512')
  const [algorithm, expected, found] =
    sha512 !== undefined && own512 !== undefined
      ? (['SHA-512', sha512, own512] as const)
      : (['SHA-256', sha256, file.digest] as const)
  if (expected === undefined) return { is: 'unchecked' }
  if (file.size !== listed.size) {
    const sentence = `it has ${file.size} bytes and should have ${listed.size}`
    return { is: 'wrong', sentence }
  }
  if (expected === found) return { is: 'right' }
  return { is: 'wrong', sentence: `its ${algorithm} is ${found} and should be ${expected}` }
}

interface JudgedRelease extends KnownRelease {
  readonly file: StoredFile
  /** Undefined when the policy does not check signatures. */
  readonly signature: Signature | undefined
  /** The reason in words why the Release file does not count; undefined when it counts. */
  readonly refused: string | undefined
}

/** The reason why a file is not a Release file, or why its signature does not fit it. */
interface WrongRelease extends Pick<WrongFile, 'because' | 'sentence'> {
  readonly according?: StoredFile
}

/** The properties of a stored entry that the check needs. */
type StoredFile = Pick<Entry, 'key' | 'digest' | 'size' | 'stored' | 'validated'>

/** A stored Release file, and the decoded URL of its directory. */
interface StoredRelease {
  readonly file: StoredFile
  readonly base: string
}

/** A stored file, and the size and digests that a Release file lists for it. */
interface ListedStoredFile {
  readonly file: StoredFile
  readonly listed: ListedFile
}

/** A stored index of packages, and the directory of its Release file, or its own directory when there is no Release file. */
interface StoredIndex extends StoredRelease {
  readonly kind: PackageIndex
}

/**
 * The files of a store by content and by the name that archives give them. Indexes name files in plain text, and a key is percent-encoded
 * in one of several valid ways. So files are found by their decoded URL. Two keys may decode to one name. Both files must then match the
 * index.
 */
class Inventory {
  readonly releases: StoredRelease[] = []
  /** Files whose name contains their digest. */
  readonly byHash: { file: StoredFile; expected: NonNullable<ArchivePath['digest']> }[] = []
  /** Files by their content. Each content is read once for all its files. */
  readonly contents = new Map<string, StoredFile[]>()
  /** Packages and Sources under their plain names, packed or not. */
  readonly #indexes: StoredIndex[] = []
  readonly #names = new Map<string, StoredFile[]>()
  files = 0
  bytes = 0

  add({ key, digest, size, stored, validated }: StoredFile): void {
    const file = { key, digest, size, stored, validated }
    this.files += 1
    if (append(this.contents, digest, file) === 1) this.bytes += size
    const name = decodedUrl(key)
    if (name === undefined) return
    append(this.#names, name, file)
    const archive = classify(key.replace(/^[^/]*\/\/[^/]*/, ''))
    const kind = packageIndexOf(name)
    if (archive.digest !== undefined) this.byHash.push({ file, expected: archive.digest })
    else if (archive.kind === 'release' && !name.endsWith('.gpg')) {
      this.releases.push({ file, base: parentOf(name) })
    } else if (kind !== undefined) this.#indexes.push({ file, kind, base: parentOf(name) })
  }

  named(name: string): readonly StoredFile[] {
    return this.#names.get(name) ?? none
  }

  /** All stored files that a Release file lists, under their plain names and under their names by digest. */
  *listedBy({ base, release }: KnownRelease): Generator<ListedStoredFile> {
    for (const listed of release.files.values()) {
      const name = `${base}/${listed.path}`
      for (const file of this.named(name)) yield { file, listed }
      for (const { algorithm, field } of digests) {
        const digest = listed.digests[algorithm]
        if (digest === undefined) continue
        const byHash = `${parentOf(name)}/by-hash/${field}/${digest}`
        for (const file of this.named(byHash)) yield { file, listed }
      }
    }
  }

  /** The indexes of packages that are outside the directories of these Release files. */
  indexesOutside(releases: readonly StoredRelease[]): readonly StoredIndex[] {
    const bases = new Set(releases.map(({ base }) => base))
    return this.#indexes.filter(({ base }) => {
      return ![...directoriesOf(`${base}/`)].some(at => bases.has(at))
    })
  }
}

const none: readonly StoredFile[] = []

/** Adds a file under a name. Answers how many files the name has now. */
function append(map: Map<string, StoredFile[]>, name: string, file: StoredFile): number {
  const same = map.get(name)
  if (same !== undefined) return same.push(file)
  map.set(name, [file])
  return 1
}

interface HashedOptions extends Pick<VerifyParts, 'store' | 'clock' | 'rate'> {
  /** Called with the sum of the bytes of different contents that have been read so far. */
  readonly onRead: (done: number) => void
}

/**
 * Reads and hashes the contents of a store, each once, at a bounded rate.
 */
class HashedContents {
  readonly #options: HashedOptions
  readonly #pace: (bytes: number) => Promise<void>
  readonly #known = new Map<string, ExaminedContent>()
  #done = 0

  constructor(options: HashedOptions) {
    this.#options = options
    this.#pace = pace(options.rate, options.clock)
  }

  /** Reads the content of a file, if needed, and answers its digests or why it is not the stored one. */
  async examine(file: StoredFile, algorithms: readonly HashAlgorithm[]): Promise<ExaminedContent> {
    const { digest, size } = file
    // Entries may disagree about the size of one content; one of them is then wrong.
    const name = `${digest} ${size}`
    const known = this.#known.get(name)
    if (known !== undefined && known.found !== 'whole') return known
    if (known !== undefined && algorithms.every(one => known.digests.has(one))) return known
    const before = this.#done
    const examined = await this.#options.store.examine(digest, {
      size,
      algorithms: [...new Set<HashAlgorithm>(['sha256', ...algorithms])],
      onRead: bytes => {
        if (known === undefined) this.#tell(this.#done + bytes)
        return this.#pace(bytes)
      },
    })
    if (known === undefined) this.#tell(before + size)
    const result = checked(examined, digest, known?.digests)
    this.#known.set(name, result)
    return result
  }

  /** The bytes of a Release file or its signature. */
  async whole(file: StoredFile): Promise<Buffer> {
    const whole =
      file.size > maxReleaseBytes ? undefined : await bytesAtMost(this.read(file), maxReleaseBytes)
    if (whole === undefined) throw new Error('it is too long')
    return whole
  }

  /** Reads the content in pieces. Throws when it is gone. */
  async *read(file: StoredFile): AsyncGenerator<Uint8Array> {
    const content = await this.#options.store.content(file)
    if (content === undefined) throw new Error(`${file.key}: its content is gone`)
    if (content.kind === 'bytes') yield content.bytes
    if (content.kind !== 'stream') return
    for await (const chunk of iterate(content.open())) {
      yield chunk
      await this.#pace(chunk.length)
    }
  }

  #tell(done: number): void {
    this.#done = done
    this.#options.onRead(done)
  }
}

/** The result of reading a content, with the digests that were known before. A content with another SHA-256 is broken. */
function checked(
  examined: ExaminedContent,
  digest: string,
  known: ReadonlyMap<HashAlgorithm, string> = new Map(),
): ExaminedContent {
  if (examined.found !== 'whole') return examined
  const found = examined.digests.get('sha256')
  if (found !== digest) {
    return { found: 'broken', because: `its bytes hash to ${found} and not to ${digest}` }
  }
  return { found: 'whole', digests: new Map([...known, ...examined.digests]) }
}

/** A shorter pause is postponed until the pauses add up to this. */
const shortest: Milliseconds = 20

/** Answers a function to call after each read. It waits so that at most `rate` bytes a second are read. */
function pace(rate: number, clock: Clock): (bytes: number) => Promise<void> {
  /** The moment before which the next read must not begin. */
  let due: Milliseconds = 0
  return async bytes => {
    if (rate <= 0) return
    const now = clock.elapsed()
    due = Math.max(due, now) + (bytes / rate) * 1000
    const wait = due - now
    // `keepAlive` keeps the thread running, because it has no other open handle.
    if (wait > shortest) await keepAlive(pause(clock, wait))
  }
}
