/**
 * A step around the answer to a request for a file. The steps are fixed when the service starts.
 */
import type { Response } from '../../http/message/message.ts'
import type { AllowedRequest } from './representation.ts'

/** Answers a request that the policy has admitted. */
export type Answering = (allowed: AllowedRequest) => Response | Promise<Response>

/** Answers the request itself, or lets `next` answer it, and may look at that answer. */
export type AnswerStep = (allowed: AllowedRequest, next: Answering) => Response | Promise<Response>
