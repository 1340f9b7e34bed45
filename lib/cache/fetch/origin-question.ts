/**
 * Asks the origins of an archive for a file. A question takes these steps: it is refused while no origin may be asked; it gets the
 * fields that each origin is sent, with nothing of the client in them; the origins are asked in turn (mirrors.ts); the redirects of
 * each are followed as far as the policy admits (RFC 9110 section 15.4), or left to the client.
 *
 * Each hop passes the same admission as a client's request, and https never leads back to http. A file of an archive that some clients
 * alone may have is not fetched by a redirect from elsewhere, which would store it under a name that is open. Credentials are those that this proxy
 * itself has for the archive of the file (origin-credentials.ts): a hop gets them at the place that was asked first, and none
 * that comes after a hop elsewhere.
 */
import { Failure } from '../../errors.ts'
import type { OriginClient, OriginRequest, OriginResponse } from '../../http/client/client.ts'
import { Fields } from '../../http/message/field.ts'
import { formatUri, parseTarget, type TargetUri } from '../../http/message/target.ts'
import type { Admission, Denied, DenyRule } from '../policy/policy.ts'
import type { Answer, Mirrors, Question } from './mirrors.ts'
import type { FileCredentials } from './origin-credentials.ts'

interface FollowParts {
  readonly origin: OriginClient
  readonly admit: (uri: TargetUri) => Admission
  /** The refusal to follow a redirect there for the file that is wanted; undefined when it may be. */
  readonly confined: (uri: TargetUri, wanted: TargetUri) => Denied | undefined
  /** Whether the client is to follow the redirects of this target itself. */
  readonly passes: (uri: TargetUri) => boolean
  /** Called when an origin refuses credentials of this proxy. */
  readonly onRefused: (credentials: FileCredentials, place: TargetUri) => void
}

interface AskParts extends FollowParts {
  readonly mirrors: Mirrors
  /** Why no origin may be asked at present; undefined while they may. */
  readonly refusal: () => Failure | undefined
  /** Our name in Via; undefined when it is not sent. */
  readonly via: () => string | undefined
  readonly agent: () => string
  /** What this proxy itself may send for a file. */
  readonly credentials: (wanted: TargetUri) => FileCredentials | undefined
}

/**
 * `more` are the fields for one origin: conditions and ranges. `others` says whether the archive has further origins. `fresh`: only a new
 * connection will do.
 */
export type Ask = (
  question: Question & {
    readonly method?: 'HEAD'
    readonly fresh?: boolean
    readonly more?: (place: TargetUri, others: boolean) => Fields
  },
) => Promise<Answer>

/** Makes the way to origins. What `ask` answers comes from the first origin that settles the question. */
export function askOrigins(parts: AskParts): Ask {
  const { mirrors, refusal, via, agent } = parts
  return question => {
    const refused = refusal()
    if (refused !== undefined) return Promise.reject(refused)
    const { method = 'GET', fresh = false, more, lifetime: within } = question
    const own = via()
    const chain = own === undefined || question.via === undefined ? own : `${question.via}, ${own}`
    const credentials = parts.credentials(question.uri)
    const shared = Fields.of(['User-Agent', agent()], ['Accept', '*/*'], ['Via', chain])
    return mirrors.ask(question, (uri, others, hurry) => {
      const fields = shared.followedBy(more?.(uri, others).flat ?? [])
      const { deadlines, signal } = hurry ?? {}
      const { uri: wanted } = question
      const asked = { method, fields, fresh, within, deadlines, signal, credentials, wanted }
      return follow(uri, asked, parts)
    })
  }
}

/**
 * Asks with HEAD. An address that is signed for GET alone, as those of object stores are, refuses that: then GET is asked, whose content is
 * closed by the caller.
 */
export async function askForHead(ask: Ask, question: Parameters<Ask>[0]): ReturnType<Ask> {
  const answer = await ask({ ...question, method: 'HEAD' })
  if (![400, 403, 405, 501].includes(answer.response.status)) return answer
  answer.response.content.close()
  return ask(question)
}

/** What every target of the chain is asked. */
type Asked = Pick<
  OriginRequest,
  'method' | 'fields' | 'fresh' | 'within' | 'deadlines' | 'signal'
