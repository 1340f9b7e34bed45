/**
 * A question to the origins of an archive about one file, and what they answer.
 */
import type { Lifetime } from '../../async/lifetime.ts'
import type { OriginResponse } from '../../http/client/client.ts'
import { formatAuthority, type TargetUri } from '../../http/message/target.ts'
import type { NearPlace } from '../rfc9111/outcome.ts'
import type { Entry } from '../store/entry.ts'

/** A question to the origins of an archive about one file. */
export interface Question {
  readonly uri: TargetUri
  /** The stored entry, about which the origin is asked; undefined when the store does not have the file. */
  readonly stored: Entry | undefined
  /** The proxies that the client's request has passed, in the form of `viaChain`. */
  readonly via?: string | undefined
  /** The origins that are not asked, by `originName`. */
  readonly except?: ReadonlySet<string> | undefined
  readonly lifetime: Lifetime
}

export interface Answer {
  readonly response: OriginResponse
  readonly place: TargetUri
  /** The place that answered, at the end of the redirects. */
  readonly source: TargetUri
  /** Whether other origins have this archive too. */
  readonly others: boolean
  /** False for a 404 while another origin failed, because another question may find the file. */
  readonly certain: boolean
  /** The source of an answer from another node or the shared store. `place` is then the origin, which was not asked. */
  readonly near?: NearPlace | undefined
}

/** The name of an origin in `Question.except`. */
export function originName(place: TargetUri): string {
  return formatAuthority(place)
}
