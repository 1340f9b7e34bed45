/**
 * The file of a build, and the list of a build, which can be committed beside the source of a project.
 *
 *     {"version":1,"name":"base","begun":…,"locked":…,"open":false}            the first line
 *     {"url":"http://…","sha256":"…","size":…,"lastModified":"…","fields":[…]}  a file
 *     {"url":"http://…","status":404}                                           no file
 *     {"url":"http://…","lacking":"…"}                                          not recorded
 *
 * Lines after the first are sorted by URL. While a build is recorded, further lines are appended: a later answer ends the note that it is not
 * recorded. The list has a line for each answer, `SHA256 SIZE URL` or `- STATUS URL [LOCATION]`, and
 * comments that begin with `#`.
 */
import type { Milliseconds } from '../../../async/clock.ts'
import { parseTarget } from '../../../http/message/target.ts'
import { isCount, isRecord, parsedJson } from '../../../json.ts'
import { isDigest } from '../../store/disk/disk.ts'
import { checkEntry } from '../../store/entry.ts'
import { type Build, type GivenAnswer, type GivenFile, isBuildName, isFile } from './build.ts'

const version = 1

/** The most answers of a build, and of all builds of a service together. */
export const mostAnswers = 100_000

/** The name of the directory of the files, in a cache directory and in a bundle. */
export const recordsDirectory = 'builds'

/** The bytes of the largest file that is read. */
export const mostRecordBytes = 256 * 1024 * 1024

/** The end of the name of a build's file. */
export const buildSuffix = '.jsonl'

/** The text of a build's file. `open` says that the recording continues; a file that says so when the service starts was left by a crash. */
export function encodeBuild(build: Build, open: boolean): string {
  const { name, begun, locked, interrupted, answers, lacking } = build
  const head = {
    version,
    name,
    begun,
    ...(locked !== undefined && { locked }),
    ...(interrupted && { interrupted }),
    ...(open && { open }),
  }
  const lines = [
    ...[...answers].map(([url, answer]) => ({ url, text: answerLine(url, answer) })),
    ...[...lacking].map(([url, because]) => ({ url, text: lackingLine(url, because) })),
  ]
  lines.sort((a, b) => compare(a.url, b.url))
  return `${JSON.stringify(head)}\n${lines.map(({ text }) => text).join('')}`
}

/** The line of an answer. */
export function answerLine(url: string, answer: GivenAnswer): string {
  if (!isFile(answer)) return `${JSON.stringify({ url, ...answer })}\n`
  const { digest: sha256, size, lastModified, fields } = answer
  return `${JSON.stringify({ url, sha256, size, lastModified, fields })}\n`
}

/** The line of a URL whose answer is not recorded. */
export function lackingLine(url: string, because: string): string {
  return `${JSON.stringify({ url, lacking: because })}\n`
}

/** Compares texts by UTF-16 code units, so that the order is the same on every machine. */
function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

/** The build in a text, or a sentence when the text cannot be read as one. */
export function decodeBuild(text: string): Build | string {
  const [first = '', ...lines] = text.split('\n')
  const head = parsedJson(first)
  if (!isRecord(head) || typeof head['version'] !== 'number') return 'it is not a record of a build'
  if (head['version'] > version) {
    return `it was written by a newer cachesvc (format ${head['version']}, this one knows ${version})`
  }
  const { name, begun, locked, interrupted, open } = head
  if (typeof name !== 'string' || !isBuildName(name)) return 'it has no name that a build can have'
  if (!isCount(begun)) return 'it does not say when it began'
  if (locked !== undefined && !isCount(locked)) return 'it does not say when it was locked'
  const answers = new Map<string, GivenAnswer>()
  const lacking = new Map<string, string>()
  // After a crash the end of a record that was open may be a part of a line, or bytes that never reached the disk.
  const crashed = open === true && locked === undefined
  const whole = crashed
    ? lines.slice(0, lines.findLastIndex(line => isRecord(parsedJson(line))) + 1)
    : lines
  for (const line of whole) {
    if (line === '') continue
    const found = parsedJson(line)
    if (!isRecord(found)) return 'a line is not JSON'
    const { url, lacking: because } = found
    if (typeof url !== 'string' || !isUrl(url)) return 'a line has no URL'
    if (typeof because === 'string') {
      lacking.set(url, because)
      continue
    }
    const answer = decodeAnswer(found)
    if (typeof answer === 'string') return `the line of ${url} is invalid: ${answer}`
    answers.set(url, answer)
    lacking.delete(url)
    if (answers.size > mostAnswers) return `it has more than ${mostAnswers} answers`
  }
  return { name, begun, locked, interrupted: interrupted === true || crashed, answers, lacking }
}

