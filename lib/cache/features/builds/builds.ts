/**
 * The builds of a service, with their recording and their files. The store keeps their contents, each by an entry of its own.
 */
import { constants, open, rm, stat } from 'node:fs/promises'
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { explainError } from '../../../errors.ts'
import { count, countOf, size as sizeText } from '../../../figures.ts'
import { writeFileAtomically } from '../../../files/atomic-file.ts'
import { makeDirectory } from '../../../files/directory-owner.ts'
import { AddressSet } from '../../../ip.ts'
import type { Logger } from '../../../log/log.ts'
import type { AnswerNotes } from '../../answer/representation.ts'
import type { Config } from '../../config/config.ts'
import { Layout } from '../../store/disk/disk.ts'
import type { Entry } from '../../store/entry.ts'
import { fetchedKey, keepingKey } from '../../store/key.ts'
import type { Store } from '../../store/store.ts'
import {
  type Build,
  type BuildDecision,
  buildNameRule,
  contentsOf,
  decideInBuild,
  type GivenAnswer,
  type GivenFile,
  type GivenStatus,
  isBuildName,
  isFile,
  keepingEntry,
} from './build.ts'
import { answerLine, encodeBuild, lackingLine, mostAnswers } from './build-file.ts'
import { buildsDirectory, readBuilds, recordPath, type UnreadableRecord } from './records.ts'

interface BuildsParts {
  readonly cacheDirectory: string
  readonly store: Pick<Store, 'put' | 'get' | 'remove' | 'has' | 'checkpoint' | 'removeContents'>
  readonly clock: Clock
  readonly log: Logger
  readonly settings: () => Config['builds']
}

/** A build whose maps grow while it is recorded. */
interface OwnBuild extends Build {
  locked: Milliseconds | undefined
  interrupted: boolean
  readonly answers: Map<string, GivenAnswer>
  readonly lacking: Map<string, string>
  /** The number of requests whose answers are not complete yet. */
  coming: number
  /** Whether it is being locked, so that no recording begins. */
  locking: boolean
  /** The lines that its file lacks; undefined when the file has to be written as a whole. */
  unwritten: string[] | undefined
}

/** The recording of the answer to one request. */
export interface BuildRecording extends AnswerNotes {
  /** Records that the client gets a status instead of a file. */
  readonly answered: (given: GivenStatus) => void
}

/** The recorded fields, which describe the content. Other fields describe the moment or the origin. */
const recordedFields: ReadonlySet<string> = new Set([
  ...['content-type', 'content-encoding', 'content-language', 'etag'],
])
/** The most URLs of a build that are noted as not recorded. */
const mostLacking = 10_000
const writeEvery: Milliseconds = 5_000
/** The longest time for which a lock waits for downloads under way. */
const longestWait: Milliseconds = 20_000
const waitStep: Milliseconds = 100

export class Builds {
  readonly #parts: BuildsParts
  readonly #builds = new Map<string, OwnBuild>()
  /** The records that this version cannot read, by name. They stay unchanged, and the contents that they name stay too. */
  readonly #unreadable = new Map<string, UnreadableRecord>()
  /** Whether the records could not be listed. Then every content stays. */
  #unlisted = false
  /** The sizes of the contents that builds name, by digest. */
  readonly #contents = new Map<string, number>()
  #bytes = 0
  #answers = 0
  readonly #dirty = new Set<OwnBuild>()
  #timer: (() => void) | undefined
  #writing: Promise<void> = Promise.resolve()
  #closed = false
  #networks: { readonly list: readonly string[]; readonly set: AddressSet } | undefined

  private constructor(parts: BuildsParts) {
    this.#parts = parts
  }

