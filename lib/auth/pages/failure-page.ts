/**
 * The answer to a request that failed: a page for a person, JSON for a program.
 *
 * Each failure also leaves one record in the log, with category and code, and one for `authproxy explain`. The request ID on the
 * page leads to both.
 */
import type { Clock } from '../../async/clock.ts'
import { explainError, type Facts } from '../../errors.ts'
import type { Fields } from '../../http/message/field.ts'
import type { Request, Response } from '../../http/message/message.ts'
import type { Logger } from '../../log/log.ts'
import { acceptsHtml, isNavigation } from '../access/navigation.ts'
import type { Finding } from '../saml/core/check-assertion.ts'
import type { FailureRecords } from './failure-records.ts'
import { type FailureCode, type FailureText, failures } from './failures.ts'
import { json, type PageMaker, timeText } from './page.ts'

/** Answers a request that failed; HTML for navigations, JSON for everything else. */
export type FailurePage = (failure: FailureReport) => Response

export type FailureReport = FailureFacts & (Coded | WordedFailure)

/** Whose text is shown: that of the code, which is exact and stable for the log, or that of another one. */
type Coded = { readonly code: FailureCode } | { readonly code: string; readonly as: FailureCode }

/** A text that does not stand in the table. */
export type WordedFailure = Omit<FailureText, 'person' | 'administrator'> & {
  readonly code: string
  readonly advice?: readonly string[]
}

interface FailureFacts extends Pick<FailureText, 'action' | 'details'> {
  readonly request: Request
  /** Words for the places of the text. */
  readonly words?: Readonly<Record<string, string>>
  /** More fields of the response, such as Set-Cookie. */
  readonly fields?: Fields
  /** Private: for the log. */
  readonly facts?: Facts
  readonly cause?: unknown
  /** Private: what was checked, for `authproxy explain`. Secret and personal values are cut before they come here. */
  readonly findings?: readonly Finding[]
}

export interface FailurePageTools {
  readonly page: PageMaker
  readonly records: FailureRecords
  readonly clientAddress: (request: Request) => string
  readonly clock: Clock
  readonly log: Logger
}

/** Makes failure pages. */
export function failurePageMaker(tools: FailurePageTools): FailurePage {
  const { page, records, clientAddress, clock, log } = tools
  return report => {
    const { request, code, cause, facts, findings = [], fields } = report
    const said = textOf(report)
    const { category, status, reason, title, text, advice = [], details = [], action } = said
    const client = clientAddress(request)
    const about = { category, code, id: request.id, client, status }
    const error = cause === undefined ? {} : { error: cause }
    log.warn(`${category} ${code}`, { ...about, ...facts, ...error })
    const now = clock.now()
    records.add({
      ...{ ...about, at: now, title, method: request.method, path: pathOf(request), findings },
      facts: { ...facts, ...(cause === undefined ? {} : { cause: explainError(cause) }) },
    })
    const answered = { status, reason, fields }
    const { id: requestId } = request
    const answer = wantsPage(request)
      ? page({
          template: 'failure',
          ...answered,
          view: {
            ...{ title, text, category, requestId, time: timeText(now), action: action ?? false },
            ...{ hasAdvice: advice.length > 0, advice, hasDetails: details.length > 0 },
            details: details.map(([name, value]) => ({ name, value })),
          },
        })
      : json({ error: category, title, message: text, requestId }, answered)
    return { ...answer, facts: { outcome: 'failed', category, code, client } }
  }
}

type Text = Omit<WordedFailure, 'code'>

/** What is said of a failure. */
export function textOf(report: FailureReport): Text {
  if ('title' in report) return report
  const { words = {} } = report
  const fill = (text: string) => text.replace(/\{(\w+)\}/g, (_, name: string) => words[name] ?? '')
  const {
    person = [],
    administrator,
    action,
    details = [],
    ...found
  }: FailureText = failures['as' in report ? report.as : report.code]
  return {
    ...found,
    text: fill(found.text),
    advice: administrator === undefined ? person : [...person, `Administrator: ${administrator}`],
    details: [
      ...details.map(([name, value]) => [name, fill(value)] as const),
      ...(report.details ?? []),
    ],
    ...(action && { action: { href: fill(action.href), label: fill(action.label) } }),
  }
}

/** A person gets a page; so does a form that was posted, whatever it accepts. */
function wantsPage(request: Request): boolean {
  return isNavigation(request) || (request.method === 'POST' && acceptsHtml(request.fields))
}

function pathOf({ target }: Request): string {
  if (target.form === 'origin') return target.path
  return target.form === 'absolute' ? target.uri.path : '*'
}
