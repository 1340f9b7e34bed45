/**
 * A step around the answers of archives: it gives an answer of its own instead of the archive's, or notes which entry the client gets.
 */
import type { Response } from '../../http/message/message.ts'
import type { AdmittedFile } from '../decide/decide.ts'
import type { AllowedRequest, AnswerNotes } from './representation.ts'

export interface AnswerStep {
  /** Decides about a request that names this step, for example a build. Changes nothing. */
  decide(name: string, admitted: AdmittedFile): StepDecision
}

/** What a step does with a request. */
export interface StepDecision {
  /** What the client gets from the step; undefined when the archive answers. */
  readonly given: GivenByStep | undefined
  /** What `explain` says of a step that lets the archive answer. */
  readonly remark: { readonly question: string; readonly answer: string }
  /** Carries the decision out. `plain` answers as without the step. */
  answer(allowed: AllowedRequest, plain: PlainAnswer): Promise<Response>
}

export interface GivenByStep {
  readonly outcome: 'hit' | 'failed'
  readonly because: string
  /** What the client gets, as the end of the sentence "A request now ...". */
  readonly sentence: string
}

export type PlainAnswer = (notes?: AnswerNotes) => Response | Promise<Response>
