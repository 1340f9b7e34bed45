/**
 * Writes a log line as JSON and redacts it in the same pass. The result equals `JSON.stringify` of `clean` facts, at half the
 * cost.
 *
 * # Facts
 * - The log line is a large part of the cost of a hit. Copying its fourteen members four times was a tenth of all.
 * - Most texts need neither escapes nor redaction, and one test tells: redaction begins at an `@` or a `?`.
 */
import { clean, cleanValue, isSecretName, REDACTED } from './redact.ts'

/** The members that every line has; level and time are left out where the reader of the lines keeps them. */
interface LineFrame {
  readonly level?: string
  readonly time?: string
  /** The message, which is redacted already. */
  readonly message: string
}

type Facts = Readonly<Record<string, unknown>>

const none: Facts = {}

/** The line, line feed included. Facts need not be clean. When two have one name, the one in `facts` counts. */
export function jsonLine(frame: LineFrame, facts: Facts, before = none): string {
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
function membersOf(facts: Facts, before = none): string | undefined {
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
  if (member.secret) return member.textBefore
  const short = typeof value === 'string' && isPlain(value)
  const text = short ? `${member.textBefore}"${value}"` : member.textBefore + jsonValue(value)
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
  readonly textBefore: string
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
  const textBefore = `,${JSON.stringify(name)}:${secret ? JSON.stringify(REDACTED) : ''}`
  const member: Member = { textBefore, secret, last: undefined, lastText: '' }
  // The code has a few dozen names. Names from clients must not fill the memory.
  if (members.size < mostMembers && name.length <= longestMember) members.set(name, member)
  return member
}

const members = new Map<string, Member>()
const mostMembers = 1000
const longestMember = 40
