/**
 * The report of a check: what it found in the store, as values and in words. Pure.
 */
import { formatDuration } from '../../config/units.ts'
import { countOf, size } from '../../figures.ts'
import { type Signature, signerText } from '../suites/generation.ts'
import { signatureEndText } from '../suites/signing/apt-policy.ts'

/** What can be wrong with a file. Its content: the bytes on disk are not those that were stored, or not there. */
const whatIsWrong = {
  content: 'damaged',
  release: 'no Release file',
  signature: 'not what was signed',
  index: 'not what its Release file names',
  'stale-index': 'older than its Release file',
  package: 'not what its index names',
  'by-hash': 'not what its name says',
} as const

type WrongBecause = keyof typeof whatIsWrong

export function isWrongBecause(value: unknown): value is WrongBecause {
  return typeof value === 'string' && Object.hasOwn(whatIsWrong, value)
}

export interface Wrong {
  readonly key: string
  /** The SHA-256 it is stored under. */
  readonly digest: string
  readonly because: WrongBecause
  readonly sentence: string
  /** Key of the file that says so, when it is another. */
  readonly according?: string
}

/** Why a file was not checked. That this process could not read it says nothing about the file. */
const whyUnchecked = {
  'no-index': 'whole, but named by no stored index (Release files never are)',
  weak: 'known by MD5 or SHA-1 only',
  unreadable: 'could not be read',
  changed: 'changed meanwhile',
} as const

export type UncheckedBecause = keyof typeof whyUnchecked

/** One suite or flat repository. */
export interface RepositoryReport {
  /** Key of the Release file that counted. */
  readonly release: string
  readonly suite: string | undefined
  readonly date: string | undefined
  /** Undefined when `archives[].verify` is `off`. */
  readonly signature: Signature | undefined
  /** Why nothing is compared with it, in words: `archives[].verify` is `require` and its signature is not good. */
  readonly refused: string | undefined
  /** Stored files the Release file names, and how many of them are right. */
  readonly indexes: number
  readonly indexesRight: number
}

export interface VerificationReport {
  readonly version: 1
  /** Moments as RFC 3339 writes them. */
  readonly started: string
  readonly finished: string
  readonly files: number
  /** Different contents read, and their bytes. */
  readonly contents: number
  readonly bytes: number
  readonly repositories: readonly RepositoryReport[]
  /** Files that are what an index or their own name says, beyond having the content they were stored with. */
  readonly confirmed: number
  readonly wrong: readonly Wrong[]
  /** Files whose content is whole but which could not be compared with an index or a name. */
  readonly unchecked: Readonly<Record<UncheckedBecause, number>>
  /** Why the first of those that could not be read could not. */
  readonly unreadableBecause?: string
  /** Indexes that could not be unpacked: what they name is not checked. */
  readonly unread: ReadonlyArray<{ readonly key: string; readonly because: string }>
}

/** How far a check has come. */
export interface Progress {
  readonly doing: 'listing' | 'reading'
  readonly done: number
  readonly total: number
  readonly wrong: number
}

/** The log line of every wrong file. */
export const warningWords = 'repository-verification warning'

/** The report for people: a line for everything wrong, every suite and everything unread, then figures. `fate` says what became of a file. */
export function reportText(report: VerificationReport, fate: (wrong: Wrong) => string): string {
  const lines = report.wrong.map(wrong => {
    return `${wrong.key}: ${whatIsWrong[wrong.because]}: ${wrong.sentence} (${fate(wrong)})`
  })
  for (const { release, signature, refused } of report.repositories) {
    const use = refused === undefined ? '' : `, so it is not used (archives[].verify is require)`
    const by =
      signature?.is === 'good'
        ? ` by ${signerText({ ...signature, by: signature.by?.toUpperCase() ?? '' })}`
        : ''
    const ends =
      signature?.ends === undefined
        ? ''
        : `; ${signatureEndText(signature.ends, Date.parse(report.finished))}`
    lines.push(`${release}: ${signatureWords[signature?.is ?? 'off']}${by}${use}${ends}`)
  }
  for (const { key, because } of report.unread) lines.push(`${key}: not read: ${because}`)
  const took = formatDuration(Date.parse(report.finished) - Date.parse(report.started))
  const suites = countOf(report.repositories.length, 'suite')
  lines.push(
    `${countOf(report.files, 'file')}, ${size(report.bytes)}, ${suites}, in ${took}`,
    `${report.confirmed} confirmed by an index or by name, ${report.wrong.length} wrong`,
  )
  for (const because of Object.keys(whyUnchecked) as UncheckedBecause[]) {
    const count = report.unchecked[because]
    const why = because === 'unreadable' ? report.unreadableBecause : undefined
    if (count > 0) lines.push(`${count} ${whyUnchecked[because]}${why ? `: ${why}` : ''}`)
  }
  return lines.map(line => `${line}\n`).join('')
}

const signatureWords: Readonly<Record<Signature['is'] | 'off', string>> = {
  good: 'signed',
  bad: 'signature bad',
  'unknown-key': 'key not known',
  unsigned: 'not signed',
  unchecked: 'signature not checked (there is no keyring)',
  off: 'signature not checked (archives[].verify is off)',
}