function decodeAnswer(found: Readonly<Record<string, unknown>>): GivenAnswer | string {
  const { sha256: digest, size, lastModified, fields, status, location } = found
  if (digest === undefined) return statusOf(status, location) ?? 'it has neither digest nor status'
  const blank = { key: 'http://blank.invalid/', stored: 0, validated: 0, initialAge: 0 }
  const { entry, because } = checkEntry({ ...blank, digest, size, lastModified, fields })
  if (entry === undefined) return because
  return {
    digest: entry.digest,
    size: entry.size,
    lastModified: entry.lastModified,
    fields: entry.fields,
  }
}

/** Whether a status is recorded: it says that there is no file, or that the file is elsewhere. */
export function isRecordedStatus(status: number): boolean {
  return status === 404 || status === 410 || redirects.has(status)
}

const redirects: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])

function statusOf(status: unknown, location: unknown): GivenAnswer | undefined {
  if (typeof status !== 'number' || !isRecordedStatus(status)) return undefined
  if (!redirects.has(status)) return { status }
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
  if (typeof location !== 'string' || !/^[^\u0000-\u0020\u007f]{1,8192}$/.test(location)) {
    return undefined
  }
  return { status, location }
}

/** The list of the answers of a build. */
export function listText({ name, begun, locked, answers }: Build): string {
  const lines = [...answers]
    .sort(([a], [b]) => compare(a, b))
    .map(([url, answer]) => {
      if (isFile(answer)) return `${answer.digest} ${answer.size} ${url}`
      const place = answer.location === undefined ? '' : ` ${answer.location}`
      return `- ${answer.status} ${url}${place}`
    })
  const at = new Date(locked ?? begun).toISOString()
  return [`# cachesvc build ${version} ${name} ${at}`, ...lines].map(line => `${line}\n`).join('')
}

/**
 * The locked build that a list describes, under a name, or a sentence when the text is no list. A list has neither fields nor dates of
 * files, so each file gets the same ones on every machine.
 */
export function buildOfList(text: string, name: string, now: Milliseconds): Build | string {
  const [first = '', ...lines] = text.split('\n')
  const [, written, at = ''] = /^# cachesvc build (\d+) \S+ (\S+)\s*$/.exec(first) ?? []
  if (written === undefined) return 'it does not begin like the list of a build'
  if (Number(written) > version) return `it was written by a newer cachesvc (format ${written})`
  const locked = Date.parse(at)
  if (!isCount(locked)) return 'its first line has no date'
  const lastModified = new Date(locked).toUTCString()
  const answers = new Map<string, GivenAnswer>()
  for (const [index, line] of lines.entries()) {
    if (line === '' || line.startsWith('#')) continue
    const [digest = '', number = '', url = '', ...more] = line.trimEnd().split(' ')
    const answer =
      digest === '-'
        ? statusOf(Number(number), more[0])
        : more.length === 0
          ? fileOf(digest, number, lastModified)
          : undefined
    if (answer === undefined || !isUrl(url)) return `line ${index + 2} is not a line of a list`
    answers.set(url, answer)
    if (answers.size > mostAnswers) return `it has more than ${mostAnswers} lines`
  }
  return { name, begun: now, locked, interrupted: false, answers, lacking: new Map() }
}

function fileOf(digest: string, number: string, lastModified: string): GivenFile | undefined {
  const size = Number(number)
  if (!isDigest(digest) || !/^\d{1,15}$/.test(number)) return undefined
  return { digest, size, lastModified, fields: [['Content-Type', 'application/octet-stream']] }
}

function isUrl(text: string): boolean {
  const target = parseTarget('GET', text)
  return !('problem' in target) && target.form === 'absolute'
}
