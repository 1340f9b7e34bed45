/**
 * The jobs of a worker thread: verifying a Response, reading a logout message, reading metadata. They consist of plain values,
 * because they cross between threads.
 */
import { explainError } from '../../../errors.ts'
import {
  type LogoutMessage,
  type LogoutRules,
  readLogout,
} from '../../../saml/binding/logout-message.ts'
import { type MetadataRules, readIdpMetadata } from '../../../saml/metadata/idp-metadata.ts'
import {
  type MayDecrypt,
  type ResponseRules,
  verifyResponse,
} from '../../../saml/response/verify-response.ts'
import { decodeBase64 } from '../../../saml/xml/encoding.ts'

export type Job =
  /** The message comes in base64: a thread decodes what may be large. */
  | { readonly kind: 'response'; readonly encoded: string; readonly rules: ResponseRules }
  | { readonly kind: 'logout'; readonly bytes: Uint8Array; readonly rules: LogoutRules }
  | { readonly kind: 'metadata'; readonly bytes: Uint8Array; readonly rules: MetadataRules }

interface Results {
  readonly response: Awaited<ReturnType<typeof verifyResponse>>
  readonly logout: LogoutMessage
  readonly metadata: ReturnType<typeof readIdpMetadata>
}

export type ResultOf<J extends Job> = Results[J['kind']]

/** The question of a thread in the middle of a job, whether it may decrypt a message. The answer is true or false. */
export interface DecryptionQuestion {
  readonly encryptedKeys: readonly string[]
}

export type JobAnswer<Result> =
  | { readonly ok: true; readonly result: Result }
  /** This is a fault of ours, because no message should lead here. */
  | { readonly ok: false; readonly problem: string }

/** Does a job. Never throws. */
export async function runJob(
  job: Job,
  mayDecrypt: MayDecrypt,
): Promise<JobAnswer<Results[Job['kind']]>> {
  try {
    return { ok: true, result: await resultOf(job, mayDecrypt) }
  } catch (error) {
    return { ok: false, problem: explainError(error) }
  }
}

async function resultOf(job: Job, mayDecrypt: MayDecrypt): Promise<Results[Job['kind']]> {
  switch (job.kind) {
    case 'response': {
      const bytes = decodeBase64(job.encoded)
      if (bytes !== undefined) return verifyResponse(bytes, job.rules, mayDecrypt)
      return { ok: false, because: 'base64', problem: 'the message is not base64' }
    }
    case 'logout':
      return readLogout(job.bytes, job.rules)
    case 'metadata':
      return readIdpMetadata(job.bytes, job.rules)
  }
}
