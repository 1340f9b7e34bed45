/**
 * Answers a request that failed with a page for a person and JSON for a program.
 *
 * Each failure also leaves one record in the log, with category and code, and one for `authproxy explain`. The request ID on the
 * page leads to both.
 */

import type { Clock } from '../../async/clock.ts'
import { explainError, type Facts, Failure } from '../../errors.ts'
import { OriginFailure } from '../../http/client/errors.ts'
import { Fields } from '../../http/message/field.ts'
import { noContent, type Request, type Response } from '../../http/message/message.ts'
import { originForm } from '../../http/message/target.ts'
import { ContentTooSlow } from '../../http/proxy/forward.ts'
import { ClientGone } from '../../http/server/gather.ts'
import { MalformedContent } from '../../http/server/request-content.ts'
import type { JsonObject } from '../../json.ts'
import type { Logger } from '../../log/log.ts'
import type { AssertionFinding } from '../../saml/subject.ts'
import { acceptsHtml, isFramed, isNavigation } from '../access/navigation.ts'
import type { OutcomeFacts } from '../access/outcome.ts'
import type { RequestHead } from '../access/own-origin.ts'
import type { FailureRecord, Sender } from './failure-records.ts'
import { type FailureCode, type FailureText, failureTable } from './failures.ts'
import { english, fillText, type Sentence } from './language.ts'
import { json, type PageMaker, timeText } from './page.ts'

/** Answers a request that failed; HTML for navigations, JSON for everything else. */
export type FailurePage = (failure: FailureReport) => Response

/**
 * A failure, and the code whose text is shown. The failure's own code is exact and stable for the log; the text may be that of
 * another code.
 */
export type FailureReport = FailureFacts &
  ({ readonly code: FailureCode } | { readonly code: string; readonly as: FailureCode })

interface FailureFacts extends Pick<FailureText, 'details'> {
  readonly request: RequestHead
  /** Values for the `{name}` places of the text. */
  readonly words?: Readonly<Record<string, string>>
  /** The requirements that would have let the request pass, a text for each way. */
  readonly needed?: readonly string[]
  /** The operator's own text for the refusal. */
  readonly message?: string | undefined
  /** Further members of the JSON; they replace members of the same name. */
  readonly json?: JsonObject
  /** More fields of the response, such as Set-Cookie. */
  readonly fields?: Fields
  /** Private facts for the log. */
  readonly facts?: Facts
  readonly cause?: unknown
  /** Private results of checks, for `authproxy explain`. Secret and personal values are removed before they come here. */
  readonly findings?: readonly AssertionFinding[]
}

interface FailurePageTools {
  readonly page: PageMaker
  /** The command that explains the failure with this reference. */
  readonly explainCommand: (reference: string) => string
  /** The store of failure records. */
  readonly records: { readonly add: (record: FailureRecord) => unknown }
  readonly clientAddress: (request: RequestHead) => string
  /** Decides who sent a request, as far as its cookies prove. */
  readonly sender: (request: RequestHead) => Sender
  readonly clock: Clock
  readonly log: Logger
}

export function failurePageMaker(tools: FailurePageTools): FailurePage {
  const { page, explainCommand, records, clientAddress, sender, clock, log } = tools
  // Read now: by the first failure the files may be those of a newer version, or files may no longer be opened.
  failureTable()
  return report => {
    const { request, code, cause, facts, findings = [], fields, needed = [] } = report
    const { path } = originForm(request.target)
    const shown = 'as' in report ? report.as : report.code
    const said = textOf(report)
    const { category, status, reason, title, setting } = said
    const client = clientAddress(request)
    const about = { category, code, id: request.id, client, status }
    const known = setting === undefined ? facts : { setting, ...facts }
    const error = cause === undefined ? {} : { error: cause }
    const isRefusal = category === 'ACCESS-REFUSED'
    log[isRefusal ? 'info' : 'warn'](`${category} ${code}`, { ...about, ...known, ...error })
    const now = clock.now()
    records.add({
      ...about,
      shown,
      at: now,
      title,
      method: request.method,
      path,
      findings,
      facts: { ...known, ...(cause === undefined ? {} : { cause: explainError(cause) }) },
      sender: isRefusal ? 'refused' : sender(request),
    })
    const answered = { status, reason, fields }
    const { id: requestId } = request
    const answer = wantsPage(request)
      ? page({
          request,
          template: 'failure',
          framedBy: isFramed(request) ? 'self' : [],
          ...answered,
          view: say => ({
            ...textOf(report, say),
            category,
            requestId,
            time: timeText(now),
            explainCommand: explainCommand(requestId),
            message: report.message ?? false,
            neededLabel: needed.length > 0 && say('It is open to those who have one of these:'),
            needed,
            neededAlone: needed.length === 1 && needed[0],
            askingForHelp: say('If you ask for help, give this reference:'),
            contactLabel: say('You can ask here for help:'),
            forTheAdministrator: say('For the administrator'),
          }),
        })
      : json({ error: category, title, message: said.text, requestId, ...report.json }, answered)
    const outcome: OutcomeFacts = { outcome: 'failed', category, code, client }
    return { ...answer, facts: outcome }
  }
}

