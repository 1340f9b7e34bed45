/**
 * The file that a fetch is for: where it is, what is stored of it, and which content an index or its name promises.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { Fields } from '../../http/message/field.ts'
import { isLastModifiedStrong, validatorsOf } from '../../http/message/precondition.ts'
import { parseUri } from '../../http/message/target.ts'
import { type ArchivePath, classify } from '../archive/path.ts'
import type { ExpectedContent } from '../store/content/expectation.ts'
import { type EntryProof, neverConfirmed } from '../store/entry.ts'
import type { Claim, NamedContent } from '../suites/generation.ts'
import type { Question } from './mirrors.ts'

/** A claim. It has no generation when it comes from one that is not adopted yet. */
type PlainClaim = Omit<Claim, 'generation'> & Partial<Pick<Claim, 'generation'>>

export interface WantedFile extends Pick<Question, 'uri' | 'stored' | 'via'> {
  readonly key: string
  readonly archive: ArchivePath
  /** The content that an index names for the file. */
  readonly claim?: PlainClaim | undefined
  /** The promise of a claim, while an index that may name the file is still being read. Then the file is not stored. Never rejects. */
  readonly awaited?: Promise<Claim | undefined> | undefined
  /** The fields of wrong content that the origin sent before. They make the request conditional, so that the origin can answer 304. */
  readonly unless?: Fields | undefined
  /** Whether the fetch fails, and asks no origin, when the shared store does not have the file. */
  readonly onlyNear?: boolean | undefined
  /** Whether the origin itself must answer, not a cache on the way. */
  readonly insist: boolean
}

/** The file with this key; undefined when the key is no URL. */
export function fileUnder(key: string): Pick<WantedFile, 'key' | 'uri' | 'archive'> | undefined {
  const uri = parseUri(key)
  return 'problem' in uri ? undefined : { key, uri, archive: classify(uri.path) }
}

/**
 * RFC 9111 section 4.3.1: the request has every validator that the origin itself gave. A date alone is left out while it is weak: the
 * file may have changed later in the same second, and the origin, which knows whole seconds, would confirm a content that it has
 * replaced (RFC 9110 section 8.8.2.2).
 */
export function conditionalFields(wanted: WantedFile, now: Milliseconds): Fields {
  const superseded = isSuperseded(wanted)
  const insist = wanted.insist || superseded ? 'max-age=0' : undefined
  const stored = superseded ? Fields.empty : Fields.of(...(wanted.stored?.fields ?? []))
  const known = wanted.unless ?? stored
  const [etag, lastModified] = [known.get('ETag'), known.get('Last-Modified')]
  const dated = etag !== undefined || isLastModifiedStrong(validatorsOf(known, now))
  return Fields.of(
    ['Cache-Control', insist],
    ['If-None-Match', etag],
    ['If-Modified-Since', dated ? lastModified : undefined],
  )
}

/** Whether the stored file has other content than an index names. Then the origin need not confirm it. */
export function isSuperseded({ stored, claim }: Pick<WantedFile, 'stored' | 'claim'>): boolean {
  return stored !== undefined && claim !== undefined && stored.digest !== claim.digest
}

/**
 * Whether the stored file is a version of a package that an index has named. An archive that has removed it has no other content for
 * this name, and clients that have not updated since still want it. It does not count when a client or an operator insists on the
 * origin's answer.
 */
export function isOldVersion({ stored, archive, insist }: WantedFile): boolean {
  if (archive.kind !== 'pool' || insist || stored?.validated === neverConfirmed) return false
  return stored?.verified?.by === 'index'
}

/** The parts of a wanted file that say what its content must be. */
export type PromisedFile = Pick<WantedFile, 'archive' | 'claim'>

/** The content that an index or the name of a file promises; undefined when neither does. */
export function expectedContent({ archive, claim }: PromisedFile): ExpectedContent | undefined {
  if (claim === undefined) return archive.digest && { digest: archive.digest }
  const { others, contradicting } = claim
  return {
    ...promiseOf(claim),
    ...(others && { others: others.map(promiseOf) }),
    ...(contradicting && { contradicted: true }),
  }
}

function promiseOf({ size, digest, by }: NamedContent) {
  return { size, digest: { algorithm: by ?? ('sha256' as const), hex: digest } }
}

/** A text of all contents that a claim allows. Two claims with the same text are fulfilled by the same contents. */
export function claimText(claim: PlainClaim | undefined): string | undefined {
  return (
    claim &&
    [claim, ...(claim.others ?? [])]
      .map(({ digest }) => digest)
      .sort()
      .join(' ')
  )
}

/** A text that differs when other content is expected. */
export function expectedText({ archive, claim }: PromisedFile): string | undefined {
  return claimText(claim) ?? archive.digest?.hex
}

/** The expected content when a download begins. An awaited claim can still change it. */
export function expectedAtStart(wanted: WantedFile): ExpectedContent | undefined {
  return wanted.awaited === undefined ? expectedContent(wanted) : { later: true }
}

/** The proof for the entry, once the content has proved to be the expected one. */
export function proofOf({ archive, claim }: PromisedFile): EntryProof | undefined {
  if (claim === undefined) return archive.digest && { by: 'name' }
  const { by: signer, is } = claim.generation?.signature ?? {}
  const signed = is === 'good' && signer !== undefined && { signer }
  return { by: 'index', suite: claim.suite, ...signed }
}
