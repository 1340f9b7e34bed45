/**
 * AWS Signature Version 4 in the Authorization field ("Authenticating Requests: Using the Authorization Header" of the Amazon S3 API).
 * This file is pure: it knows no clock and no socket.
 *
 * # Facts
 * - S3 signs the path as it is sent, escaped once. Other services of AWS escape it twice; this program uses none of them.
 * - The content is signed by its SHA-256, so the store compares the received bytes. The SHA-256 of a stored content is its name.
 * - The signing key depends on the day, so one key is enough for all requests of a day.
 */
import { createHmac, hash } from 'node:crypto'
import type { Milliseconds } from '../../../../async/clock.ts'

export interface AwsCredentials {
  readonly keyId: string
  readonly secret: string
  /** The session token of temporary credentials. */
  readonly token?: string | undefined
}

/** A request to sign. */
export interface UnsignedRequest {
  readonly method: string
  /** The path as it is sent (`escapedPath`). */
  readonly path: string
  /** The fields to sign, Host and those that begin with x-amz- among them. */
  readonly fields: ReadonlyArray<readonly [name: string, value: string]>
  /** The SHA-256 of the content, lower-case hex, or `UNSIGNED-PAYLOAD`. */
  readonly digest: string
}

interface Scope {
  readonly region: string
  /** The service; by default `s3`. */
  readonly service?: string
  readonly credentials: AwsCredentials
  readonly moment: Milliseconds
}

/** The SHA-256 of an empty content. */
export const digestOfNothing = hash('sha256', '')

/** The moment in the format of X-Amz-Date: `20130524T000000Z`. */
export function amzDate(moment: Milliseconds): string {
  return new Date(moment).toISOString().replace(/[-:]|\.\d{3}/g, '')
}

/** The value of the Authorization field. */
export function authorization(request: UnsignedRequest, scope: Scope): string {
  const { region, service = 's3', credentials, moment } = scope
  const date = amzDate(moment)
  const day = date.slice(0, 8)
  const place = [day, region, service, 'aws4_request']
  const { text, signed } = canonicalRequest(request)
  const toSign = `AWS4-HMAC-SHA256\n${date}\n${place.join('/')}\n${hash('sha256', text)}`
  const signature = hmac(signingKey(credentials.secret, place), toSign).toString('hex')
  return `AWS4-HMAC-SHA256 Credential=${credentials.keyId}/${place.join('/')}, SignedHeaders=${signed}, Signature=${signature}`
}

/** The text whose digest is signed, and the names of the fields in it. */
export function canonicalRequest(request: UnsignedRequest): {
  readonly text: string
  readonly signed: string
} {
  const { method, path, fields, digest } = request
  const values = new Map<string, string>()
  for (const [name, value] of fields) {
    const lower = name.toLowerCase()
    const before = values.get(lower)
    const trimmed = value.trim().replace(/ +/g, ' ')
    values.set(lower, before === undefined ? trimmed : `${before},${trimmed}`)
  }
  const names = [...values.keys()].sort()
  const lines = names.map(name => `${name}:${values.get(name)}\n`).join('')
  const signed = names.join(';')
  // No request of ours has a query, so its line is empty.
  const text = [method, path, '', lines, signed, digest].join('\n')
  return { text, signed }
}

/** A path whose segments are escaped as S3 requires: all characters except the unreserved ones of RFC 3986. */
export function escapedPath(path: string): string {
  return path.split('/').map(escaped).join('/')
}

function escaped(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    one => `%${one.charCodeAt(0).toString(16).toUpperCase()}`,
  )
}

/** The last signing key. It is remembered, because making it takes four rounds of HMAC and a request only one. */
let last: { readonly parts: string; readonly key: Buffer } = { parts: '', key: Buffer.alloc(0) }

function signingKey(secret: string, scope: readonly string[]): Buffer {
  const parts = [secret, ...scope].join(' ')
  if (last.parts !== parts) {
    const key = scope.reduce<Buffer>(hmac, Buffer.from(`AWS4${secret}`))
    last = { parts, key }
  }
  return last.key
}

function hmac(key: Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest()
}
