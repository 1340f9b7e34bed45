/**
 * Redacts secrets from log facts: credentials in URLs and queries, and values under the names of secrets. Writes facts as a line of
 * JSON in the same pass (`jsonLine`). Pure, and linear in the length of the text.
 *
 * # Facts
 * - The log line is a large part of the cost of a hit. Copying its fourteen members four times was a tenth of all. `jsonLine` gives
 *   what `JSON.stringify` makes of `clean` facts, at half the cost.
 * - Most texts need neither escapes nor redaction, and one test tells: redaction begins at an `@` or a `?`.
 */
import { explainError, Failure, systemCode } from '../errors.ts'
import { isRecord, type JsonObject } from '../json.ts'

/** The text instead of a secret. */
export const REDACTED = '[redacted]'

const LONGEST_TEXT = 8192
const DEEPEST = 4
const MOST_MEMBERS = 100

/** Names of fields, settings, facts and query parameters whose values are secrets, in lower case. */
const SECRET_NAMES: ReadonlySet<string> = new Set([
  ...['authorization', 'proxy-authorization', 'cookie', 'set-cookie', 'x-authproxy-identity'],
  ...['credentials', 'password', 'passwd', 'passphrase', 'secret', 'client_secret'],
  ...['token', 'access_token', 'refresh_token', 'id_token', 'api_key', 'apikey'],
  // The parameters of signed URLs.
  ...['x-amz-signature', 'x-amz-security-token', 'x-goog-signature'],
  // The parameters with messages of SAML.
  ...['samlresponse', 'samlrequest', 'samlart', 'relaystate'],
])

/**
 * Further query parameters of signed URLs. They are secret only in URLs, because facts of these names say whether a signature
 * is valid.
 */
const SECRET_PARAMETERS: ReadonlySet<string> = new Set(['signature', 'sig'])

/** Whether values under this name are secret. Case does not count, and `proxyAuthorization` is understood. */
export function isSecretName(name: string): boolean {
  const lower = name.toLowerCase()
  if (SECRET_NAMES.has(lower)) return true
  return /[A-Z]/.test(name) && SECRET_NAMES.has(name.replace(/[A-Z]/g, '-$&').toLowerCase())
}

/** Replaces the userinfo of URLs and the values of secret query parameters in any text. */
export function redactUrl(text: string): string {
  let out = text
  if (out.includes('//') && out.includes('@')) out = redactUserinfo(out)
  if (out.includes('?')) out = redactQuery(out)
  return out
}

/** The authority runs from `//` to the next delimiter (RFC 3986 section 3.2); what is before its last `@` is userinfo. */
function redactUserinfo(text: string): string {
  let out = ''
  let done = 0
  for (let from = text.indexOf('//'); from >= 0; from = text.indexOf('//', from)) {
    from += 2
    const authority = text.slice(from, endOf(text, from, '/?#'))
    let at = authority.lastIndexOf('@')
    if (at < 0 && !LOOKS_LIKE_HOST.test(authority)) {
      // A password with a bare slash would end the authority too early. Removing a part of a path is better than logging a
      // password.
      const far = text.slice(from, from + 1024)
      at = far.slice(0, endOf(far, 0, '')).lastIndexOf('@')
    }
    if (at < 0) continue
    out += `${text.slice(done, from)}${REDACTED}`
    done = from + at
    from = done
  }
  return out + text.slice(done)
}

/** A host has no colon except before a port or inside brackets. */
const LOOKS_LIKE_HOST = /^(?:\[[^\]]*\]|[^:[\]]*)(?::\d*)?$/

/** The index of the first of `delimiters`, white space, quote or angle bracket at or after `from`. */
function endOf(text: string, from: number, delimiters: string): number {
  for (let i = from; i < text.length; i += 1) {
    const c = text.charAt(i)
    if (c <= ' ' || c === '"' || c === '<' || c === '>' || delimiters.includes(c)) return i
  }
  return text.length
}

