/**
 * Makes the responses without a file. Each has a status and a sentence.
 *
 * # Facts
 * - apt tries again after 500, 502, 503, 504 and 599 with a text. When all tries fail, `apt-get update` warns, keeps its lists and
 *   ends with 0. After any other error it does not try again and ends with 100. After a 404 for an index it tries the next compression.
 * - So an outage is 503 with a text, a refusal is 403 with a sentence that names the setting, and wrong content is 520: without a proxy,
 *   `apt-get update` would also end with 100 and name the cause. No registered status says that the origin sent wrong content and is
 *   an error for apt; reverse proxies use 520 for unusable responses of an origin. No response of this proxy is 507.
 * - apt shows the reason phrase and never the text.
 */
import { type Facts, Failure } from '../../errors.ts'
import { OriginFailure } from '../../http/client/errors.ts'
import { formatCacheStatus } from '../../http/message/cache-status.ts'
import { Fields } from '../../http/message/field.ts'
import type { Request, Response } from '../../http/message/message.ts'
import { textResponse, withoutContent } from '../../http/message/reply.ts'
import { malformedResponse } from '../../http/server/exchanges.ts'
import type { Logger } from '../../log/log.ts'
import { isIssuerUnknown } from '../../x509/certificate-problem.ts'
import { lateAdvice, offlineSentence } from '../fetch/failures.ts'
import { isRedirect, RedirectRefused } from '../fetch/origin-question.ts'
import { isAnswer, isOfParent } from '../fetch/revalidation.ts'
import type { Refusal } from '../policy/policy.ts'
import { type FileFacts, factsByParent } from '../request/destination.ts'
import type { MissReason, OutcomeFacts } from '../rfc9111/outcome.ts'
import { type AllowedRequest, cacheName } from './representation.ts'

type Asked = Pick<AllowedRequest, 'request' | 'file'>

/**
 * The response for an origin's status other than 200, with a sentence instead of the origin's page. `gives` says that the origin has
 * given other files. Then its 403 is about this file, and keeps its usual phrase; an object store answers 403 for absent files.
 */
export function originStatusResponse(
  asked: Asked,
  said: {
    status: number
    fields?: Fields
    because: MissReason
    parent?: string | undefined
    gives?: boolean
  },
): Response {
  const { fields = Fields.empty, because } = said
  const ours = refusesCredentials(asked, said.status)
  const answered = isAnswer(said) || lastingFailures.has(said.status) ? said.status : 503
  // A 401 would make the client look for credentials of its own.
  const status = ours ? 403 : answered
  const location = isRedirect(status) ? fields.get('Location') : undefined
  const redirected = location !== undefined && ('redirected' satisfies MissReason)
  const when = because === 'not-found-remembered' ? ' a moment ago' : ''
  const about = 'parent' in said ? factsByParent(asked.file.about, said.parent) : asked.file.about
  const sentence = ours
    ? `The origin ${about.origin} answered ${said.status}${when}: it refuses the credentials of this proxy, or the file has no credentials for this place. See \`${asked.file.confinement?.credentials}\` in the cachesvc.yaml of the proxy; credentials of the client were not asked for.`
    : answerOf(about, said.status, { when, gives: said.gives })
  const more = Fields.of(
    ['Location', location],
    ['WWW-Authenticate', ours ? undefined : fields.get('WWW-Authenticate')],
    ['Retry-After', retryAfter(fields)],
    ['X-Cache', 'MISS'],
    ['Cache-Status', missed({ forwardStatus: said.status, detail: redirected || because })],
  )
  const outcome = redirected
    ? ({ outcome: 'miss', because: redirected } as const)
    : ({
        outcome: 'failed',
        because: `${isOfParent(said.status, about.parent) ? 'parent' : 'origin'}-${said.status}`,
      } as const)
  const facts = { ...outcome, ...about }
  const plain = said.gives === true && !ours && about.parent === undefined
  const words = status === 403 ? !plain : hasOwnPhrase(status)
  const reason = words ? reasonPhrase(sentence) : undefined
  return sentenceResponse(asked.request, status, sentence, { fields: more, facts, reason })
}

/**
 * The failures that another try does not change: the origin does not know the method or the version, or a network wants a login first
 * (RFC 6585 section 6). apt takes 503 for a short failure and ends with 0, so its user would not learn of these.
 */
const lastingFailures: ReadonlySet<number> = new Set([501, 505, 511])

/** Whether the reason phrase says who answered what. apt shows nothing else of a response. */
function hasOwnPhrase(status: number): boolean {
  return status >= 500 || status === 402 || status === 429
}

/** The possible causes when an origin refuses a plain request. */
const suspicion =
  ' If it answers without this proxy, it refuses the agent or Via of the proxy: see `user_agent`, `via` and `passthrough_domains` in cachesvc.yaml.'
/** What to do about 429 (Too Many Requests). */
const limits = ' It limits requests or connections: see `archives[].connections` in cachesvc.yaml.'

