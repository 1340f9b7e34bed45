/**
 * Answers requests that name a build. It answers from the record of the build, or like any other request, and then records the answer.
 */
import { size } from '../../../figures.ts'
import { formatCacheStatus } from '../../../http/message/cache-status.ts'
import { Fields } from '../../../http/message/field.ts'
import type { Response } from '../../../http/message/message.ts'
import type { AnswerStep, GivenByStep, PlainAnswer } from '../../answer/answer-step.ts'
import { failedResponse, reasonPhrase, sentenceResponse } from '../../answer/errors.ts'
import {
  type AllowedRequest,
  cacheName,
  represent,
  storedRepresentation,
} from '../../answer/representation.ts'
import type { AdmittedFile } from '../../decide/decide.ts'
import type { MissReason } from '../../rfc9111/outcome.ts'
import type { Store } from '../../store/store.ts'
import type { Suites } from '../../suites/suites.ts'
import {
  type BuildDecision,
  type BuildRefusal,
  type GivenFile,
  type GivenStatus,
  keepingEntry,
  recordedUrl,
} from './build.ts'
import { isRecordedStatus } from './build-file.ts'
import type { BuildRecording, Builds } from './builds.ts'

interface BuildAnswerParts {
  readonly builds: Builds
  readonly store: Pick<Store, 'content' | 'has'>
  readonly suites: Pick<Suites, 'givenStored'>
}

/** Makes the step for requests that name a build. */
export function buildAnswers(parts: BuildAnswerParts): AnswerStep {
  const { builds, store } = parts
  return {
    decide: (name: string, { request, file }: AdmittedFile) => {
      const url = recordedUrl(file.asked)
      const found = builds.decide(name, url, request.client?.address)
      const isLost = found.use === 'file' && !store.has(found.file.digest)
      const decision = isLost ? notKept(name, url, found.file) : found
      return {
        given: givenBy(decision, name),
        remark: { question: 'Build', answer: `${name}, which records the answer` },
        answer: async (allowed, plain) => {
          const response = await answerInBuild({ name, url, decision, allowed, plain }, parts)
          return { ...response, facts: { ...response.facts, build: name } }
        },
      }
    },
  }
}

interface BuildRequest {
  readonly name: string
  readonly url: string
  readonly decision: BuildDecision
  readonly allowed: AllowedRequest
  readonly plain: PlainAnswer
}

function givenBy(decision: BuildDecision, name: string): GivenByStep | undefined {
  switch (decision.use) {
    case 'file': {
      const { size: bytes, digest } = decision.file
      const sentence = `is answered with what the build ${name} has recorded: ${size(bytes)}, SHA-256 ${digest} (recorded)`
      return { outcome: 'hit', because: 'recorded', sentence }
    }
    case 'status': {
      const sentence = `is answered ${decision.given.status}, as it was recorded`
      return { outcome: 'hit', because: 'recorded', sentence }
    }
    case 'refuse': {
      const { because } = decision
      const sentence = `is answered 409. ${decision.sentence} (${because})`
      return { outcome: 'failed', because, sentence }
    }
    case 'record':
      return undefined
  }
}

function answerInBuild(
  request: BuildRequest,
  parts: BuildAnswerParts,
): Response | Promise<Response> {
  const { name, url, decision, allowed } = request
  switch (decision.use) {
    case 'file':
      return recorded(request, decision.file, parts)
    case 'status':
      return recordedStatusResponse(allowed, decision.given)
    case 'refuse':
      return notInBuildResponse(allowed, decision)
    case 'record':
      return record(request, parts.builds.recording(name, url))
  }
}

async function recorded(
  { name, url, allowed }: BuildRequest,
  file: GivenFile,
  { builds, store, suites }: BuildAnswerParts,
): Promise<Response> {
  const entry = keepingEntry(file, allowed.now)
  if (await builds.hasContent(file)) {
    const representation = storedRepresentation(entry, 'recorded', allowed, store)
    const answer = await represent(allowed, representation)
    if (answer !== undefined) {
      const { key, archive } = allowed.file
      // The client will ask for files of this Release file next, and they may not be recorded yet.
      if (archive.kind === 'release' && builds.named(name)?.locked === undefined) {
        suites.givenStored(allowed.request.client, { ...entry, key })
      }
      return answer
    }
  }
  return notInBuildResponse(allowed, notKept(name, url, file))
}

type Refused = Extract<BuildDecision, { use: 'refuse' }>

function notKept(name: string, url: string, file: GivenFile): Refused {
  const sentence = `${url} is missing: the build ${name} has ${file.size} bytes with the SHA-256 ${file.digest}, and the store no longer has them.`
  return { use: 'refuse', because: 'not-kept' satisfies BuildRefusal, sentence }
}

/** The 409 for a file that a build does not have. The reason phrase has the sentence, because apt shows it. */
function notInBuildResponse(allowed: AllowedRequest, { because, sentence }: Refused): Response {
  const reason = reasonPhrase(sentence)
  return failedResponse(allowed, because, { status: 409, reason, sentence })
}

/** The answer with a status that a build recorded instead of a file. */
function recordedStatusResponse(
  { request, file }: AllowedRequest,
  { status, location }: GivenStatus,
): Response {
  const fields = Fields.of(
    ['Location', location],
    ['X-Cache', 'HIT'],
    ['Cache-Status', formatCacheStatus(cacheName, { hit: true, detail: 'recorded' })],
  )
  const facts = { outcome: 'hit', because: 'recorded', ...file.about } as const
  const sentence = `The build was answered ${status} when it was recorded.`
  return sentenceResponse(request, status, sentence, { fields, facts })
}

async function record(
  { allowed, plain }: BuildRequest,
  recording: BuildRecording | undefined,
): Promise<Response> {
  let response: Response
  try {
    response = await plain(recording)
  } catch (error) {
    recording?.failed('answering it failed')
    throw error
  }
  const { status, fields, facts } = response
  const because = String(facts?.['because'] ?? '')
  if (isRecordedStatus(status)) {
    recording?.answered({ status, location: fields.get('Location') })
  } else if (status >= 400 && status !== 412 && status !== 416) {
    recording?.failed(`it was answered ${status} (${because})`)
  } else if (unrecorded.has(because)) {
    recording?.failed(`it was passed through without being stored (${because})`)
  } else if (allowed.request.method === 'HEAD') {
    recording?.failed('it was asked for only with HEAD')
  }
  return response
}

/** The reasons for which a response is passed through. */
const unrecorded: ReadonlySet<string> = new Set([
  'authorization',
  'no-store',
  'passthrough',
  'own-fields',
] satisfies MissReason[])
