/**
 * Answers with a public document of the gateway itself, with a validator: the keys of the signed identity, the logo.
 */
import { createHash } from 'node:crypto'
import type { Seconds } from '../../async/clock.ts'
import { Fields } from '../../http/message/field.ts'
import { type Handler, noContent, type Request, type Response } from '../../http/message/message.ts'
import { evaluatePreconditions } from '../../http/message/precondition.ts'
import { textResponse, withoutContent } from '../../http/message/reply.ts'
import { methodNotAllowed } from '../../http/server/router.ts'

export interface OwnDocument {
  readonly type: string
  readonly bytes: Buffer
  /** Content-Security-Policy of the document when it is opened by itself. */
  readonly policy?: string
}

/** For how long it may be kept without asking again. */
const AGE: Seconds = 300

/** Answers whatever the method is; `current` is asked at every request. */
export function ownDocument(current: () => OwnDocument | undefined): Handler {
  return async request => {
    const document = current()
    if (document === undefined) return textResponse(404, 'not found')
    if (request.method === 'GET') return answer(request, document)
    if (request.method === 'HEAD') return withoutContent(answer(request, document))
    return methodNotAllowed(['GET', 'HEAD'])
  }
}

function answer(request: Request, { type, bytes, policy }: OwnDocument): Response {
  const opaque = createHash('sha256').update(bytes).digest('base64url').slice(0, 22)
  const fields = Fields.of(
    ['Content-Type', type],
    ['Cache-Control', `public, max-age=${AGE}`],
    ['ETag', `"${opaque}"`],
    ['X-Content-Type-Options', 'nosniff'],
    ['Content-Security-Policy', policy],
  )
  const validators = { etag: { opaque, weak: false }, lastModified: undefined }
  const outcome = evaluatePreconditions(request, { validators, role: 'origin' }, request.received)
  return outcome.proceed
    ? { status: 200, fields, content: { kind: 'bytes', bytes } }
    : { status: outcome.status, fields, content: noContent }
}
