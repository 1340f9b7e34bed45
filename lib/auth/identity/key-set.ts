/**
 * Publishes the keys of the signed identity (RFC 7517).
 *
 * # Facts
 * - Backends keep the set they have fetched, and many fetch it again only when it has aged. So a new key is published for a
 *   while (twice AGE) before it signs (keys/dynamic-config.ts), and an old one for longer than a token of it can live.
 */
import { createHash, createPublicKey } from 'node:crypto'
import type { Seconds } from '../../async/clock.ts'
import { Fields } from '../../http/message/field.ts'
import { type Handler, noContent, type Request, type Response } from '../../http/message/message.ts'
import { evaluatePreconditions } from '../../http/message/precondition.ts'
import { withoutContent } from '../../http/message/reply.ts'
import { methodNotAllowed } from '../../http/server/router.ts'
import type { IdentityKey } from '../keys/dynamic-config.ts'

/** No application has anything below `/__authproxy`; the name of the file is the one libraries expect. */
export const keySetPath = '/__authproxy/jwks.json'

/** For how long a backend may keep the set without asking again. */
const AGE: Seconds = 300

/** Answers the path of the key set, whatever the method; `keys` is asked at every request. */
export function keySetHandler(keys: () => readonly IdentityKey[]): Handler {
  return async request => {
    if (request.method === 'GET') return answer(request, keys())
    if (request.method === 'HEAD') return withoutContent(answer(request, keys()))
    return methodNotAllowed(['GET', 'HEAD'])
  }
}

function answer(request: Request, keys: readonly IdentityKey[]): Response {
  const bytes = Buffer.from(JSON.stringify({ keys: keys.map(publicHalf) }))
  const opaque = createHash('sha256').update(bytes).digest('base64url').slice(0, 22)
  const fields = Fields.of(
    ['Content-Type', 'application/jwk-set+json'],
    ['Cache-Control', `public, max-age=${AGE}`],
    ['ETag', `"${opaque}"`],
    ['X-Content-Type-Options', 'nosniff'],
  )
  const validators = { etag: { opaque, weak: false }, lastModified: undefined }
  const outcome = evaluatePreconditions(request, { validators, role: 'origin' }, request.received)
  return outcome.proceed
    ? { status: 200, fields, content: { kind: 'bytes', bytes } }
    : { status: outcome.status, fields, content: noContent }
}

function publicHalf({ kid, privateKey }: IdentityKey): object {
  const { kty, crv, x, y } = createPublicKey(privateKey).export({ format: 'jwk' })
  return { kty, crv, x, y, kid, use: 'sig', alg: 'ES256' }
}
