/**
 * The answer to a check, by the verdict of the gate and the contract of the edge.
 *
 * # Facts
 * - Envoy passes a request on for status 200 alone; the other edges take 200 as well.
 * - nginx takes 401 and 403 as a decision and turns any other status into an error.
 * - An edge that copies fields of the answer leaves the client's own where the answer has none, so each field of the identity is there.
 */

import { continueWhenReady } from '../../async/ready.ts'
import { Fields } from '../../http/message/field.ts'
import { noContent, type Response } from '../../http/message/message.ts'
import { textResponse } from '../../http/message/reply.ts'
import { pathAndQuery } from '../../http/message/target.ts'
import { isNavigation } from '../access/navigation.ts'
import type { OutcomeFacts } from '../access/outcome.ts'
import { requestIdField } from '../access/own-fields.ts'
import type { Config } from '../config/config.ts'
import { type Admission, admit } from '../gate/admission.ts'
import {
  type DeniedRequest,
  formNotKept,
  loginFacts,
  loginOfPage,
  programNeedsLogin,
  refusedByRule,
} from '../gate/denials.ts'
import type { Verdict } from '../gate/gate.ts'
import { longestTarget, renewalAddress, unaskedPaths } from '../gate/gateway-paths.ts'
import type { SessionIdentity } from '../identity/session-identity.ts'
import type { Sessions } from '../session/sessions.ts'
import type { ReadSession } from '../session/token.ts'
import { type Contract, redirectField } from './contract.ts'

/** The decision of a check: the request may pass, or it gets this answer. */
type CheckDecision = { readonly admission: Admission } | { readonly answer: Response }

const NOT_STORED = Fields.of(['Cache-Control', 'no-store'])

/** Decides the request that a check asks about. */
export function decide(
  verdict: Verdict,
  denied: DeniedRequest,
  by: {
    readonly contract: Contract
    readonly sessions: Pick<Sessions, 'wantsRenewal' | 'leadsToRenewal'>
    readonly identity: Pick<SessionIdentity, 'wholeOf'>
  },
): CheckDecision | Promise<CheckDecision> {
  const { contract } = by
  const { request, place, saml } = denied
  const { method } = request
  switch (verdict.verdict) {
    case 'authenticated':
    case 'passthrough':
    case 'anyone':
    case 'preflight': {
      const identityOf = (session: ReadSession | undefined) =>
        by.identity.wholeOf(session, { method, path: place.path })
      return continueWhenReady(admit(verdict, denied, identityOf), admitted => {
        if ('refusal' in admitted) return { answer: refusal(admitted.refusal, contract) }
        return admittedAnswer(admitted, denied, by)
      })
    }
    case 'refused':
      return { answer: refusal(refusedByRule(verdict, denied), contract) }
    case 'login-needed': {
      const facts = loginFacts(verdict)
      if (verdict.from === 'api') {
        const answer = programNeedsLogin(verdict, denied)
        return { answer: withFacts(answer, { outcome: 'unauthenticated', ...facts }) }
      }
      if (method !== 'GET' && method !== 'HEAD') {
        const answer = formNotKept('off', verdict, denied)
        return { answer: withFacts(answer, { outcome: 'login', ...facts }) }
      }
      const target = pathAndQuery(place)
      const to =
        target.length > longestTarget
          ? loginOfPage(verdict, denied)
          : saml.loginAddress(target, verdict.how)
      return { answer: led(to, contract, { outcome: 'login', ...facts }) }
    }
    default:
      return { answer: misroutedAnswer(denied.config) }
  }
}

/** What an admission becomes at an edge: the way to the renewal of its session, a refusal of what the edge would pass on, or itself. */
function admittedAnswer(
  admission: Admission,
  { request, place, config }: DeniedRequest,
  { contract, sessions }: Omit<Parameters<typeof decide>[2], 'identity'>,
): CheckDecision {
  const { session, refuses } = admission
  // Most sessions need no renewal, and this is the cheapest condition, so it comes first.
  if (session !== undefined && request.method === 'GET' && sessions.wantsRenewal(session)) {
    const renewal = isNavigation(request)
      ? renewalAddress(config.baseUrl, pathAndQuery(place))
      : undefined
    if (renewal !== undefined && sessions.leadsToRenewal(session)) {
      return { answer: led(renewal, contract, { outcome: 'renewal', user: session.subject }) }
    }
  }
  return refuses !== undefined && request.fields.has(refuses)
    ? { answer: credentialsOfPreflight }
    : { admission }
}

/** The fields for a request that may pass, without its request ID: the identity, and the cookies of the application. */
export function allowedFields(identity: Fields, cookies: string): Fields {
  return identity.followedBy(['Cookie', cookies, 'Cache-Control', 'no-store'])
}

/** The answer that lets a request pass. It alone has the credential for the application: a browser may see other answers. */
export function passAnswer(
  fields: Fields,
  { id, credential }: { readonly id: string; readonly credential: Fields },
  facts: OutcomeFacts,
): Response {
  const own = [...credential.flat, requestIdField, id]
  return { status: 200, fields: fields.followedBy(own), content: noContent, facts }
}

/** An answer in one sentence, which is never stored. */
export function sentenceAnswer(status: number, sentence: string, facts: OutcomeFacts): Response {
  return textResponse(status, sentence, { fields: NOT_STORED, facts })
}

/** The answer to a check for a path that is answered at the gateway. */
export function misroutedAnswer(config: Config): Response {
  return sentenceAnswer(
    404,
    `This path is answered by authproxy itself: at the edge, route ${unaskedPaths(config)} to proxy.listenAddress, before the check.`,
    { outcome: 'misrouted' },
  )
}

/** The answer to a preflight that no browser has sent. An edge would pass the field on. */
const credentialsOfPreflight = sentenceAnswer(
  403,
  'Authorization: a preflight passes without a session, and therefore without credentials, which no browser sends with one.',
  { outcome: 'refused', because: 'foreign-field' },
)

/** Redirects a browser in the way the edge understands. */
function led(to: string, { redirects }: Contract, facts: OutcomeFacts): Response {
  const fields =
    redirects === 'answer'
      ? Fields.of(['Location', to])
      : Fields.of([redirectField, to], ['WWW-Authenticate', 'Authproxy'])
  return {
    status: redirects === 'answer' ? 302 : 401,
    fields: Fields.of(...fields, ...NOT_STORED, ['Vary', 'Cookie']),
    content: noContent,
    facts,
  }
}

/** The answer to a refused request. An edge that turns other statuses into errors gets 403. */
function refusal(answer: Response, { redirects }: Contract): Response {
  const { reason, ...rest } = answer
  const other = redirects === 'field' && answer.status !== 401 && answer.status !== 403
  return withFacts(other ? { ...rest, status: 403 } : answer, { outcome: 'refused' })
}

function withFacts(answer: Response, facts: OutcomeFacts): Response {
  return { ...answer, facts: { ...answer.facts, ...facts } }
}