  /** Reads the builds of an earlier run. Never rejects. */
  static async open(parts: BuildsParts): Promise<Builds> {
    const builds = new Builds(parts)
    try {
      for (const { name, record } of await readBuilds(parts.cacheDirectory)) {
        if (!('because' in record)) builds.#add(record)
        else {
          const { because } = record
          builds.#unreadable.set(name, record)
          parts.log.warn('the record of a build cannot be read', { name, because })
        }
      }
    } catch (error) {
      builds.#unlisted = true
      const because = explainError(error)
      parts.log.warn('the records of builds cannot be read: nothing stored is removed', { because })
    }
    return builds
  }

  get now(): Milliseconds {
    return this.#parts.clock.now()
  }

  get all(): readonly Build[] {
    return [...this.#builds.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
  }

  /** The bytes of all contents, each counted once. */
  get bytes(): number {
    return this.#bytes
  }

  named(name: string): Build | undefined {
    return this.#builds.get(name)
  }

  /** Whether a build names this content, or may name it, so that it has to stay. */
  keeps(digest: string): boolean {
    return this.#contents.has(digest) || this.#mayBeNamed(digest)
  }

  /** Whether an unreadable record may name this content. */
  #mayBeNamed(digest: string): boolean {
    if (this.#unlisted) return true
    for (const { digests } of this.#unreadable.values()) {
      if (digests === 'unknown' || digests.has(digest)) return true
    }
    return false
  }

  /**
   * Decides about a request of this client; a client that is not known counts as one that may add to builds. Changes nothing: a build that
   * does not exist begins with its first recording.
   */
  decide(name: string, url: string, client?: string): BuildDecision {
    const mayRecord = client === undefined ? 'add' : this.#mayRecord(client)
    const build = this.#builds.get(name)
    if (build !== undefined) {
      const otherwise = mayRecord === 'no' ? 'no' : 'yes'
      return decideInBuild(build, url, build.locking ? 'locking' : otherwise)
    }
    const sentence = mayRecord === 'begin' ? this.#problemWith(name) : this.sentenceWithout(name)
    return sentence === undefined
      ? { use: 'record' }
      : { use: 'refuse', because: 'no-build', sentence }
  }

  /** A sentence that says why there is no build of this name. */
  sentenceWithout(name: string): string {
    if (!isBuildName(name)) return buildNameRule
    const unreadable = this.#unreadable.get(name)?.because
    return unreadable === undefined
      ? `There is no build ${name}: cachesvc build record ${name} begins it.`
      : `The record of the build ${name} cannot be read: ${unreadable}.`
  }

  /** Begins a recording. Returns a sentence when it cannot. */
  begin(name: string): Build | string {
    const problem = this.#problemWith(name)
    if (problem !== undefined) return problem
    const build: OwnBuild = {
      name,
      begun: this.#parts.clock.now(),
      locked: undefined,
      interrupted: false,
      answers: new Map(),
      lacking: new Map(),
      coming: 0,
      locking: false,
      unwritten: undefined,
    }
    this.#builds.set(name, build)
    this.#changed(build)
    this.#parts.log.info('a build is recorded', { name })
    return build
  }

  #problemWith(name: string): string | undefined {
    const { most } = this.#parts.settings()
    if (!isBuildName(name)) return buildNameRule
    if (this.#builds.has(name)) return `There is a build ${name} already: remove it first.`
    if (this.#unreadable.has(name)) {
      return `There is a record of a build ${name} that cannot be read: remove it first.`
    }
    return this.#builds.size < most
      ? undefined
      : `There are ${countOf(this.#builds.size, 'build')}, as many as builds.most allows: remove one first.`
  }

  /** Adds an imported build, and keeps those of its contents that the store has. Resolves to a sentence when it cannot. */
  async takeOver(build: Build): Promise<string | undefined> {
    const problem = this.#problemWith(build.name) ?? this.#tooMuch(build)
    if (problem !== undefined) return problem
    const own = this.#add(build)
    for (const answer of build.answers.values()) if (isFile(answer)) this.#keep(answer)
    await this.#write(own)
    return undefined
  }

  #tooMuch(build: Build): string | undefined {
    const { size } = this.#parts.settings()
    let bytes = this.#bytes
    for (const [digest, one] of contentsOf([build])) if (!this.#contents.has(digest)) bytes += one
    if (bytes > size) {
      return `The builds would have ${sizeText(bytes)}, and builds.size is ${sizeText(size)}.`
    }
    return this.#answers + build.answers.size > mostAnswers
      ? `The builds would have more than ${count(mostAnswers)} answers.`
      : undefined
  }

  #add(build: Build): OwnBuild {
    const { answers, lacking } = build
    const own: OwnBuild = {
      ...build,
      answers: new Map(answers),
      lacking: new Map(lacking),
      coming: 0,
      locking: false,
      unwritten: undefined,
    }
    this.#builds.set(build.name, own)
    this.#answers += answers.size
    for (const [digest, size] of contentsOf([build])) this.#count(digest, size)
    return own
  }