function redactQuery(text: string): string {
  return text.replace(
    /([?&])([A-Za-z0-9_.-]{1,40})=([^&#\s"<>]*)/g,
    (_, mark: string, name: string, value: string) => {
      const secret = isSecretName(name) || SECRET_PARAMETERS.has(name.toLowerCase())
      const shown = secret ? REDACTED : redactEscapedUrl(value)
      return `${mark}${name}=${shown}`
    },
  )
}

/** Redacts a URL in the value of a parameter, from its escaped `//` to its last escaped `@`. */
function redactEscapedUrl(value: string): string {
  const lower = value.toLowerCase()
  const from = lower.indexOf('%2f%2f')
  const to = lower.lastIndexOf('%40')
  if (from < 0 || to < from) return value
  return `${value.slice(0, from + '%2f%2f'.length)}${REDACTED}${value.slice(to)}`
}

/** The facts without secrets, of bounded size, with errors as objects. */
export function clean(facts: JsonObject): JsonObject {
  return cleanMembers(facts, DEEPEST, Number.POSITIVE_INFINITY)
}

function cleanMembers(of: JsonObject, depth: number, most: number): JsonObject {
  const out: Record<string, unknown> = {}
  const names = Object.keys(of)
  if (names.length > most) names.length = most
  for (const name of names) {
    const value = of[name]
    if (value !== undefined) out[name] = isSecretName(name) ? REDACTED : cleanValue(value, depth)
  }
  return out
}

/** The value of a fact whose name is not that of a secret, as `clean` makes it. */
function cleanValue(value: unknown, depth = DEEPEST): unknown {
  if (typeof value === 'string') return cleanText(value)
  if (typeof value === 'bigint') return String(value)
  if (typeof value === 'function' || typeof value === 'symbol') return typeof value
  if (value instanceof Error) return cleanError(value, depth)
  if (value instanceof Date)
    return Number.isNaN(value.getTime()) ? 'invalid date' : value.toISOString()
  if (typeof value !== 'object' || value === null) return value
  if (depth === 0) return '[deeper]'
  if (Array.isArray(value))
    return value.slice(0, MOST_MEMBERS).map(member => cleanValue(member, depth - 1))
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`
  return isRecord(value) ? cleanMembers(value, depth - 1, MOST_MEMBERS) : value
}

function cleanError(error: Error, depth: number): JsonObject {
  const { name, message, cause, stack } = error
  const code = systemCode(error)
  const failure = error instanceof Failure ? { fault: error.fault, ...error.facts } : {}
  return {
    name,
    message: cleanText(message === '' ? explainError(error) : message),
    ...(code === undefined ? {} : { code }),
    ...(depth > 0 ? clean(failure) : {}),
    ...(cause === undefined || depth === 0 ? {} : { cause: cleanValue(cause, depth - 1) }),
    ...(stack === undefined ? {} : { stack: cleanText(stack) }),
  }
}

/** The text in bounded length, without credentials in its URLs. */
export function cleanText(text: string): string {
  if (text.length <= LONGEST_TEXT) return redactUrl(text)
  return redactUrl(`${text.slice(0, LONGEST_TEXT)}… [${text.length} characters]`)
}

/** The text with its control characters escaped as in JSON, so that text from clients cannot control a reader's terminal. */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, found =>
    found.replace(/./gs, unit => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`),
  )
}

/** The members that every line has; level and time are left out where the reader of the lines keeps them. */
interface LineFrame {
  readonly level?: string
  readonly time?: string
  /** The message, which is redacted already. */
  readonly message: string
}

const none: JsonObject = {}

/** The line, line feed included. Facts need not be clean. When two have one name, the one in `facts` counts. */
export function jsonLine(frame: LineFrame, facts: JsonObject, before = none): string {
  const { level, time, message } = frame
  const begun = level === undefined ? '' : `"level":"${level}","time":"${time}"`
  const first = membersOf(before)
  const rest = membersOf(facts, first === '' ? none : before)
  // A fact has the name of another, or of a member of the frame. This is rare, and the object then keeps the later of the two.
  if (first === undefined || rest === undefined)
    return `${JSON.stringify({ level, time, ...clean({ ...before, ...facts }), message })}\n`
  const last = isPlain(message) ? `"${message}"` : JSON.stringify(message)
  const members = `${begun}${first}${rest},"message":${last}}\n`
  return begun === '' ? `{${members.slice(1)}` : `{${members}`
}

/** The members of the line; undefined when a name occurs twice. */
function membersOf(facts: JsonObject, before = none): string | undefined {
  let text = ''
  for (const name of Object.keys(facts)) {
    if (before !== none && Object.hasOwn(before, name)) return undefined
    const value = facts[name]
    if (value === undefined) continue
    const member = memberOf(name)
    if (member === undefined) return undefined
    if (value === member.last) text += member.lastText
    else text += textOf(member, value)
  }
  return text
}

/** The text of a member. It is kept where a line often has the value of the line before: a status, a user, a browser. */
function textOf(member: Member, value: unknown): string {
  if (member.secret) return member.before
  const short = typeof value === 'string' && isPlain(value)
  const text = short ? `${member.before}"${value}"` : member.before + jsonValue(value)
  if (short || typeof value === 'number') {
    member.last = value
    member.lastText = text
  }
  return text
}

function jsonValue(value: unknown): string {
  if (typeof value === 'number' && Number.isFinite(value)) return String(value)
  return JSON.stringify(cleanValue(value)) ?? 'null'
}

/** Whether the text needs neither escapes nor redaction. */
function isPlain(text: string): boolean {
  return text.length <= longest && PLAIN.test(text)
}

/** Visible ASCII and spaces without what JSON escapes (`"`, `\`) and what redaction looks for (`?`, `@`). */
const PLAIN = /^[\x20\x21\x23-\x3e\x41-\x5b\x5d-\x7e]*$/
const longest = 1024

interface Member {
  /** The text before the value; for a secret member the whole text, redacted. */
  readonly before: string
  readonly secret: boolean
  /** A recent value of the member, and its whole text. */
  last: string | number | undefined
  lastText: string
}

/** The member of a name; undefined for the names of the frame. */
function memberOf(name: string): Member | undefined {
  const known = members.get(name)
  if (known !== undefined) return known
  if (name === 'level' || name === 'time' || name === 'message') return undefined
  const secret = isSecretName(name)
  const before = `,${JSON.stringify(name)}:${secret ? JSON.stringify(REDACTED) : ''}`
  const member: Member = { before, secret, last: undefined, lastText: '' }
  // The code has a few dozen names. Names from clients must not fill the memory.
  if (members.size < mostMembers && name.length <= longestMember) members.set(name, member)
  return member
}

const members = new Map<string, Member>()
const mostMembers = 1000
const longestMember = 40