/** A sentence that says which side answered with this status. */
export function answerOf(
  { origin, parent }: FileFacts,
  status: number,
  {
    when = '',
    gives = false,
  }: { readonly when?: string; readonly gives?: boolean | undefined } = {},
): string {
  if (parent === undefined) {
    // Some servers answer 500 to what they do not expect in a request.
    const suspected = (status === 403 || status >= 500) && !gives
    const hint = status === 429 ? limits : suspected ? suspicion : ''
    return `The origin ${origin} answered ${status}${when}.${hint}`
  }
  if (!isOfParent(status, parent) && status < 500) {
    return `The origin ${origin}, asked through the parent proxy ${parent}, answered ${status}${when}.`
  }
  return `The parent proxy ${parent} answered ${status}${when} for ${origin}: it refuses or cannot reach this host, or the origin fails. A host that is to be asked directly belongs under \`parent_proxy.except\`.`
}

/** Whether a status is about the credentials with which this proxy asks the archive. */
function refusesCredentials({ file }: Pick<Asked, 'file'>, status: number): boolean {
  return file.confinement?.credentials !== undefined && (status === 401 || status === 403)
}

/** The field Cache-Status for a request that the store could not answer. */
function missed(more: { readonly forwardStatus?: number; readonly detail: string }): string {
  return formatCacheStatus(cacheName, { hit: false, forward: 'uri-miss', ...more })
}

/** The statuses of failures that another try does not change. All other failures get 503, after which apt tries again. */
const statusOf: Readonly<Record<string, number>> = {
  'wrong-digest': 520,
  'wrong-size': 520,
  ORIGIN_IMPOSTOR: 520,
  RELEASE_OUTDATED: 520,
  RELEASE_REFUSED: 520,
  REDIRECT_LOOP: 508,
  REDIRECT_REFUSED: 520,
  ORIGIN_MALFORMED: 520,
  ORIGIN_HEAD_TOO_LARGE: 520,
  STALE_FORBIDDEN: 504,
  offline: 504,
}

/** The response when the origin gave no usable answer, and no stored file can answer instead. */
export function unavailableResponse(asked: Asked, failure: Failure): Response {
  const refusal = refusalOf(failure)
  if (refusal !== undefined) return refusedResponse(asked.request, refusal)
  const { code } = failure
  const { origin, parent } = asked.file.about
  const { address } = failure.facts
  const at = typeof address === 'string' && parent === undefined ? ` at ${address}` : ''
  const way = `${origin}${at}, ${parentPhrase(failure, parent)}${code}`
  const late = code === 'ORIGIN_FIELDS_TIMEOUT' ? ` ${lateAdvice}.` : ''
  const sentence = `${failure.publicText} (${way})${late}${houseAuthority(failure)}`
  const fields = Fields.of(['X-Cache', 'MISS'], ['Cache-Status', missed({ detail: code })])
  const reason = reasonPhrase(`${failure.publicText}${late}`)
  return failedResponse(asked, code, { status: statusOf[code] ?? 503, reason, sentence, fields })
}

/** The answer to a target that asks for no file. */
export function withoutTargetResponse(refused: {
  readonly status: number
  readonly sentence: string
}): Response {
  return { ...malformedResponse(refused), reason: reasonPhrase(refused.sentence) }
}

/** The most characters of a reason phrase that apt reads. */
const longestPhrase = 300

/** A sentence as a reason phrase. apt shows the phrase in one line, and no other part of a response. */
export function reasonPhrase(sentence: string): string {
  return sentence
    .replace(/[^\x20-\x7e]/g, '?')
    .slice(0, longestPhrase)
    .replace(/\.$/, '')
}

/** Advice about a certificate whose issuer is unknown here; empty for other failures. */
function houseAuthority({ code, facts }: Failure): string {
  const reason = facts['reason']
  const unknown =
    typeof reason === 'string' &&
    (isIssuerUnknown(reason) || reason === 'DEPTH_ZERO_SELF_SIGNED_CERT')
  return code === 'ORIGIN_TLS_CERTIFICATE' && unknown
    ? ' If it comes from a CA of your own, name the file of that CA under `https.origin_ca`.'
    : ''
}

/** The words about the parent proxy at which a request failed, else about the planned one; empty without one. */
export function parentPhrase({ facts }: Failure, planned: string | undefined): string {
  const parent = typeof facts['parent'] === 'string' ? facts['parent'] : planned
  return parent === undefined ? '' : `through the parent proxy ${parent}, `
}

/** A sentence for clients and operators that says why there is no detached signature. */
export const signatureIsOfAnother =
  'Clients keep an earlier Release file, for which no signature is stored. The signature that the origin has now belongs to another Release file.'

/**
 * The status and the sentence where they depend on the reason alone:
 * - only-if-cached, offline: the file is not stored and must not be fetched (RFC 9111 section 5.2.1.7)
 * - suite-withheld: clients of a delayed suite do not get its Release file in this form
 * - signature-withheld: clients keep a Release file that was adopted without a signature
 */
