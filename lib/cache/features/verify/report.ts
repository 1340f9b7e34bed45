/**
 * The report of a check: the wrong files, suites and figures, as values and in words. This file is pure.
 */
import { formatDuration } from '../../../config/units.ts'
import { countOf, size } from '../../../figures.ts'
import { type Signature, signerText } from '../../suites/generation.ts'
import { signatureEndText } from '../../suites/signing/apt-policy.ts'

/** The words for each kind of wrong file. With `content` the bytes on disk are missing or not those that were stored. */
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

/** A file that was found wrong. */
export interface WrongFile {
  readonly key: string
  /** The SHA-256 under which it is stored. */
  readonly digest: string
  readonly because: WrongBecause
  readonly sentence: string
  /** The key of the Release file, signature or index that the file contradicts; undefined when there is none. */
  readonly according?: string
}

/** The words for each reason why a file was not checked. A file that this process could not read may be right. */
const whyUnchecked = {
  'no-index': 'whole, but named by no stored index (Release files never are)',
  weak: 'known by MD5 or SHA-1 only',
  unreadable: 'could not be read',
  changed: 'changed meanwhile',
} as const

export type UncheckedBecause = keyof typeof whyUnchecked

/** One suite or flat repository. */
export interface RepositoryReport {
  /** The key of the Release file that was used. */
  readonly release: string
  readonly suite: string | undefined
  readonly date: string | undefined
  /** Undefined when `archives[].verify` is `off`. */
  readonly signature: Signature | undefined
  /** The reason in words why no file is compared with it: `archives[].verify` is `require` and its signature is not good. */
  readonly refused: string | undefined
  /** The number of stored files that the Release file names, and how many of them are right. */
  readonly indexes: number
  readonly indexesRight: number
}

export interface VerificationReport {
  readonly version: 1
  /** The moments in the format of RFC 3339. */
  readonly started: string
  readonly finished: string
  readonly files: number
  /** The number of different contents, and their bytes. */
  readonly contents: number
  readonly bytes: number
  readonly repositories: readonly RepositoryReport[]
  /** The number of files that match an index or the digest in their own name. */
  readonly confirmed: number
  readonly wrong: readonly WrongFile[]
  /** The number of files that could not be compared with an index or a name, by the reason. */
  readonly unchecked: Readonly<Record<UncheckedBecause, number>>
  /** The reason why the first unreadable file could not be read. */
  readonly unreadableBecause?: string
  /** Stored files for which two indexes of one suite name different contents, which is an error of the archive. */
  readonly contradictions: ReadonlyArray<{
    readonly key: string
    /** The keys of the two indexes. */
    readonly indexes: readonly string[]
  }>
  /** Release files and indexes that could not be read. The files that they name are not compared with them. */
  readonly unread: ReadonlyArray<{ readonly key: string; readonly because: string }>
}

/** The progress of a check. `done` and `total` are bytes. */
export interface Progress {
  readonly doing: 'listing' | 'reading'
  readonly done: number
  readonly total: number
  readonly wrong: number
}

/** The log line of every wrong file. */
export const warningWords = 'repository-verification warning'

/** The report in words: a line for each wrong file, each suite and each unread file, then figures. `fate` gives the fate of a wrong file. */
export function reportText(report: VerificationReport, fate: (wrong: WrongFile) => string): string {
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
  for (const { key, indexes } of report.contradictions) {
    const both = indexes.join(' and ')
    lines.push(`${key}: ${both} name different contents for it: an error of the archive`)
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
