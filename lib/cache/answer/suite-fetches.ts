/**
 * Fetches the files that a new Release file names, in the order in which clients need them and a few at a time. It fetches each by its
 * digests where the archive offers that, else by its name. It also asks for the detached signatures of Release files, which can change
 * without the Release file.
 */
import { explainError, type Failure } from '../../errors.ts'
import { Fields } from '../../http/message/field.ts'
import { parseUri } from '../../http/message/target.ts'
import { classify, parentOf } from '../archive/path.ts'
import type { Fetcher } from '../fetch/fetch.ts'
import { type FetchOutcome, type WantedFile, WrongContent } from '../fetch/found.ts'
import { isGone } from '../fetch/revalidation.ts'
import type { Rules } from '../policy/policy.ts'
import { archiveOf } from '../policy/routing.ts'
import type { SuitePointer } from '../shared/shared-store.ts'
import { sharedFile } from '../shared/suites/shared-file.ts'
import type { Entry } from '../store/entry.ts'
import type { Store } from '../store/store.ts'
import { byHashPath, byHashPaths, keyIn, type ListedContent } from '../suites/generation.ts'
import type { Suites } from '../suites/suites.ts'
import type { SuitesBehind } from './suites-behind.ts'

interface SuiteFetchesParts {
  readonly rules: () => Rules
  readonly fetcher: Fetcher
  readonly store: Pick<Store, 'put' | 'remove'>
  /** The memory of files whose content was not what a Release file names. */
  readonly behind: SuitesBehind
}

/** The number of files of a new generation that are fetched at the same time. */
const atOnce = 4

/** The end of the keys of files that are about to replace others. No target has such a key. */
export const incomingSuffix = '#incoming'

/** A file of a new generation that is being fetched. `come` resolves to '' once it has arrived, else to the reason. It never rejects. */
export interface ListedFetch {
  readonly listed: ListedContent
  readonly come: Promise<string>
}

export class SuiteFetches {
  readonly #parts: SuiteFetchesParts
  /** The files of new generations whose fetch has not begun, by the keys of their suites. */
  readonly #queues = new Map<string, readonly unknown[]>()

  constructor(parts: SuiteFetchesParts) {
    this.#parts = parts
  }

  /**
   * Fetches files in their order, a few at a time, so that connections to a slow origin remain for clients. It also fetches those for which
   * the update does not wait any more. A later call for the same suite replaces the files whose fetch has not begun.
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
        const fetched = this.#fetchListed(at, next.listed, byHash)
        next.settle(await fetched.then(because => because ?? '', explainError))
      }
      for (const { settle } of queue.splice(0)) settle('another update of the suite has begun')
      if (this.#queues.get(at) === queue) this.#queues.delete(at)
    }
    for (let n = 0; n < atOnce; n += 1) void work()
    return fetches
  }

  /** Fetches a file by its digests, else by its name. Resolves to the reason when it has not arrived, else to undefined. */
  async #fetchListed(
    at: string,
    listed: ListedContent,
    byHash: boolean,
  ): Promise<string | undefined> {
    const reasons = new Set<string>()
    for (const path of [...(byHash ? byHashPaths(listed) : []), listed.path]) {
      const because = await this.fetchOne(at, listed, path)
      if (because === undefined) return undefined
      reasons.add(because)
    }
    return [...reasons].join('; ')
  }

  /**
   * Fetches a file by one of its names, and stores it under its name by SHA-256. Resolves to the reason when it has not arrived, else to
   * undefined. A file that has arrived but may not be stored counts as arrived.
   */
  async fetchOne(at: string, listed: ListedContent, path: string): Promise<string | undefined> {
    const { fetcher, store, rules, behind } = this.#parts
    const { size, digest } = listed
    const [key, own] = [keyIn(at, path), keyIn(at, byHashPath(listed))]
    if (key === undefined || own === undefined) return unfetchable
    const uri = parseUri(key)
    if ('problem' in uri) return unfetchable
    const archive = classify(uri.path)
    const name = archive.digest?.hex ?? digest
    // A claim is left out for a name by another digest, because with a claim only the SHA-256 would be checked.
    const claim = name === digest ? { size, digest, suite: at } : undefined
    const staged = path === listed.path ? `${key}${incomingSuffix}` : key
    // With several origins, each server has its own validators.
    const several = (archiveOf(uri, rules().config.archives)?.archive.origins.length ?? 0) > 1
    // A date alone does not show that the file is still wrong, because a mirror that copies it again keeps the date of the original.
    const before = several ? undefined : behind.wrong(key, digest)
    const wrong = before?.has('ETag') ? before : undefined
    const wanted = { key: staged, uri, archive, claim, stored: undefined, insist: true }
    const found = await fetcher.fetch({ ...wanted, unless: wrong }).found
    if (wrong !== undefined && found.kind === 'answered' && found.status === 304)
      return otherThanSaid
    const come = await whatCame(found)
    if ('because' in come) {
      if (come.wrong !== undefined) behind.noteWrong(key, digest, come.wrong)
      return come.because
    }
    const { entry } = come
    if (entry.digest !== digest || entry.size !== size) {
      behind.noteWrong(key, digest, Fields.of(...entry.fields))
      return otherThanSaid
    }
    const named = { ...entry, key: own, verified: { by: 'name' } } as const
    if (staged !== own && come.kept) store.put(named)
    if (staged !== key) store.remove(staged)
    return undefined
  }
}