export const withoutFile = {
  'only-if-cached': [504, 'The file is not stored here and the request forbids fetching it.'],
  offline: [504, offlineSentence],
  'suite-withheld': [
    404,
    'This archive has a delay or a hold, and its suite is given in the other form, InRelease or Release with Release.gpg, which clients asked for first.',
  ],
  'signature-withheld': [404, signatureIsOfAnother],
} as const

/** The sentence of the 504 for a tunnel. */
export const tunnelOffline = 'This proxy is offline (`offline`): it opens no tunnel.'

export function withoutFileResponse(asked: Asked, because: keyof typeof withoutFile): Response {
  const [status, sentence] = withoutFile[because]
  const reason = status === 504 ? reasonPhrase(sentence) : undefined
  return failedResponse(asked, because, { status, reason, sentence })
}

/** The response when there is no file to give. */
export function failedResponse(
  { request, file }: Asked,
  because: string,
  says: Pick<Response, 'status' | 'reason'> & {
    readonly sentence: string
    readonly fields?: Fields
  },
): Response {
  const { status, sentence, ...more } = says
  const facts = { outcome: 'failed', because, ...file.about } as const
  return sentenceResponse(request, status, sentence, { ...more, facts })
}

/** The 403 for a refusal by the policy, with the sentence that names the rule. */
export function refusedResponse(request: Request, { deny, sentence }: Refusal): Response {
  const facts = { outcome: 'refused', because: deny } as const
  return sentenceResponse(request, 403, sentence, { facts, reason: reasonPhrase(sentence) })
}

/** The 429 for a request on a connection beyond the limit of its client. */
export function tooManyConnectionsResponse(request: Request, most: number | undefined): Response {
  const { address } = request.client
  const sentence = `${address} has more connections to this proxy than \`limits.per_client.connections\` allows (${most ?? 'no limit now'}); close some, raise it, or add the network to \`limits.per_client.except\`.`
  return sentenceResponse(request, 429, sentence, {
    fields: Fields.of(['Retry-After', '2']),
    facts: { outcome: 'refused', because: 'limits.per_client.connections' },
    reason: reasonPhrase(sentence),
  })
}

/** The policy's refusal in a failure, because some rules are checked only after DNS or a redirect. Undefined for other failures. */
export function refusalOf(error: unknown): Refusal | undefined {
  if (error instanceof OriginFailure && error.code === 'ORIGIN_ADDRESS_REFUSED') {
    return addressRefusal(error.origin, String(error.facts['address']))
  }
  if (error instanceof RedirectRefused && error.deny !== undefined) {
    return { deny: error.deny, sentence: error.publicText }
  }
  return undefined
}

/** The refusal of a host whose name leads to these addresses only, which are not public. */
export function addressRefusal(origin: string, addresses: string): Refusal {
  const madeUp = addresses.split(', ').every(address => /^198\.1[89]\./.test(address))
  const advice = madeUp
    ? 'the resolver makes such addresses up (fake-IP): use another one, or add 198.18.0.0/15 to `private_domains`'
    : `add ${origin} or the network to \`private_domains\` to allow it`
  return {
    deny: 'public-address',
    sentence: `${origin} is refused because its name leads to ${addresses}, which ${addresses.includes(', ') ? 'are' : 'is'} not public, and is in no list; ${advice}.`,
  }
}

/** A response with a sentence, which HEAD gets without. */
export function sentenceResponse(
  request: Request,
  status: number,
  sentence: string,
  {
    reason,
    ...more
  }: Pick<Response, 'reason'> & { readonly fields?: Fields; readonly facts: OutcomeFacts & Facts },
): Response {
  const text = textResponse(status, sentence, more)
  const response = reason === undefined ? text : { ...text, reason }
  return request.method === 'HEAD' ? withoutContent(response) : response
}

/** The value of Retry-After if it has at most four digits. apt refuses a head in which it is neither that nor a date. */
function retryAfter(fields: Fields): string | undefined {
  const value = fields.get('Retry-After')
  return value !== undefined && /^\d{1,4}$/.test(value) ? value : undefined
}

/** The response when a handler throws, with the public text of the failure, or the request ID for an unexpected error. */
export function failureResponse(request: Request, error: unknown, log: Logger): Response {
  const refusal = refusalOf(error)
  if (refusal !== undefined) return refusedResponse(request, refusal)
  if (error instanceof Failure && error.fault !== 'internal') {
    const facts = { outcome: 'failed', because: error.code } as const
    const status = error.fault === 'upstream' ? (statusOf[error.code] ?? 503) : 400
    const reason = status >= 500 ? reasonPhrase(error.publicText) : undefined
    return sentenceResponse(request, status, error.publicText, { facts, reason })
  }
  log.error('a request failed unexpectedly', { id: request.id, error })
  const sentence = `This proxy failed to answer; its log knows more about request ${request.id}.`
  const facts = { outcome: 'failed', because: 'internal' } as const
  return sentenceResponse(request, 500, sentence, { facts })
}
