/**
 * Fetches the files that a new Release file names, in the order in which clients need them and a few at a time. It fetches each by its
 * digests where the archive offers that, else by its name. It also asks for the detached signatures of Release files, which can change
 * without the Release file, and finds the path of a file that an origin does not have as a Release file names it.
 *
 * # Facts
 * - A client can invent a digest. Then it means nothing that the origin has no file of that name.
 * - Archives name files that they never had, such as Debian's uncompressed indexes, and any client can ask for one. Archives offer names
 *   by some digests and not by others. apt asks for the plain name when there is no file by digest.
 */
import { LRUCache } from 'lru-cache'
import { iterate } from '../../../bytes/source.ts'
import { explainError, type Failure } from '../../../errors.ts'
import { Fields } from '../../../http/message/field.ts'
import type { Logger } from '../../../log/log.ts'
import { decodedUrl, parentOf } from '../../archive/path.ts'
import { maxReleaseBytes, readRelease } from '../../archive/release.ts'
import type { Fetcher } from '../../fetch/fetch.ts'
import type { FetchOutcome } from '../../fetch/fetch-outcome.ts'
import { isGone } from '../../fetch/revalidation.ts'
import { fileUnder } from '../../fetch/wanted-file.ts'
import { WrongContent } from '../../fetch/wrong-content.ts'
import type { Rules } from '../../policy/policy.ts'
import { archiveOf } from '../../policy/routing.ts'
import type { Entry } from '../../store/entry.ts'
import type { Store } from '../../store/store.ts'
import {
  baseOf,
  byHashPath,
  byHashPaths,
  keyIn,
  type ListedContent,
  releaseFile,
} from '../generation.ts'
import type { Suites } from '../suites.ts'
import type { OfferedRelease } from './places.ts'

interface SuiteFetchesParts {
  readonly rules: () => Rules
  readonly suites: Pick<Suites, 'generationOf' | 'signatureOf' | 'adoptions'>
  readonly fetcher: Fetcher
  readonly store: Pick<Store, 'get' | 'put' | 'remove'>
}

/** The number of files of a new generation that are fetched at the same time. */
const atOnce = 4
const mostWrong = 1000

/** The end of the keys of files that are about to replace others. No target has such a key. */
export const incomingSuffix = '#incoming'

/** A file of a new generation that is being fetched. `come` resolves to '' once it has arrived, else to the reason. It never rejects. */
export interface ListedFetch {
  readonly listed: ListedContent
  readonly come: Promise<string>
}

export class SuiteFetches {
  readonly #parts: SuiteFetchesParts
  /** The files of new generations whose fetch has not begun, by the directories of their suites. */
  readonly #queues = new Map<string, readonly unknown[]>()
  /** The fields of contents that were not what a Release file names, by the key and the SHA-256 that it names. */
  readonly #wrong = new LRUCache<string, Fields>({ max: mostWrong })

  constructor(parts: SuiteFetchesParts) {
    this.#parts = parts
  }