const unfetchable = 'there is no URL for its name'
const otherThanSaid = 'its content is not what the Release file says'

/** The entry that a fetch has brought, else the reason why it failed, with the fields of content that was wrong. */
async function whatCame(
  found: FetchOutcome,
): Promise<
  | { readonly entry: Entry; readonly kept: boolean }
  | { readonly because: string; readonly wrong?: Fields }
> {
  switch (found.kind) {
    case 'validated':
      return { entry: found.entry, kept: true }
    case 'answered':
      return { because: `the origin answers ${found.status}` }
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
  if (found.kind === 'validated') return found.entry
  const settled = found.kind === 'filling' ? await found.filling.settled : found
  return settled.kind === 'stored' && (await settled.kept) ? settled.entry : undefined
}

function inWords(failure: Failure): string {
  return WrongContent.is(failure) ? otherThanSaid : failure.publicText
}

interface SuiteSignaturesParts {
  readonly suites: Pick<Suites, 'generationOf' | 'signatureOf' | 'prepare'>
  readonly fetcher: Fetcher
  readonly store: Pick<Store, 'get' | 'put' | 'remove'>
}

export class SuiteSignatures {
  readonly #parts: SuiteSignaturesParts

  constructor(parts: SuiteSignaturesParts) {
    this.#parts = parts
  }

  /**
   * Asks for the signature of a Release file that the origin has confirmed. An archive can sign an unchanged file again, when the old
   * signature expires or with another key. The new signature is stored when it may be adopted with this Release file. Returns false when
   * it belongs to another Release file, which the origin has or is about to have.
   */
  async fits(wanted: WantedFile, entry: Entry): Promise<boolean> {
    const { suites, store } = this.#parts
    const { key, digest, size } = entry
    if (!key.endsWith('/Release') || suites.generationOf(entry) === undefined) return true
    const at = parentOf(key)
    try {
      const { signature } = (await this.now(at, wanted)) ?? {}
      if (signature === undefined) return true
      const signedBy = { digest: signature.digest, size: signature.size }
      const fits =
        signature.digest === suites.signatureOf(entry)?.digest ||
        (await suites.prepare(at, { name: 'Release', digest, size, signedBy })) !== undefined
      if (fits) store.put({ ...signature, key: signatureKey(at) })
      return fits
    } finally {
      store.remove(`${signatureKey(at)}${incomingSuffix}`)
    }
  }

  /** The detached signature that the origin has now, if it has one. Undefined when the origin does not say whether it has one. */
  async now(
    at: string,
    { uri }: WantedFile,
    pointer?: SuitePointer,
  ): Promise<{ readonly signature?: Entry } | undefined> {
    const { fetcher, store } = this.#parts
    const key = signatureKey(at)
    const [path, stored] = [`${uri.path}.gpg`, await store.get(key)]
    const plain = { uri: { ...uri, path }, stored, insist: true, archive: classify(path) }
    const wanted = pointer === undefined ? plain : sharedFile(pointer, key)
    if (wanted === undefined) return {}
    const found = await fetcher.fetch({ ...wanted, key: `${key}${incomingSuffix}` }).found
    if (found.kind === 'answered') return isGone(found.status) ? {} : undefined
    const signature = await entryOf(found)
    return signature && { signature }
  }
}

/** The key of the detached signature of a suite. */
export function signatureKey(at: string): string {
  return `${at}/Release.gpg`
}