> & { readonly wanted: TargetUri; readonly credentials: FileCredentials | undefined }

/** Redirects in a row that are followed; a chain of archives rarely has two. */
const maxRedirects = 5

/**
 * Asks and follows. Answers with the URI that answered. A redirect that is passed has an absolute Location. Throws the origin
 * client's failures, and `RedirectRefused`.
 */
async function follow(
  from: TargetUri,
  { method, fields, fresh, within, deadlines, signal, credentials, wanted }: Asked,
  { origin, admit, confined, passes, onRefused }: FollowParts,
): Promise<{ readonly response: OriginResponse; readonly uri: TargetUri }> {
  let uri = from
  let own = credentials
  const chain: string[] = []
  for (;;) {
    const admission = (uri === from ? undefined : confined(uri, wanted)) ?? admit(uri)
    if ('deny' in admission) throw new RedirectRefused(uri, admission.sentence, admission.deny)
    const { trusted } = admission
    if (!isSameServer(uri, from)) own = undefined
    const authorization = own?.at(uri)
    const asked = { method, uri, fields, fresh, within, deadlines, signal, trusted, authorization }
    const response = await origin.request(asked)
    const refuses = response.status === 401 || response.status === 403
    if (own !== undefined && authorization !== undefined && refuses) onRefused(own, uri)
    const location = redirection(response)
    if (location === undefined) return { response, uri }
    response.content.close()
    const to = resolve(uri, location)
    const next = formatUri(to)
    if (passes(uri)) {
      const fields = response.fields.without('Location').plus('Location', next)
      return { response: { ...response, fields }, uri }
    }
    chain.push(formatUri(uri))
    uri = to
    if (chain.includes(next)) throw new RedirectLoop([...chain, next])
    if (chain.length > maxRedirects) {
      throw new RedirectRefused(uri, `More than ${maxRedirects} redirects in a row.`)
    }
  }
}

function isSameServer(one: TargetUri, other: TargetUri): boolean {
  return one.scheme === other.scheme && one.host === other.host && one.port === other.port
}

function redirection(response: OriginResponse): string | undefined {
  return isRedirect(response.status) ? response.fields.get('Location') : undefined
}

/** Whether a status with Location sends elsewhere. */
export function isRedirect(status: number): boolean {
  return [301, 302, 303, 307, 308].includes(status)
}

function resolve(base: TargetUri, location: string): TargetUri {
  let text: string
  try {
    const url = new URL(location, formatUri(base))
    url.hash = ''
    url.username = ''
    url.password = ''
    text = url.href
  } catch {
    throw new RedirectRefused(base, 'The origin redirects to something that is not a URL.')
  }
  const target = parseTarget('GET', text)
  if ('problem' in target || target.form !== 'absolute') {
    throw new RedirectRefused(
      base,
      'The origin redirects to something that is not an http or https URL.',
    )
  }
  if (base.scheme === 'https' && target.uri.scheme === 'http') {
    throw new RedirectRefused(target.uri, 'The origin redirects from https to http.')
  }
  return target.uri
}

/** A redirect that is not followed. */
export class RedirectRefused extends Failure {
  /** The rule of the policy that refuses it; undefined when the redirect itself is not usable. */
  readonly deny: DenyRule | undefined

  constructor(uri: TargetUri, sentence: string, deny?: DenyRule) {
    super(`redirect to ${formatUri(uri)} not followed: ${sentence}`, {
      code: 'REDIRECT_REFUSED',
      fault: 'upstream',
      publicText: `The origin's redirect was not followed. ${sentence}`,
      facts: { target: formatUri(uri) },
    })
    this.deny = deny
  }
}

/** Redirects that lead back to where they began: trying again does not help. */
class RedirectLoop extends Failure {
  constructor(chain: readonly string[]) {
    const told = chain.map(withoutQuery).join(' to ')
    super(`redirects in a circle: ${told}`, {
      code: 'REDIRECT_LOOP',
      fault: 'upstream',
      publicText: `The origin redirects in a circle: ${told}.`,
    })
  }
}

/** Queries can carry signatures. */
function withoutQuery(uri: string): string {
  return uri.replace(/\?.*$/, '?...')
}
