/**
 * Why a request fails, and what to do about it: one table, a row for each code of the log, in templates/auth/failures.json. The page, the
 * log, `authproxy explain` and the list in docs/troubleshooting.md are made of it.
 *
 * Texts are public and fixed; `{name}` stands for a word the report of the failure gives. The texts for the person are shown in
 * the language of the browser. Those for the administrator are in English, like the log, the settings and the manuals.
 *
 * Most refused answers of the IdP share one text, so that an attacker cannot learn from the page which check refused a forged
 * answer. A failure has its own text where the person, the administrator or the IdP can do something about it.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type file from '../../../templates/auth/failures.json'
import { packageRoot } from '../../package.ts'
import type { FailureCategory } from '../access/outcome.ts'
import type { Sentence } from './language.ts'

/**
 * A code with a row. Some rows say more exactly what a code of the log means: `idp_name_id` is one of `idp_status`, `lost_clock` of
 * `login_loop`.
 */
export type FailureCode = keyof typeof file.codes

export interface FailureText {
  readonly category: FailureCategory
  readonly status: number
  /** Reason phrase when it differs from the standard one. */
  readonly reason?: string
  readonly title: Sentence
  readonly text: Sentence
  /** The things the person may try, a sentence each. */
  readonly person?: readonly Sentence[]
  /** The sentence for the administrator on the page. */
  readonly administrator?: string
  /** What `authproxy explain` says besides, the most likely remedy first. */
  readonly advice?: readonly string[]
  /** The setting that decides it, for the log. */
  readonly setting?: string
  /** The check of `authproxy doctor` that finds it. */
  readonly doctor?: string
  /** A link below the text, to a path of ours or an address of the IdP. */
  readonly action?: { readonly href: string; readonly label: Sentence }
  /** Small public figures that help the administrator. */
  readonly details?: ReadonlyArray<readonly [name: string, value: string]>
  /** The statuses of the IdP that mean this (saml-core-2.0-os section 3.2.2.2), by their short names. */
  readonly idpStatuses?: readonly string[]
}

/** Why a post is not kept. */
export type NotKept = keyof typeof file.notKept

interface FailureTable {
  readonly codes: Readonly<Record<FailureCode, FailureText>>
  /** The end of the sentence in `request_not_kept`, and the advice to the administrator. */
  readonly notKept: Readonly<
    Record<NotKept, { readonly because: Sentence; readonly advice?: string }>
  >
}

let table: FailureTable | undefined

/** The table, read from its file when it is first asked for. */
export function failureTable(): FailureTable {
  table ??= readTable(join(packageRoot(), 'templates', 'auth', 'failures.json'))
  return table
}

/** The row of a code; undefined when it has none. */
export function failureText(code: string): FailureText | undefined {
  return isFailureCode(code) ? failureTable().codes[code] : undefined
}

export function isFailureCode(code: string): code is FailureCode {
  return Object.hasOwn(failureTable().codes, code)
}

/** The code whose row says what a status of the IdP means; undefined for others. */
export function codeOfStatus(status: string): FailureCode | undefined {
  const codes = Object.keys(failureTable().codes).filter(isFailureCode)
  return codes.find(code => failureTable().codes[code].idpStatuses?.includes(status))
}

/** Reads the file. A row has the members of those that `like` names, and its own in their place. */
function readTable(path: string): FailureTable {
  const { shared, codes, notKept } = JSON.parse(readFileSync(path, 'utf8'))
  const whole = (name: string): object => {
    const { like = [], ...own } = codes[name] ?? shared[name]
    return Object.assign({}, ...[like].flat().map(whole), own)
  }
  const rows = Object.keys(codes).map(code => [code, whole(code)])
  return { codes: Object.fromEntries(rows), notKept }
}