  #count(digest: string, size: number): void {
    if (this.#contents.has(digest)) return
    this.#contents.set(digest, size)
    this.#bytes += size
  }

  /** Makes the store keep a content that it has. Returns the reason when it does not; undefined when it does. */
  #keep(file: GivenFile): string | undefined {
    const { store, clock } = this.#parts
    const put = store.put(keepingEntry(file, clock.now()))
    return put.stored ? undefined : put.because
  }

  /** Whether the store has the content, and keeps it from now on. */
  async hasContent(file: GivenFile): Promise<boolean> {
    const { store } = this.#parts
    if (!store.has(file.digest)) return false
    const kept = await store.get(keepingKey(file.digest))
    return kept?.digest === file.digest || this.#keep(file) === undefined
  }

  /** Begins to record the answer to a request, and the build with its first one. Undefined when the build cannot begin. */
  recording(name: string, url: string): BuildRecording | undefined {
    if (!this.#builds.has(name)) this.begin(name)
    const build = this.#builds.get(name)
    if (build === undefined) return undefined
    build.coming += 1
    let under = true
    /** Notes a part of the answer, if the build still exists and is still being recorded. */
    const noting =
      <Given>(note: (given: Given) => void) =>
      (given: Given): void => {
        if (this.#builds.get(name) === build && build.locked === undefined) note(given)
        if (under) build.coming -= 1
        under = false
      }
    return {
      given: noting(entry => this.#given(build, url, entry)),
      answered: noting(({ status, location }) => {
        this.#note(build, url, { status, ...(location !== undefined && { location }) })
      }),
      failed: noting(because => {
        if (!build.answers.has(url)) this.#lack(build, url, because)
      }),
    }
  }

  #given(build: OwnBuild, url: string, entry: Entry): void {
    const { digest, size, lastModified, fields } = entry
    const known = build.answers.get(url)
    if (known !== undefined) {
      if (isFile(known) && known.digest === digest) return
      this.#lack(build, url, 'two answers came at the same time, and the other one is recorded')
      return
    }
    const limit = this.#parts.settings().size
    if (!this.#contents.has(digest) && this.#bytes + size > limit) {
      this.#lack(build, url, `the builds have as much as builds.size allows, ${sizeText(limit)}`)
      return
    }
    const about = fields.filter(([name]) => recordedFields.has(name.toLowerCase()))
    const file = { digest, size, lastModified, fields: about }
    const because = this.#keep(file)
    if (because !== undefined) this.#lack(build, url, `it is not stored: ${because}`)
    else if (this.#note(build, url, file)) this.#count(digest, size)
  }

  #note(build: OwnBuild, url: string, answer: GivenAnswer): boolean {
    if (build.answers.has(url)) return false
    if (this.#answers >= mostAnswers) {
      this.#lack(
        build,
        url,
        `the builds have ${count(mostAnswers)} answers, and no further ones are recorded`,
      )
      return false
    }
    build.answers.set(url, answer)
    build.lacking.delete(url)
    this.#answers += 1
    this.#changed(build, answerLine(url, answer))
    return true
  }

  #lack(build: OwnBuild, url: string, because: string): void {
    const known = build.lacking.get(url)
    if (known === because || (known === undefined && build.lacking.size >= mostLacking)) return
    build.lacking.set(url, because)
    this.#changed(build, lackingLine(url, because))
  }

  /**
   * Locks a build once the downloads for it have ended and its contents survive a power cut. Resolves to a list with a sentence for each
   * of its problems, or to one sentence when it cannot be locked.
   */
  async lock(name: string): Promise<readonly string[] | string> {
    const { clock, store, log } = this.#parts
    const build = this.#builds.get(name)
    if (build === undefined) return this.sentenceWithout(name)
    if (build.locked !== undefined) return `The build ${name} is locked already.`
    if (build.locking) return `The build ${name} is being locked.`
    if (build.answers.size === 0) return `The build ${name} has recorded nothing yet.`
    const end = clock.elapsed() + longestWait
    while (build.coming > 0 && clock.elapsed() < end) {
      await new Promise<void>(resolve => clock.after(waitStep, resolve))
    }
    if (build.coming > 0) {
      return `${countOf(build.coming, 'download')} for the build ${name} ${build.coming === 1 ? 'is' : 'are'} under way: try again later.`
    }
    // No answer is complete without its recording from here on: a request that is not recorded yet is refused.
    build.locking = true
    try {
      await store.checkpoint()
      build.locked = clock.now()
      await this.#write(build)
    } catch (error) {
      build.locked = undefined
      throw error
    } finally {
      build.locking = false
    }
    if (this.#builds.get(name) !== build) return this.sentenceWithout(name)
    log.info('a build is locked', { name, files: build.answers.size })
    return this.problemsOf(build)
  }

  /** A sentence for each problem of a build. The files of a locked build are checked on the disk. */
  async problemsOf(build: Build): Promise<readonly string[]> {
    const { interrupted, answers, lacking, locked } = build
    const problems: string[] = []
    if (interrupted) {
      problems.push(
        'The service was killed while this was recorded: what it gave in the last seconds before may be missing.',
      )
    }
    for (const [url, because] of lacking) problems.push(`${url} is not recorded: ${because}.`)
    for (const [url, answer] of answers) {
      if (!isFile(answer)) continue
      const { digest, size } = answer
      const there =
        this.#parts.store.has(digest) && (locked === undefined || (await this.#onDisk(answer)))
      if (!there) problems.push(`${url} is not in the store: ${size} bytes, SHA-256 ${digest}.`)
    }
    return problems
  }

  async #onDisk({ digest, size }: GivenFile): Promise<boolean> {
    const layout = new Layout(this.#parts.cacheDirectory)
    const found = await stat(layout.blob(digest)).catch(() => undefined)
    return found?.isFile() === true && found.size === size
  }

  /** Continues the recording of a locked build. Resolves to a sentence when it cannot. */
  async unlock(name: string): Promise<string | undefined> {
    const build = this.#builds.get(name)
    if (build === undefined) return this.sentenceWithout(name)
    if (build.locked === undefined) return `The build ${name} is not locked.`
    build.locked = undefined
    await this.#write(build)
    this.#parts.log.info('a build records again', { name })
    return undefined
  }

  /** Removes a build, and those of its contents that have no other name. Resolves to a sentence when there is no such build. */
  async remove(name: string): Promise<string | undefined> {
    const build = this.#builds.get(name)
    if (build === undefined && !this.#unreadable.has(name)) return this.sentenceWithout(name)
    this.#builds.delete(name)
    this.#unreadable.delete(name)
    if (build !== undefined) this.#dirty.delete(build)
    await this.#inTurn(() => rm(recordPath(this.#parts.cacheDirectory, name), { force: true }))
    if (build === undefined) return undefined
    const { store, log } = this.#parts
    const others = contentsOf(this.#builds.values())
    const named = (digest: string) => others.has(digest) || this.#mayBeNamed(digest)
    const gone = new Set([...contentsOf([build]).keys()].filter(digest => !named(digest)))
    this.#answers -= build.answers.size
    for (const digest of gone) {
      this.#bytes -= this.#contents.get(digest) ?? 0
      this.#contents.delete(digest)
      store.remove(keepingKey(digest))
      store.remove(fetchedKey(digest))
    }
    await store.removeContents(gone)
    log.info('a build was removed', { name })
    return undefined
  }

  /** Writes the unwritten records. Never rejects. */
  async close(): Promise<void> {
    this.#closed = true
    this.#timer?.()
    const recorded = [...this.#builds.values()].filter(({ locked }) => locked === undefined)
    for (const build of new Set([...this.#dirty, ...recorded])) {
      build.unwritten = undefined
      await this.#tryToWrite(build)
    }
    await this.#writing
  }

  /** Whether a client may begin a recording, add to one, or do neither. */
  #mayRecord(client: string): 'begin' | 'add' | 'no' {
    const list = this.#parts.settings().clients
    if (list.length === 0) return 'add'
    if (this.#networks?.list !== list) this.#networks = { list, set: AddressSet.fromCidrs(list) }
    return this.#networks.set.has(client) ? 'begin' : 'no'
  }

  /** Notes that a build has to be written: this line of it, or as a whole. */
  #changed(build: OwnBuild, line?: string): void {
    if (line === undefined) build.unwritten = undefined
    else build.unwritten?.push(line)
    this.#dirty.add(build)
    if (this.#closed) return
    this.#timer ??= this.#parts.clock.after(writeEvery, () => {
      this.#timer = undefined
      for (const one of [...this.#dirty]) void this.#tryToWrite(one)
    })
  }

  async #tryToWrite(build: OwnBuild): Promise<void> {
    try {
      const { unwritten } = build
      if (unwritten === undefined) await this.#write(build)
      else await this.#append(build, unwritten)
    } catch (error) {
      const because = explainError(error)
      this.#parts.log.warn('the record of a build cannot be written', { name: build.name, because })
      this.#changed(build)
    }
  }

  #write(build: OwnBuild): Promise<void> {
    return this.#inTurn(async () => {
      if (this.#builds.get(build.name) !== build) return
      this.#dirty.delete(build)
      const { cacheDirectory } = this.#parts
      await makeDirectory(buildsDirectory(cacheDirectory))
      const recorded = build.locked === undefined && !this.#closed
      const text = encodeBuild(build, recorded)
      // What is noted while the file is written is appended to it.
      build.unwritten = recorded ? [] : undefined
      try {
        await writeFileAtomically(recordPath(cacheDirectory, build.name), text)
      } catch (error) {
        build.unwritten = undefined
        throw error
      }
    })
  }

  /** Appends these lines to the file of a build that is being recorded. A long record is not written again for one more answer. */
  #append(build: OwnBuild, lines: readonly string[]): Promise<void> {
    return this.#inTurn(async () => {
      if (this.#builds.get(build.name) !== build || build.unwritten !== lines) return
      this.#dirty.delete(build)
      build.unwritten = []
      try {
        await appendToFile(recordPath(this.#parts.cacheDirectory, build.name), lines.join(''))
      } catch (error) {
        build.unwritten = undefined
        throw error
      }
    })
  }

  /** Runs writes one after the other, so that the last one stays. */
  #inTurn(act: () => Promise<void>): Promise<void> {
    const done = this.#writing.then(act)
    this.#writing = done.catch(() => undefined)
    return done
  }
}

/** Appends to an existing file, and flushes it. */
async function appendToFile(path: string, text: string): Promise<void> {
  const file = await open(path, constants.O_WRONLY | constants.O_APPEND)
  try {
    await file.writeFile(text)
    await file.datasync()
  } finally {
    await file.close()
  }
}
