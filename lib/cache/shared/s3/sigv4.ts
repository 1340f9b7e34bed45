/**
 * AWS Signature Version 4 in the Authorization field ("Authenticating Requests: Using the Authorization Header" of the Amazon S3 API).
 * Pure: knows no clock and no socket.
 *
 * # Facts
 * - S3 signs the path as it is sent, escaped once. Other services of AWS escape it twice; none of them is asked here.
 * - The content is signed by its SHA-256, so the store compares what it got. Of a stored content that is its name.
 * - The key depends on the day, so a key made once serves for all requests of a day.
 */
import { createHmac, hash } from 'node:crypto'
import type { Milliseconds } from '../../../async/clock.ts'

export interface AwsCredentials {
  readonly keyId: string
  readonly secret: string
  /** Of credentials that are for a time only. */
  readonly token?: string | undefined
}

export interface Unsigned {
  readonly method: string
  /** As it is sent, see `escapedPath`. */
  readonly path: string
  /** Without "?", each parameter escaped, in any order. */
  readonly query?: string
  /** The fields to sign, Host and those that begin with x-amz- among them. */
  readonly fields: ReadonlyArray<readonly [name: string, value: string]>
  /** SHA-256 of the content, lower-case hex, or `UNSIGNED-PAYLOAD`. */
  readonly digest: string
}

interface Scope {
  readonly region: string
  /** `s3` unless told. */
  readonly service?: string
  readonly credentials: AwsCredentials
  readonly moment: Milliseconds
}

/** SHA-256 of nothing. */
export const digestOfNothing = hash('sha256', '')

/** The moment as X-Amz-Date has it: `20130524T000000Z`. */
export function amzDate(moment: Milliseconds): string {
  return new Date(moment).toISOString().replace(/[-:]|\.\d{3}/g, '')
}

/** The value of Authorization. */
export function authorization(request: Unsigned, scope: Scope): string {
  const { region, service = 's3', credentials, moment } = scope
  const date = amzDate(moment)
  const day = date.slice(0, 8)
  const place = `${day}/${region}/${service}/aws4_request`
  const { text, signed } = canonicalRequest(request)
  const toSign = `AWS4-HMAC-SHA256\n${date}\n${place}\n${hash('sha256', text)}`
  const key = signingKey({ secret: credentials.secret, day, region, service })
  const signature = hmac(key, toSign).toString('hex')
  return `AWS4-HMAC-SHA256 Credential=${credentials.keyId}/${place}, SignedHeaders=${signed}, Signature=${signature}`
}

/** The text whose digest is signed, and the names of the fields in it. */
export function canonicalRequest(request: Unsigned): {
  readonly text: string
  readonly signed: string
} {
  const { method, path, query = '', fields, digest } = request
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
  const text = [method, path, canonicalQuery(query), lines, signed, digest].join('\n')
  return { text, signed }
}

/** A path of which each segment is escaped as S3 has it: all but the unreserved characters of RFC 3986. */
export function escapedPath(path: string): string {
  return path.split('/').map(escaped).join('/')
}

function escaped(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    one => `%${one.charCodeAt(0).toString(16).toUpperCase()}`,
  )
}

/** Parameters in the order of their escaped names, each with "=". */
function canonicalQuery(query: string): string {
  const parameters = query.split('&').filter(one => one !== '')
  return parameters
    .map(one => (one.includes('=') ? one : `${one}=`))
    .sort()
    .join('&')
}

/** What a key is made of. */
interface KeyParts {
  readonly secret: string
  readonly day: string
  readonly region: string
  readonly service: string
}

/** Four rounds of HMAC are dear beside the one of a request, so the last key is remembered. */
let last: KeyParts & { readonly key: Buffer } = {
  secret: '',
  day: '',
  region: '',
  service: '',
  key: Buffer.alloc(0),
}

function signingKey(parts: KeyParts): Buffer {
  const { secret, day, region, service } = parts
  const same = last.secret === secret && last.day === day
  if (same && last.region === region && last.service === service) return last.key
  const key = [day, region, service, 'aws4_request'].reduce<Buffer>(
    (before, text) => hmac(before, text),
    Buffer.from(`AWS4${secret}`),
  )
  last = { ...parts, key }
  return key
}

function hmac(key: Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest()
}
