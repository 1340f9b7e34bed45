/**
 * What the verifying thread can be asked, and its answers. Values only, since they cross between threads.
 */
import { explainError } from '../../../errors.ts'
import { type LogoutMessage, type LogoutRules, readLogout } from '../binding/logout-message.ts'
import {
  type ResponseRules,
  type ResponseVerdict,
  verifyResponse,
} from '../core/verify-response.ts'

export type VerifierJob =
  | { readonly kind: 'response'; readonly bytes: Uint8Array; readonly rules: ResponseRules }
  | {
      readonly kind: 'logout'
      readonly bytes: Uint8Array
      readonly rules: LogoutRules
    }

export type VerifierResult =
  | { readonly kind: 'response'; readonly verdict: ResponseVerdict }
  | { readonly kind: 'logout'; readonly message: LogoutMessage }
  /** A fault of ours: nothing in a message should lead here. */
  | { readonly kind: 'crashed'; readonly problem: string }

/** Does a job. Never throws. */
export async function runJob(job: VerifierJob): Promise<VerifierResult> {
  try {
    switch (job.kind) {
      case 'response':
        return { kind: 'response', verdict: await verifyResponse(job.bytes, job.rules) }
      case 'logout':
        return { kind: 'logout', message: readLogout(job.bytes, job.rules) }
    }
  } catch (error) {
    return { kind: 'crashed', problem: explainError(error) }
  }
}
