/**
 * Asks the origins of an archive for a file. A question takes these steps: it is refused while no origin may be asked; it gets the
 * fields for the origins, which contain nothing of the client; the origins are asked in turn (`Mirrors`); the redirects of each are
 * followed as far as the policy admits (RFC 9110 section 15.4), or left to the client.
 *
 * Each hop needs the same admission as the request of a client, and a redirect from https to http is refused. A file of a confined
 * archive is not fetched by a redirect from another archive, because it would be stored under a name that all clients may ask for.
 * Credentials are those that this proxy itself has for the archive of the file (origin-credentials.ts). A hop gets them on the server
 * that was asked first, unless an earlier hop was on another server.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { attempt, Failure } from '../../errors.ts'
import type { OriginClient, OriginRequest, OriginResponse } from '../../http/client/client.ts'
import { Fields } from '../../http/message/field.ts'
import { formatUri, parseTarget, type TargetUri } from '../../http/message/target.ts'
import type { Logger } from '../../log/log.ts'
import { admitRedirect, admitTarget, type DenyRule, type Rules } from '../policy/policy.ts'
import { archiveOf } from '../policy/routing.ts'
import { fetchFailure } from './failures.ts'
import type { Answer, Mirrors, Question } from './mirrors.ts'
import type { FileCredentials, OriginCredentials } from './origin-credentials.ts'

interface AskParts {
  readonly rules: () => Rules
  readonly origin: OriginClient
  readonly mirrors: Mirrors
  readonly pseudonym: string
  readonly version: string
  readonly credentials: () => OriginCredentials
  readonly log: Logger
}

/**
 * Asks the origins of an archive. `more` makes the fields for one origin, which are conditions and ranges; `others` says whether the
 * archive has further origins. `fresh` asks for a new connection.
 */
export type Ask = (
  question: Question & {
    readonly method?: 'HEAD'
    readonly fresh?: boolean
    readonly more?: (place: TargetUri, others: boolean) => Fields
  },
) => Promise<Answer>

/** Makes the function that asks origins. Its answer comes from the first origin that settles the question. */
export function askOrigins(parts: AskParts): Ask {
  const { rules, mirrors, pseudonym, version } = parts
  return question => {
    const { config } = rules()
    if (config.offline) return Promise.reject(fetchFailure('offline', {}))
    const { method = 'GET', fresh: anew = false, more, lifetime: within, uri: wanted } = question
    const own = config.via ? `1.1 ${pseudonym}` : undefined
    const chain = own === undefined || question.via === undefined ? own : `${question.via}, ${own}`
    const credentials = parts.credentials().of(wanted)
    // Some archives admit only agents that begin with the name of apt's.
    const agent = config.userAgent ?? `Debian APT-HTTP/1.3 (cachesvc/${version})`
    const shared = Fields.of(['User-Agent', agent], ['Accept', '*/*'], ['Via', chain])
    return mirrors.ask(question, async (uri, others, { fresh = anew, ...pace }) => {
      const fields = shared.followedBy(more?.(uri, others).flat ?? [])
      const asked = {
        nextAddressAfter,
        method,
        fields,
        fresh,
        within,
        ...pace,
        credentials,
        wanted,
      }
      try {
        const answer = await follow(uri, asked, parts)
        mirrors.followed(wanted)
        return answer
      } catch (error) {
        if (error instanceof RedirectRefused) mirrors.refused(wanted, error)
        throw error
      }
    })
  }
}

/**
 * Asks with HEAD. A URL that is signed only for GET, like those of object stores, refuses HEAD, and some servers have no file for it. Then
 * it asks with GET, and the caller closes the content.
 */
export async function askForHead(ask: Ask, question: Parameters<Ask>[0]): ReturnType<Ask> {
  const answer = await ask({ ...question, method: 'HEAD' })
  if (![400, 403, 404, 405, 410, 501].includes(answer.response.status)) return answer
  answer.response.content.close()
  return ask(question)
}

