/**
 * Answers requests that name a build. It answers from the record of the build, or like any other request, and then records the answer.
 */
import type { Response } from '../../http/message/message.ts'
import { type GivenFile, keepingEntry, recordedUrl } from '../features/builds/build.ts'
import { isRecordedStatus } from '../features/builds/build-file.ts'
import type { BuildRecording, Builds } from '../features/builds/builds.ts'
import type { MissReason } from '../rfc9111/outcome.ts'
import type { Store } from '../store/store.ts'
import type { Suites } from '../suites/suites.ts'
import { notInBuildResponse, recordedStatusResponse } from './errors.ts'
import { type AllowedRequest, represent, storedRepresentation } from './representation.ts'

interface BuildAnswerParts {
  readonly builds: Builds
  readonly store: Pick<Store, 'content'>
  readonly suites: Pick<Suites, 'givenStored'>
}

interface BuildRequest {
  readonly name: string
  readonly allowed: AllowedRequest
  /** Answers like without a build, and gives the recording the entry that the client gets. */
  readonly plain: (allowed: AllowedRequest) => Response | Promise<Response>
}

/** The answer to a request within a build. */
export async function answerInBuild(
  request: BuildRequest,
  parts: BuildAnswerParts,
): Promise<Response> {
  const { name, allowed } = request
  const url = recordedUrl(allowed.file.asked)
  const decision = parts.builds.decide(name, url, allowed.request.client.address)
  const answered = async (): Promise<Response> => {
    switch (decision.use) {
      case 'file':
        return recorded(request, decision.file, parts)
      case 'status':
        return recordedStatusResponse(allowed, decision.given)
      case 'refuse':
        return notInBuildResponse(allowed, decision.because, decision.sentence)
      case 'record':
        return record(request, parts.builds.recording(name, url))
    }
  }
  const response = await answered()
  return { ...response, facts: { ...response.facts, build: name } }
}

async function recorded(
  { name, allowed }: BuildRequest,
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
  const url = recordedUrl(allowed.file.asked)
  const sentence = `${url} is missing: the build ${name} has ${file.size} bytes with the SHA-256 ${file.digest}, and the store does not have them any more.`
  return notInBuildResponse(allowed, 'not-kept', sentence)
}

async function record(
  { allowed, plain }: BuildRequest,
  recording: BuildRecording | undefined,
): Promise<Response> {
  let response: Response
  try {
    response = await plain({ ...allowed, recording })
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
    recording?.failed('it was asked for with HEAD alone')
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
