/**
 * Asks for the detached signatures of Release files, which change together with them, and alone.
 */
import { classify, parentOf } from '../archive/path.ts'
import type { Fetcher } from '../fetch/fetch.ts'
import type { WantedFile } from '../fetch/found.ts'
import { isGone } from '../fetch/revalidation.ts'
import type { SuitePointer } from '../shared/shared-store.ts'
import { sharedFile } from '../shared/suites/shared-file.ts'
import type { Entry } from '../store/entry.ts'
import type { Store } from '../store/store.ts'
import type { Suites } from '../suites/suites.ts'
import { entryOf, incomingSuffix } from './suite-fetches.ts'

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
   * Asks for the signature of a Release file that the origin has confirmed. An archive may sign it anew without changing it: when the
   * old signature expires, or with another key. The new signature is taken when it may be adopted with this Release file. False when it
   * belongs to another Release file, which is the next, or one that the origin has already in the place of this.
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

  /** The detached signature that the origin has now, if it has one; undefined when it does not say. */
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
