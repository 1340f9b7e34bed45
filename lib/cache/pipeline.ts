/**
 * Takes a request through its steps (docs/cachesvc-request.md). The order is the security argument: the store is read after
 * the policy has admitted the request, a request with credentials is not answered from the store, and the network comes last.
 */

import { continueWhenReady } from '../async/ready.ts'
import type { OriginClient } from '../http/client/client.ts'
import { requestDirectives } from '../http/message/cache-control.ts'
import type { Handler, Request, Response } from '../http/message/message.ts'
import { methodNotAllowed } from '../http/server/router.ts'
import type { AnswerStep } from './answer/answer-step.ts'
import {
  failedResponse,
  originStatusResponse,
  reasonPhrase,
  refusedResponse,
  tooManyConnectionsResponse,
  withoutFileResponse,
  withoutTargetResponse,
} from './answer/errors.ts'
import { passedResponse } from './answer/from-origin.ts'
import type { AllowedRequest, AnswerNotes } from './answer/representation.ts'
import type { AnswerParts } from './answering.ts'
import {
  type AdmittedFile,
  approach,
  type Decision,
  type DecisionParts,
  decide,
  type FileDecision,
  fileOfItsDay,
  type RefuseFile,
} from './decide/decide.ts'
import type { SentCredentials } from './decide/sent-credentials.ts'
import { buildOf, rememberedDestinations, sandboxedResponse } from './request/destination.ts'
import type { Store } from './store/store.ts'

interface PipelineParts
  extends Required<Omit<DecisionParts, 'suites' | 'store'>>,
    Pick<AnswerParts, 'answerer' | 'suites' | 'settleRelease'> {
  /** Answers requests that name a build; undefined when nothing here records builds. */
  readonly around: AnswerStep | undefined
  /** Refuses single files, whichever client asks; undefined when nothing here does. */
  readonly refuse: RefuseFile | undefined
  readonly operations: (request: Request, path: string, query?: string) => Promise<Response>
  readonly store: Store
  readonly origin: OriginClient
  readonly sentCredentials: SentCredentials
  /** The name of this proxy in Via, by which loops are detected. */
  readonly pseudonym: string
  readonly onFetched: (bytes: number) => void
}

/** The handler of all requests but CONNECT, which has its own handler (answer/connect.ts). */
export function pipeline(parts: PipelineParts): Handler {
  const destinationOf = rememberedDestinations()
  return request => {
    const rules = parts.rules()

    // 1 to 3. What is asked for, and may this client have it?
    const first = approach(request, destinationOf(request, rules), parts)
    if (first.kind === 'refuse') return withoutTargetResponse(first)
    if (first.kind === 'operations') return parts.operations(request, first.path, first.query)
    if (first.kind === 'method') return methodNotAllowed(first.allowed)
    if (first.kind === 'denied') return refusedResponse(request, first.refusal)
    if (first.file.underOurAddress) parts.sentCredentials.note(request, first.file)

    // Does this client have no more connections than it may have?
    const { clientPlace } = request
    if (clientPlace === undefined) return ofItsDay(request, first, parts)
    return continueWhenReady(clientPlace.admits(), admitted =>
      admitted
        ? ofItsDay(request, first, parts)
        : tooManyConnectionsResponse(request, rules.config.limits.perClient.connections),
    )
  }
}

/** The answer to a request for a file. For a file as of a day, this first finds the file that the name stood for on that day. */
function ofItsDay(
  request: Request,
  admitted: AdmittedFile,
  parts: PipelineParts,
): Response | Promise<Response> {
  const { file } = admitted
  return continueWhenReady(fileOfItsDay(file, parts.suites), found =>
    'sentence' in found
      ? failedResponse({ request, file }, 'no-snapshot', {
          status: 404,
          sentence: found.sentence,
          reason: reasonPhrase(found.sentence),
        })
      : unlessRefused(request, found === file ? admitted : { ...admitted, file: found }, parts),
  )
}

/** The answer to a request for a file, unless the file is refused, whether it is stored or not. */
function unlessRefused(
  request: Request,
  admitted: AdmittedFile,
  parts: PipelineParts,
): Response | Promise<Response> {
  return continueWhenReady(parts.refuse?.(admitted.file), refusal =>
    refusal === undefined ? answered(request, admitted, parts) : refusedResponse(request, refusal),
  )
}

/** The answer to a request for a file, through the build that it belongs to, which may have recorded it. */
function answered(
  request: Request,
  admitted: AdmittedFile,
  parts: PipelineParts,
): Response | Promise<Response> {
  const { file } = admitted
  const build = buildOf(request, file.build)
  const { around } = parts
  const response =
    build === undefined || around === undefined
      ? fromArchive(request, admitted, parts)
      : around
          .decide(build, admitted)
          .answer(allowedRequest(request, admitted, parts), notes =>
            fromArchive(request, admitted, parts, notes),
          )
  return file.underOurAddress
    ? continueWhenReady(response, ready => sandboxedResponse(ready, request.target, file.uri))
    : response
}

/** The answer from an archive: from the store or from its origin. */
function fromArchive(
  request: Request,
  admitted: AdmittedFile,
  parts: PipelineParts,
  notes?: AnswerNotes,
): Response | Promise<Response> {
  const { key, archive } = admitted.file
  // A Release file is put in its place before the look-up.
  const placed = archive.kind === 'release' ? parts.settleRelease(key) : undefined
  return continueWhenReady(placed, () =>
    // 4 and 5. What is stored, what must it be, and may it be used?
    continueWhenReady(decide(admitted, parts), made => {
      const allowed = allowedRequest(request, admitted, parts, made, notes)
      if (made.must !== undefined)
        parts.suites.askedByClient({ key, archive, client: request.client }, made.must)
      // The store keeps what an index has proved of the file, whatever is decided.
      parts.answerer.keepProven(made.proven, made.stored)

      // 6. The decision is carried out.
      return carryOut(made.decision, allowed, parts)
    }),
  )
}

function allowedRequest(
  request: Request,
  { file, admission }: AdmittedFile,
  { pseudonym }: PipelineParts,
  made?: FileDecision,
  notes?: AnswerNotes,
): AllowedRequest {
  return {
    request,
    file,
    trusted: admission.trusted,
    directives: made?.directives ?? requestDirectives(request.fields),
    claim: made?.must?.claim,
    awaited: made?.must?.awaited,
    notes,
    now: request.received,
    via: `1.1 ${pseudonym}`,
  }
}

function carryOut(
  decision: Decision,
  allowed: AllowedRequest,
  parts: PipelineParts,
): Response | Promise<Response> {
  const { answerer } = parts
  switch (decision.use) {
    case 'store':
      return answerer.fromStore(allowed, decision.entry, decision.because)
    case 'revalidate':
      return answerer.revalidated(allowed, decision)
    case 'fetch':
    case 'withhold':
      return answerer.fetched(allowed, decision)
    case 'negative':
      return originStatusResponse(allowed, { status: 404, because: decision.because })
    case 'fail':
      return withoutFileResponse(allowed, decision.because)
    case 'pass':
      return passedResponse(allowed, decision.because, parts)
  }
}
