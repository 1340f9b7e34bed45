/**
 * Answers to requests that cannot pass, where the table of failures alone does not make them.
 */
import { Failure } from '../../errors.ts'
import {
  OriginAborted,
  OriginFailure,
  OriginRequestUnfit,
} from '../../http/client/origin-errors.ts'
import { Fields } from '../../http/message/field.ts'
import { noContent, type Request, type Response } from '../../http/message/message.ts'
import { ContentTooSlow } from '../../http/proxy/forward.ts'
import { ClientGone } from '../../http/server/gather.ts'
import type { FailurePage } from './failure-page.ts'
import { type NotKept, whyNotKept } from './failures.ts'
import { json } from './page.ts'

/** The answer to a request during which an error was thrown: by the client, the backend or this service. */
export function failed(request: Request, error: unknown, failurePage: FailurePage): Response {
  const cause = error instanceof OriginAborted ? error.cause : error
  if (cause instanceof ContentTooSlow)
    return failurePage({ request, code: 'client_too_slow', cause })
  if (error instanceof OriginRequestUnfit) {
    return failurePage({ request, code: 'request_unfit', cause: error })
  }
  // The client reads no answer, and nothing has failed.
  if (error instanceof ClientGone) return gone
  if (error instanceof OriginFailure) {
    if (request.signal.aborted) return gone
    const code = error.code.toLowerCase().replace(/^origin_/, 'backend_')
    const facts = { ...error.facts, problem: error.publicText }
    return failurePage({ request, code, as: 'backend', facts, cause: error })
  }
  const known = error instanceof Failure
  const problem = known ? error.publicText : 'The service made a mistake.'
  const code = known ? error.code.toLowerCase() : 'internal'
  return failurePage({ request, code, as: 'internal', words: { problem }, cause: error })
}

const gone: Response = {
  status: 499,
  fields: Fields.empty,
  content: noContent,
  facts: { outcome: 'client-gone' },
}

/**
 * 401 for clients that cannot show a login page: scripts, WebSockets, event streams, programs. It names the address to log in at
 * and leaves no state behind.
 */
export function needsLogin(request: Request, login: string): Response {
  const safe = ['GET', 'HEAD', 'OPTIONS'].includes(request.method)
  const text = 'There is no valid session. Open the login address in a browser window.'
  const message = {
    error: 'login_required',
    message: safe ? text : `${text} The request was not kept: send it again after the login.`,
    ...(safe ? {} : { kept: false }),
    login,
    requestId: request.id,
  }
  return json(message, { status: 401, fields: challenge(login) })
}

/** RFC 9110 section 15.5.2 wants a challenge; one of a scheme browsers do not know shows no dialogue. */
function challenge(address: string): Fields {
  const scheme = `Authproxy login="${address.replace(/["\\]/g, '')}"`
  return Fields.of(['WWW-Authenticate', scheme], ['X-Authproxy-Login', address])
}

/** 401 for a form that cannot be kept until its sender has logged in: said before the login, while the browser still has it. */
export function notKept(
  request: Request,
  asked: { readonly because: NotKept; readonly login: string; readonly limit: number },
  failurePage: FailurePage,
): Response {
  const { because, login, limit } = asked
  return failurePage({
    request,
    code: 'request_not_kept',
    words: { because: whyNotKept[because], login },
    ...(because === 'too-large' ? { details: [['Limit', `${limit} bytes`]] } : {}),
    fields: challenge(login),
    facts: { because },
  })
}