/**
 * The texts of a failure with their words filled in: for the person in the language of `say`, for the administrator in English.
 */
export function textOf(report: FailureReport, say = english.say) {
  const { words = {} } = report
  const found: FailureText = failureTable().codes['as' in report ? report.as : report.code]
  const { category, status, reason, title, text, administrator, action, setting } = found
  const person = found.person ?? tellAdministrator
  const details = [...(found.details ?? []), ...(report.details ?? [])]
  return {
    category,
    status,
    reason,
    setting,
    title: say(title),
    text: say(text, words),
    // What the button says is not said twice.
    advice: person.filter(sentence => sentence !== `${action?.label}.`).map(one => say(one)),
    administrator: administrator ?? false,
    hasDetails: details.length > 0,
    details: details.map(([name, value]) => ({ name, value: fillText(value, words) })),
    action: action && { href: fillText(action.href, words), label: say(action.label, words) },
  }
}

/** The advice when the person cannot do anything about the failure. */
const tellAdministrator: readonly Sentence[] = ['Tell your administrator the reference below.']

/** Whether the answer is a page: for a person who opens a page, and for a posted form that accepts HTML. */
function wantsPage(request: RequestHead): boolean {
  return isNavigation(request) || (request.method === 'POST' && acceptsHtml(request.fields))
}

/** The answer to a request during which an error was thrown: by the client, the backend or this service. */
export function errorResponse(
  request: Request,
  error: unknown,
  failurePage: FailurePage,
): Response {
  const told = error instanceof OriginFailure ? error : undefined
  const cause = told?.code === 'ORIGIN_ABORTED' ? told.cause : error
  const origins = cause instanceof OriginFailure ? cause : told
  if (cause instanceof ContentTooSlow) {
    return failurePage({ request, code: 'client_too_slow', cause })
  }
  if (cause instanceof MalformedContent) {
    return failurePage({ request, code: 'content_malformed', facts: cause.facts })
  }
  if (origins?.code === 'ORIGIN_REQUEST_UNFIT') {
    return failurePage({ request, code: 'request_unfit', cause: error })
  }
  // The client has gone away, so nothing has failed and no answer is read.
  if (error instanceof ClientGone) return gone
  if (origins !== undefined) {
    if (request.lifetime.over) return gone
    const code = backendCode(origins.code)
    const facts = { ...origins.facts, problem: origins.publicText }
    const as = UNREADABLE.includes(origins.code) ? 'backend_answer' : 'backend'
    return failurePage({ request, code, as, facts, cause: error })
  }
  const code = error instanceof Failure ? error.code.toLowerCase() : 'internal'
  return failurePage({ request, code, as: 'internal', cause: error })
}

/** How a failure of a connection to the backend is called: `backend_connect_refused`. */
export function backendCode(code: OriginFailure['code']): string {
  return code.toLowerCase().replace(/^origin_/, 'backend_')
}

/** The codes of answers of the backend that are not valid HTTP. */
const UNREADABLE: ReadonlyArray<OriginFailure['code']> = [
  'ORIGIN_MALFORMED',
  'ORIGIN_HEAD_TOO_LARGE',
]

const gone: Response = {
  status: 499,
  fields: Fields.empty,
  content: noContent,
  facts: { outcome: 'client-gone' } satisfies OutcomeFacts,
}
