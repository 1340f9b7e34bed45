/**
 * What the thread that reads metadata is asked, and its answer: parsing, and the signature where one is demanded. Values only,
 * since they cross between threads.
 */

import { refusedBy } from '../core/message.ts'
import { verifySignature } from '../core/signature.ts'
import { type IdpMetadata, parseIdpMetadata } from '../metadata/idp-metadata.ts'

export interface MetadataJob {
  readonly bytes: Uint8Array
  /** The IdP meant, where a document holds several. */
  readonly entityId: string | undefined
  /** Certificates in PEM, one of which has to have signed the document; undefined: nobody has to. */
  readonly certificates: readonly string[] | undefined
  readonly allowSha1: boolean
}

export type MetadataResult =
  | { readonly ok: true; readonly idp: IdpMetadata }
  /** `problem` is the end of a sentence that begins with where the document came from. */
  | { readonly ok: false; readonly problem: string }

/** Does a job. */
export function readMetadata(job: MetadataJob): MetadataResult {
  const { bytes, entityId, certificates, allowSha1 } = job
  const parsed = parseIdpMetadata(bytes, entityId)
  if (!parsed.ok) return { ok: false, problem: `is of no use: ${parsed.problem}` }
  if (certificates === undefined) return { ok: true, idp: parsed.idp }
  try {
    verifySignature(parsed, parsed.root, { certificates, allowSha1 })
    return { ok: true, idp: parsed.idp }
  } catch (error) {
    return { ok: false, problem: `is not to be trusted: ${refusedBy(error).problem}` }
  }
}
