/**
 * Answers with a public document of the gateway itself, with a validator: the keys of the signed identity (RFC 7517), the logo,
 * the script for pages of the application, the metadata of the service provider.
 *
 * # Facts
 * - Backends keep the set of keys they have fetched, and many fetch it again only when it has aged. So a new key is published
 *   for a while (twice the time a document may be kept) before it signs (keys/dynamic-config.ts), and an old one for longer than a
 *   token of it can live.
 */
import { createHash, createPublicKey } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Seconds } from '../../async/clock.ts'
import { Fields } from '../../http/message/field.ts'
import { type Handler, noContent, type Request, type Response } from '../../http/message/message.ts'
import { statusByPreconditions } from '../../http/message/precondition.ts'
import { textResponse } from '../../http/message/reply.ts'
import { originForm } from '../../http/message/target.ts'
import { readOnlyResponse } from '../../http/server/router.ts'
import { packageRoot } from '../../package.ts'
import { pemKeysPath } from '../config/setting-identity-token.ts'
import type { IdentityKey } from '../keys/dynamic-config.ts'

export interface OwnDocument {
  readonly type: string
  readonly bytes: Buffer
  /** Content-Security-Policy of the document when it is opened by itself. */
  readonly policy?: string
  readonly disposition?: string
  /** Cache-Control, where caches have to ask again before each use. */
  readonly cacheControl?: 'no-cache'
}

/** The time for which a cache may use a document without asking again. */
const AGE: Seconds = 300

/** No application has anything below `/__authproxy`; the name of the file is the one libraries expect. */
export const keySetPath = '/__authproxy/jwks.json'

/** Whether a path is one of the keys of a signed identity of this form; without one, the paths belong to the backend. */
export function isKeyPath(
  path: string,
  form: { readonly keysAt: string | undefined } | undefined,
): boolean {
  if (form === undefined) return false
  const isPem = form.keysAt === pemKeysPath && path.startsWith(pemKeysPath)
  return isPem || path === keySetPath || path === form.keysAt
}

/** Answers these paths, whatever the method; `keys` is asked at every request. */
export function keySetHandler(keys: () => readonly IdentityKey[]): Handler {
  return ownDocument(({ target }) => {
    const { path } = originForm(target)
    if (path.startsWith(pemKeysPath)) {
      const key = keys().find(({ kid }) => kid === path.slice(pemKeysPath.length))
      return key && { type: 'application/x-pem-file', bytes: Buffer.from(publicPem(key)) }
    }
    const set = { keys: keys().map(publicHalf) }
    return { type: 'application/jwk-set+json', bytes: Buffer.from(JSON.stringify(set)) }
  })
}

/** The path of the logo, when there is one. */
export const logoPath = '/__authproxy/logo'

/** The path of the script by which pages of the application let users sign in in a separate window. */
export const loginScriptPath = '/__authproxy/login.js'

/** Answers with that script, templates/auth/login.js, which is read once. Throws when it cannot be read. */
export function loginScriptHandler(): Handler {
  const bytes = readFileSync(join(packageRoot(), 'templates', 'auth', 'login.js'))
  return ownDocument(() => ({ type: 'text/javascript; charset=utf-8', bytes }))
}

function publicHalf({ kid, privateKey }: IdentityKey): object {
  const { kty, crv, x, y, n, e } = createPublicKey(privateKey).export({ format: 'jwk' })
  const alg = kty === 'RSA' ? 'RS256' : 'ES256'
  return { kty, crv, x, y, n, e, kid, use: 'sig', alg }
}

function publicPem({ privateKey }: IdentityKey): string {
  return createPublicKey(privateKey).export({ type: 'spki', format: 'pem' }).toString()
}

/** Answers whatever the method is; `current` is asked at every request. */
export function ownDocument(current: (request: Request) => OwnDocument | undefined): Handler {
  return async request => {
    const document = current(request)
    if (document === undefined) return textResponse(404, 'not found')
    return readOnlyResponse(request, () => documentResponse(request, document))
  }
}

/** The document, or 304 to a client that has it already. */
export function documentResponse(request: Request, document: OwnDocument): Response {
  const { type, bytes, policy, disposition, cacheControl = `public, max-age=${AGE}` } = document
  const opaque = createHash('sha256').update(bytes).digest('base64url').slice(0, 22)
  const fields = Fields.of(
    ['Content-Type', type],
    ['Content-Disposition', disposition],
    ['Cache-Control', cacheControl],
    ['ETag', `"${opaque}"`],
    ['X-Content-Type-Options', 'nosniff'],
    ['Content-Security-Policy', policy],
  )
  const validators = { etag: { opaque, weak: false }, lastModified: undefined }
  const status = statusByPreconditions(request, { validators, role: 'origin' }, request.received)
  return { status, fields, content: status === 200 ? { kind: 'bytes', bytes } : noContent }
}
