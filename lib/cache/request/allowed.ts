/**
 * A request the policy admits, with everything its answer needs: what the pipeline knows when it asks the answerer.
 */
import type { RequestDirectives } from '../../http/message/cache-control.ts'
import type { Request } from '../../http/message/message.ts'
import type { TargetUri } from '../../http/message/target.ts'
import type { About, AnswerTools } from '../answer/representation.ts'
import type { ArchivePath } from '../archive/path.ts'
import type { Claim } from '../suites/suites.ts'

/** A request that may be answered, with its target and its key. */
export interface Allowed {
  readonly request: Request
  /** The target the origin is asked for. */
  readonly uri: TargetUri
  readonly key: string
  readonly archive: ArchivePath
  /** What an adopted index says the content must be. */
  readonly claim?: Claim | undefined
  readonly directives: RequestDirectives
  readonly about: About
  readonly tools: AnswerTools
}
