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
import { acceptsHtml, isNavigation } from '../gate.ts'
import type { Finding } from '../saml/core/assertion-verdict.ts'
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

interface FailureFacts {
  readonly request: Request
  /** Words for the places of the text. */
  readonly words?: Readonly<Record<string, string>>
  /** A link below the text; `href` is a path of ours or an address of the IdP. */
  readonly action?: { readonly href: string; readonly label: string }
  /** Small public figures that help: both clocks, sizes of cookies. */
  readonly details?: ReadonlyArray<readonly [name: string, value: string]>
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
  return report => {
    const text = textOf(report)
    writeDown(report, text, tools)
    const { category } = text
    const make = wantsPage(report.request) ? page : data
    return {
      ...make(report, text, tools),
      facts: { outcome: 'failed', category, code: report.code },
    }
  }
}

type Text = Omit<WordedFailure, 'code'>

/** What is said of a failure. */
export function textOf(report: FailureReport): Text {
  if ('title' in report) return report
  const {
    person = [],
    administrator,
    ...found
  }: FailureText = failures['as' in report ? report.as : report.code]
  const { words = {} } = report
  return {
    ...found,
    text: found.text.replace(/\{(\w+)\}/g, (_, name: string) => words[name] ?? ''),
    advice: administrator === undefined ? person : [...person, `Administrator: ${administrator}`],
  }
}

function writeDown(
  { request, code, cause, facts, findings = [] }: FailureReport,
  { category, status, title }: Text,
  { records, clientAddress, clock, log }: FailurePageTools,
): void {
  const about = { category, code, id: request.id, client: clientAddress(request), status }
  log.warn(`${category} ${code}`, {
    ...about,
    ...facts,
    ...(cause === undefined ? {} : { error: cause }),
  })
  records.add({
    ...about,
    at: clock.now(),
    title,
    method: request.method,
    path: pathOf(request),
    facts: { ...facts, ...(cause === undefined ? {} : { cause: explainError(cause) }) },
    findings,
  })
}

/** A person gets a page; so does a form that was posted, whatever it accepts. */
function wantsPage(request: Request): boolean {
  return isNavigation(request) || (request.method === 'POST' && acceptsHtml(request.fields))
}

function page(report: FailureReport, said: Text, tools: FailurePageTools): Response {
  const { request, details = [], action, fields } = report
  const { category, status, reason, title, text, advice = [] } = said
  return tools.page({
    template: 'failure',
    ...{ status, reason, fields },
    view: {
      ...{
        title,
        text,
        category,
        advice,
        requestId: request.id,
        time: timeText(tools.clock.now()),
      },
      hasAdvice: advice.length > 0,
      hasDetails: details.length > 0,
      details: details.map(([name, value]) => ({ name, value })),
      hasAction: action !== undefined,
      href: action?.href ?? '',
      label: action?.label ?? '',
    },
  })
}

function data({ request, fields }: FailureReport, said: Text): Response {
  const { category: error, status, reason, title, text: message } = said
  return json({ error, title, message, requestId: request.id }, { status, reason, fields })
}

function pathOf({ target }: Request): string {
  if (target.form === 'origin') return target.path
  return target.form === 'absolute' ? target.uri.path : '*'
}