/** The request for every target of the chain. */
type Asked = Pick<
  OriginRequest,
  'method' | 'fields' | 'fresh' | 'within' | 'deadlines' | 'signal' | 'onLate' | 'nextAddressAfter'
> & { readonly wanted: TargetUri; readonly credentials: FileCredentials | undefined }

/** The most successive redirects that are followed, as many as apt follows. */
const maxRedirects = 10

/**
 * The silence of one address of an origin after which the next one is asked as well. A client with a stored file waits a second longer
 * (`timeouts.revalidation`), and one without a stored file until the third address has had its time.
 */
const nextAddressAfter: Milliseconds = 3000

/**
 * Asks an origin and follows its redirects. Resolves to the response and its URI. A redirect that is left to the client gets an absolute
 * Location. Throws the failures of the origin client, `RedirectRefused`, and one for a circle.
 */
async function follow(
  from: TargetUri,
  { credentials, wanted, ...request }: Asked,
  { rules, origin, log }: AskParts,
): Promise<{ readonly response: OriginResponse; readonly uri: TargetUri }> {
  let uri = from
  let own = credentials
  const chain: string[] = []
  for (;;) {
    const { policy, confinements } = rules()
    const admission =
      (uri === from ? undefined : admitRedirect(uri, wanted, confinements)) ??
      admitTarget({ kind: 'fetch', authority: uri }, policy)
    if ('deny' in admission) throw new RedirectRefused(uri, admission.sentence, admission.deny)
    const { trusted } = admission
    if (!isSameServer(uri, from)) own = undefined
    const authorization = own?.at(uri)
    const response = whole(await origin.request({ ...request, uri, trusted, authorization }))
    const refuses = response.status === 401 || response.status === 403
    if (own !== undefined && authorization !== undefined && refuses) {
      log.warn('an origin refuses the credentials that this proxy has for it', {
        setting: own.setting,
        target: formatUri(uri),
      })
    }
    const location = isRedirect(response.status) ? response.fields.get('Location') : undefined
    if (location === undefined) return { response, uri }
    response.content.close()
    const to = resolve(uri, location)
    const next = formatUri(to)
    // Is the client to follow the redirects of this target itself?
    const { archives, redirects } = rules().config
    if ((archiveOf(uri, archives)?.archive.redirects ?? redirects) === 'pass') {
      const fields = response.fields.without('Location').plus('Location', next)
      return { response: { ...response, fields }, uri }
    }
    chain.push(formatUri(uri))
    uri = to
    if (chain.includes(next)) {
      const circle = [...chain, next].map(withoutQuery).join(' to ')
      throw fetchFailure('REDIRECT_LOOP', { circle })
    }
    if (chain.length > maxRedirects) {
      throw new RedirectRefused(uri, `More than ${maxRedirects} redirects in a row.`)
    }
  }
}

/** A 203 is a 200 that a proxy on the way has transformed (RFC 9110 section 15.3.4). Checksums tell whether it is the file. */
function whole(response: OriginResponse): OriginResponse {
  return response.status === 203 ? { ...response, status: 200 } : response
}

function isSameServer(one: TargetUri, other: TargetUri): boolean {
  return one.scheme === other.scheme && one.host === other.host && one.port === other.port
}

export function isRedirect(status: number): boolean {
  return [301, 302, 303, 307, 308].includes(status)
}

function resolve(base: TargetUri, location: string): TargetUri {
  const url = attempt(() => new URL(location, formatUri(base)))
  if (url === undefined) {
    throw new RedirectRefused(base, 'The origin redirects to something that is not a URL.')
  }
  url.hash = ''
  url.username = ''
  url.password = ''
  const target = parseTarget('GET', url.href)
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

export class RedirectRefused extends Failure {
  /** The rule of the policy that refuses it; undefined when the redirect itself is unusable. */
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

/** A URI without its query, which can contain signatures. */
function withoutQuery(uri: string): string {
  return uri.replace(/\?.*$/, '?...')
}