  /**
   * Fetches files in their order, a few at a time, so that connections to a slow origin remain for clients. It also fetches those for which
   * the update no longer waits. A later call for the same suite replaces the files whose fetch has not begun.
   */
  begin(at: string, files: readonly ListedContent[], byHash: boolean): readonly ListedFetch[] {
    const { fetcher } = this.#parts
    const queue: { readonly listed: ListedContent; readonly settle: (because: string) => void }[] =
      []
    const fetches = files.map(listed => {
      const come = new Promise<string>(settle => queue.push({ listed, settle }))
      return { listed, come }
    })
    this.#queues.set(at, queue)
    const work = async (): Promise<void> => {
      while (this.#queues.get(at) === queue && !fetcher.closing) {
        const next = queue.shift()
        if (next === undefined) break
        next.settle(await this.#fetchListed(at, next.listed, byHash).catch(explainError))
      }
      for (const { settle } of queue.splice(0)) settle('another update of the suite has begun')
      if (this.#queues.get(at) === queue) this.#queues.delete(at)
    }
    for (let n = 0; n < atOnce; n += 1) void work()
    return fetches
  }

  /** Fetches a file by its digests, else by its name. Resolves to '' once it has arrived, else to the reasons. */
  async #fetchListed(at: string, listed: ListedContent, byHash: boolean): Promise<string> {
    const reasons = new Set<string>()
    for (const path of [...(byHash ? byHashPaths(listed) : []), listed.path]) {
      const because = await this.fetchOne(at, listed, path)
      if (because === '') return because
      reasons.add(because)
    }
    return [...reasons].join('; ')
  }

  /**
   * Fetches a file by one of its names, and stores it under its name by SHA-256. Resolves to '' once it has arrived, else to the reason. A
   * file that has arrived but may not be stored counts as arrived.
   */
  async fetchOne(at: string, listed: ListedContent, path: string): Promise<string> {
    const { fetcher, store, rules } = this.#parts
    const { size, digest } = listed
    const [key, own] = [keyIn(at, path), keyIn(at, byHashPath(listed))]
    const file = key === undefined ? undefined : fileUnder(key)
    if (file === undefined || own === undefined) return 'there is no URL for its name'
    const name = file.archive.digest?.hex ?? digest
    // A claim is left out for a name by another digest, because with a claim only the SHA-256 would be checked.
    const claim = name === digest ? { size, digest, suite: at } : undefined
    const staged = path === listed.path ? `${file.key}${incomingSuffix}` : file.key
    // With several origins, each server has its own validators.
    const several = (archiveOf(file.uri, rules().config.archives)?.archive.origins.length ?? 0) > 1
    // A date alone does not show that the file is still wrong, because a mirror that copies it again keeps the date of the original.
    const known = `${file.key} ${digest}`
    const before = several ? undefined : this.#wrong.get(known)
    const unless = before?.has('ETag') ? before : undefined
    const wanted = { ...file, key: staged, claim, unless, stored: undefined, insist: true }
    const { found } = fetcher.fetch(wanted)
    const come = await whatCame(await found)
    if ('because' in come) {
      if (come.wrong !== undefined) this.#wrong.set(known, come.wrong)
      return unless !== undefined && come.status === 304 ? otherThanSaid : come.because
    }
    const { entry } = come
    if (entry.digest !== digest || entry.size !== size) {
      this.#wrong.set(known, Fields.of(...entry.fields))
      return otherThanSaid
    }
    const named = { ...entry, key: own, verified: { by: 'name' } } as const
    if (staged !== own && come.kept) store.put(named)
    if (staged !== file.key) store.remove(staged)
    return ''
  }

  /**
   * Asks for the signature of a Release file that the origin has confirmed. An archive can sign an unchanged file again, when the old
   * signature expires or with another key. The new signature is stored when it may be adopted with this Release file. Returns false when
   * it belongs to another Release file, which the origin has or is about to have.
   */
  async signatureFits(entry: Entry): Promise<boolean> {
    const { suites, store } = this.#parts
    if (!entry.key.endsWith('/Release') || suites.generationOf(entry) === undefined) return true
    const at = parentOf(entry.key)
    try {
      const { signature } = (await this.signatureNow(at)) ?? {}
      if (signature === undefined) return true
      const fits =
        signature.digest === suites.signatureOf(entry)?.digest ||
        (await suites.adoptions.prepare(at, releaseFile(entry, signature))) !== undefined
      const stays = (await store.get(entry.key))?.digest === entry.digest
      if (fits && stays) store.put({ ...signature, key: signatureKey(at) })
      return fits
    } finally {
      store.remove(`${signatureKey(at)}${incomingSuffix}`)
    }
  }

  /** The detached signature that the origin has now, if it has one. Undefined when the origin does not say whether it has one. */
  async signatureNow(
    at: string,
    offered?: OfferedRelease,
  ): Promise<{ readonly signature?: Entry } | undefined> {
    const { fetcher, store } = this.#parts
    const key = signatureKey(at)
    const file = fileUnder(key)
    const plain = file && { ...file, stored: await store.get(key), insist: true }
    const wanted = offered === undefined ? plain : offered.file(key)
    if (wanted === undefined) return {}
    const found = await fetcher.fetch({ ...wanted, key: `${key}${incomingSuffix}` }).found
    if (found.kind === 'answered') return isGone(found.status) ? {} : undefined
    const signature = await entryOf(found)
    return signature && { signature }
  }
}

const otherThanSaid = 'its content is not what the Release file says'

/** The entry that a fetch has brought, else the reason why it failed, with the fields of content that was wrong. */
async function whatCame(
  found: FetchOutcome,
): Promise<
  | { readonly entry: Entry; readonly kept: boolean }
  | { readonly because: string; readonly status?: number; readonly wrong?: Fields }
> {
  switch (found.kind) {
    case 'validated':
      return { entry: found.entry, kept: true }
    case 'answered':
      return { because: `the origin answers ${found.status}`, status: found.status }
    case 'failed':
      return { because: inWords(found.failure) }
    case 'filling': {
      const { settled, draft } = found.filling
      const end = await settled
      if (end.kind === 'failed') {
        const wrong = WrongContent.is(end.failure) ? { wrong: Fields.of(...draft.fields) } : {}
        return { because: inWords(end.failure), ...wrong }
      }
      const kept = end.kind === 'stored' && (await end.kept)
      return { entry: end.entry, kept }
    }
  }
}

/** The entry that a fetch has put into the store; undefined when it has put none there. */
export async function entryOf(found: FetchOutcome): Promise<Entry | undefined> {
  const come = await whatCame(found)
  return 'entry' in come && come.kept ? come.entry : undefined
}

function inWords(failure: Failure): string {
  return WrongContent.is(failure) ? otherThanSaid : failure.publicText
}

/** The key of the detached signature of a suite. */
export function signatureKey(at: string): string {
  return `${at}/Release.gpg`
}

/** A file that a client asked for, and that the origin does not have as a Release file names it. */
export interface UnavailableFile {
  readonly key: string
  /** The digest by which the client asked; undefined for a plain name. */
  readonly hex: string | undefined
  /** Whether the origin has no file of that name, so that it may never have had one. If false, it has other content. */
  readonly gone: boolean
}

/** The path of a file in the suite with this key; undefined when its key cannot be decoded. */
export function pathInSuite(at: string, key: string): string | undefined {
  return decodedUrl(key)?.slice(baseOf({ at }).length + 1)
}

/**
 * The path of a file in the suite of a Release file; undefined when the Release file does not name its digest for a file in the directory
 * of its key. Never rejects.
 */
export async function pathOf(
  { key, hex }: UnavailableFile,
  release: Entry,
  { store, log }: { readonly store: Pick<Store, 'content'>; readonly log: Logger },
): Promise<string | undefined> {
  if (hex === undefined) return pathInSuite(parentOf(release.key), key)
  try {
    const bytes = await bytesOf(store, release)
    if (!bytes.includes(hex) && !bytes.includes(hex.toUpperCase())) return undefined
    const base = decodedUrl(parentOf(release.key))
    const directory = decodedUrl(key)?.replace(/\/by-hash\/[^/]+\/[^/]+$/, '')
    return [...(readRelease(bytes).release?.files.values() ?? [])].find(
      ({ path, digests }) =>
        parentOf(`${base}/${path}`) === directory && Object.values(digests).includes(hex),
    )?.path
  } catch (error) {
    log.warn('a Release file cannot be read', { key: release.key, error })
    return undefined
  }
}

/** The bytes of a Release file; empty when it is too long. */
async function bytesOf(store: Pick<Store, 'content'>, release: Entry): Promise<Buffer> {
  const content = release.size > maxReleaseBytes ? undefined : await store.content(release)
  if (content?.kind === 'bytes') return content.bytes
  if (content?.kind !== 'stream') return Buffer.alloc(0)
  const pieces: Buffer[] = []
  for await (const piece of iterate(content.open())) pieces.push(Buffer.from(piece))
  return Buffer.concat(pieces)
}
