/**
 * The keys of the signed identity as backends fetch them: on the public listener and on that of the operator, at one path.
 */
import { createHash } from 'node:crypto'
import { Fields } from '../../http/message/field.ts'
import { noContent, type Request, type Response } from '../../http/message/message.ts'
import { evaluatePreconditions } from '../../http/message/precondition.ts'
import { withoutContent } from '../../http/message/reply.ts'
import { methodNotAllowed } from '../../http/server/router.ts'
import { type IdentityKey, keySet, keySetAge } from './identity-key.ts'

/** No application has anything below `/__authproxy`; the name of the file is the one libraries expect. */
export const keySetPath = '/__authproxy/jwks.json'

/** Answers the path of the key set, methods that are not for it too; `keys` is asked at every request. */
export function keySetHandler(
  keys: () => readonly IdentityKey[],
): (request: Request) => Promise<Response> {
  return async request => {
    if (request.method === 'GET') return answer(request, keys())
    if (request.method === 'HEAD') return withoutContent(answer(request, keys()))
    return methodNotAllowed(['GET', 'HEAD'])
  }
}

function answer(request: Request, keys: readonly IdentityKey[]): Response {
  const bytes = Buffer.from(keySet(keys))
  const opaque = createHash('sha256').update(bytes).digest('base64url').slice(0, 22)
  const fields = Fields.of(
    ['Content-Type', 'application/jwk-set+json'],
    ['Cache-Control', `public, max-age=${keySetAge}`],
    ['ETag', `"${opaque}"`],
    ['X-Content-Type-Options', 'nosniff'],
  )
  const validators = { etag: { opaque, weak: false }, lastModified: undefined }
  const outcome = evaluatePreconditions(request, { validators, role: 'origin' }, request.received)
  return outcome.proceed
    ? { status: 200, fields, content: { kind: 'bytes', bytes } }
    : { status: outcome.status, fields, content: noContent }
}
