/**
 * What somebody sees when a request cannot be answered, and what is written down of it: one record in the log with category
 * and code, one for `explain`, one page with a fixed text and the request ID that leads to both.
 */
import type { Clock } from '../../async/clock.ts'
import { explainError, type Facts } from '../../errors.ts'
import { Fields } from '../../http/message/field.ts'
import type { Request, Response } from '../../http/message/message.ts'
import type { Logger } from '../../log/log.ts'
import { acceptsHtml, isNavigation } from '../gate.ts'
import type { Finding } from '../saml/core/assertion-verdict.ts'
import type { FailureRecords } from './failure-records.ts'
import { ownFields, type PageMaker } from './page.ts'

/**
 * A page that says what went wrong: written to the log with its category and code, kept for `authproxy explain`, answered
 * with fixed public text and the request ID. HTML for navigations, JSON for everything else.
 */
export type FailurePage = (failure: FailureReport) => Response

export interface FailureReport {
  readonly request: Request
  readonly category: 'SAML-ERROR' | 'PROXY-ERROR'
  /** Exact and stable, for the log: `signature_unknown_key`. */
  readonly code: string
  readonly status: number
  /** Reason phrase when it is to differ from the standard one. */
  readonly reason?: string
  /** Public: heading, what happened, and what the reader may try. Fixed texts, nothing of the message in them. */
  readonly title: string
  readonly text: string
  readonly advice?: readonly string[]
  /** A link or a button below the text; `href` is a path of ours or an address of the IdP. */
  readonly action?: { readonly href: string; readonly label: string }
  /** Small public figures that help: both clocks, sizes of cookies. */
  readonly details?: ReadonlyArray<readonly [name: string, value: string]>
  /** More fields of the response, such as Set-Cookie. */
  readonly fields?: Fields
  /** Private: for the log. */
  readonly facts?: Facts
  readonly cause?: unknown
  /** Private: what was checked, for `authproxy explain`. Values that are secret or personal are cut before they come here. */
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
  return failure => {
    writeDown(failure, tools)
    const response = wantsPage(failure.request) ? page(failure, tools) : data(failure)
    const { category, code } = failure
    return { ...response, facts: { outcome: 'failed', category, code } }
  }
}

function writeDown(
  failure: FailureReport,
  { records, clientAddress, clock, log }: FailurePageTools,
) {
  const { request, category, code, status, title, cause } = failure
  const client = clientAddress(request)
  const about = { category, code, id: request.id, client, status }
  const facts = { ...failure.facts, ...(cause === undefined ? {} : { error: cause }) }
  log.warn(`${category} ${code}`, { ...about, ...facts })
  records.add({
    ...about,
    at: clock.now(),
    title,
    method: request.method,
    path: pathOf(request),
    facts: { ...failure.facts, ...(cause === undefined ? {} : { cause: explainError(cause) }) },
    findings: failure.findings ?? [],
  })
}

/** A person gets a page; so does a form that was posted, whatever it accepts. */
function wantsPage(request: Request): boolean {
  return isNavigation(request) || (request.method === 'POST' && acceptsHtml(request.fields))
}

function page(failure: FailureReport, { page: make, clock }: FailurePageTools): Response {
  const { advice = [], details = [], action, category, request, status, reason, fields } = failure
  return make({
    template: 'failure',
    status,
    ...(reason === undefined ? {} : { reason }),
    ...(fields === undefined ? {} : { fields }),
    view: {
      title: failure.title,
      text: failure.text,
      hasAdvice: advice.length > 0,
      advice,
      hasDetails: details.length > 0,
      details: details.map(([name, value]) => ({ name, value })),
      hasAction: action !== undefined,
      href: action?.href ?? '',
      label: action?.label ?? '',
      category,
      requestId: request.id,
      time: new Date(clock.now()).toISOString().replace(/\.\d+Z$/, 'Z'),
    },
  })
}

function data({ category, title, text, request, status, reason, fields }: FailureReport): Response {
  const message = { error: category, title, message: text, requestId: request.id }
  return {
    status,
    ...(reason === undefined ? {} : { reason }),
    fields: Fields.fromFlat([
      ...['Content-Type', 'application/json; charset=utf-8'],
      ...ownFields.flat,
      ...(fields?.flat ?? []),
    ]),
    content: { kind: 'bytes', bytes: Buffer.from(`${JSON.stringify(message)}\n`) },
  }
}

function pathOf({ target }: Request): string {
  if (target.form === 'origin') return target.path
  return target.form === 'absolute' ? target.uri.path : '*'
}
