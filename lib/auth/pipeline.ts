/**
 * The life of every request, upgrades included, step by step. The order is the security argument:
 *
 * 1. One path and query is taken from the request line, and nothing else is ever judged or forwarded. A probe of
 *    `authproxy doctor` ends here with a sealed answer: it is never forwarded, and opens nothing.
 * 2. The gate decides on those bytes: loop, SAML, passthrough, session, login. Requests and upgrades ask the same gate.
 * 3. A request that passes goes through backend.ts alone, which strips before it adds (identity/backend-fields.ts): nothing a
 *    client says of an identity survives, on any way in.
 */
import type { Clock } from '../async/clock.ts'
import type { Facts } from '../errors.ts'
import { Fields } from '../http/message/field.ts'
import type { Handler, Request, Response } from '../http/message/message.ts'
import { pathAndQuery } from '../http/message/target.ts'
import type { TakenOver } from '../http/server/options.ts'
import { methodNotAllowed } from '../http/server/router.ts'
import { isNavigation } from './access/navigation.ts'
import { isForeignSocket, type Place, pageOf, placeOf } from './access/own-origin.ts'
import type { Admitted, Backend } from './backend.ts'
import type { Config } from './config/config.ts'
import type { AnswerProbe } from './doctor/probe-answer.ts'
import type { FormReader } from './form-preservation/form-reader.ts'
import { openResubmission } from './form-preservation/resubmission.ts'
import { gate } from './gate.ts'
import type { Brand } from './pages/brand.ts'
import { type FailurePage, failed } from './pages/failure-page.ts'
import { whyNotKept } from './pages/failures.ts'
import { cannotLogIn, challenge, needsLogin } from './pages/needs-login.ts'
import type { SamlService } from './saml/service.ts'
import type { Sessions } from './session/sessions.ts'

/** What a reload replaces, all at once. */
export interface Rules {
  readonly config: Config
  readonly backend: Backend
  /** What the pages show of the organisation. */
  readonly brand: Brand
}

export interface PipelineParts {
  readonly rules: () => Rules
  readonly saml: SamlService
  readonly sessions: Sessions
  readonly failurePage: FailurePage
  readonly probe: AnswerProbe
  readonly instanceId: string
  /** Answers with the keys of the signed identity. */
  readonly keySet: Handler
  /** Answers with the logo of the pages. */
  readonly logo: Handler
  readonly readForm: FormReader
  readonly clock: Clock
}

/** Answers a request, or an upgrade: `forward` sends what has been let through to the backend. */
export async function answer<A extends Response | TakenOver>(
  request: Request,
  parts: PipelineParts,
  forward: (backend: Backend, admitted: Admitted) => Promise<A>,
): Promise<A | Response> {
  const { config, backend } = parts.rules()
  const { saml, sessions, failurePage, clock, instanceId } = parts

  // 1. What is asked for. Only this reading counts from here on.
  const client = backend.client(request).address
  /** Facts for the log; those of the answer win. */
  const told = <T extends A | Response>(answered: T, facts: Facts): T => {
    return { ...answered, facts: { client, ...facts, ...answered.facts } }
  }
  if (request.method === 'TRACE' || request.method === 'CONNECT') {
    return told(methodNotAllowed(METHODS), {})
  }
  const probed = parts.probe(request)
  if (probed !== undefined) return told(probed, {})
  const place = placeOf(request, config.domain)
  if (place === undefined) return failurePage({ request, code: 'foreign_target' })

  // 2. What may it do?
  const { path } = place
  const session = () => sessions.read(request)
  const judged = gate({ request, path, now: clock.now(), instanceId, session }, config)
  // Most sessions and requests are known or judged at once, and are not to wait for a turn.
  const verdict = judged instanceof Promise ? await judged : judged

  // 3. The answer. This is the one way to the backend, with a session and without.
  const pass = async (admitted: Pick<Admitted, 'request' | 'session'>, facts: Facts) => {
    try {
      const answered = await forward(backend, { ...admitted, place, client })
      return told(answered, { outcome: 'forwarded', ...facts })
    } catch (error) {
      return told(failed(request, error, failurePage), facts)
    }
  }
  switch (verdict.verdict) {
    case 'loop':
      return failurePage({ request, code: 'loop_detected' })
    case 'saml': {
      const answered = saml.handle(request, path)
      if (answered === undefined) return failurePage({ request, code: 'foreign_target' })
      return told(await answered, { outcome: 'saml' })
    }
    case 'key-set':
      return told(await parts.keySet(request), { outcome: 'key-set' })
    case 'logo':
      return told(await parts.logo(request), { outcome: 'logo' })
    case 'passthrough': {
      const facts = { because: `passthrough-${verdict.because}`, passthrough: verdict.name }
      return pass({ request, session: undefined }, facts)
    }
    case 'authenticated': {
      if (isForeignSocket(request, config)) {
        const facts = { origin: request.fields.get('Origin') }
        return failurePage({ request, code: 'websocket_origin', facts })
      }
      const { session } = verdict
      // What lasts ends with it (session/ending.ts).
      request.holder = session
      const facts = { because: 'session', user: session.subject }
      const opening = openResubmission(request, clock)
      const opened = opening instanceof Promise ? await opening : opening
      if ('request' in opened) {
        const answered = await pass({ request: opened.request, session }, facts)
        return mayCarryCookies(request, answered)
          ? withLines(answered, await sessions.renewal(session, request))
          : answered
      }
      const target = pathAndQuery(place)
      const instead = saml.resubmit({ request, id: opened.id, session, target })
      if ('refuse' in instead) return told(instead.refuse, facts)
      const answered = await pass(
        { request: instead.request, session },
        { ...facts, resubmitted: true },
      )
      return withLines(answered, instead.setCookie)
    }
    case 'login-needed': {
      const { from, because } = verdict
      const outcome = from === 'api' ? 'unauthenticated' : 'login'
      return told(await login(request, { place, from }, parts), { outcome, because })
    }
  }
}

/** The answer to a request without a session: the way to the identity provider, or how to come to it. */
async function login(
  request: Request,
  { place, from }: { readonly place: Place; readonly from: 'navigation' | 'api' },
  { rules, saml, readForm, failurePage }: PipelineParts,
): Promise<Response> {
  const { config } = rules()
  const { domain, baseUrl: base } = config
  const returnTo = pathAndQuery(place)
  const address = () => saml.loginAddress(pageOf(request, base, returnTo))
  if (from === 'api') return needsLogin(request, address())
  const cannot = cannotLogIn(request, { domain, base, returnTo }, failurePage)
  if (cannot !== undefined) return cannot
  const form = await readForm(request, config, saml.formSender(request, returnTo))
  if (typeof form === 'string') {
    // Said before the login, while the browser still has what was filled in.
    const login = address()
    return failurePage({
      request,
      code: 'request_not_kept',
      words: { because: whyNotKept[form], login },
      details: form === 'too-large' ? [['Limit', `${config.saml.replaySize} bytes`]] : [],
      fields: challenge(login),
      facts: { because: form },
    })
  }
  return saml.startLogin(request, form === undefined ? { returnTo } : { returnTo, form })
}

/**
 * A session in use is kept alive, but never in a response that a cache may keep for others: only in one that says it is for one
 * user, or must be asked for again, or in a page a person opens that does not say the contrary.
 */
function mayCarryCookies(request: Request, answered: Response | TakenOver): boolean {
  if (!('fields' in answered)) return false
  const control = answered.fields.all('Cache-Control').join(',')
  return !SHARED.test(control) && (PRIVATE.test(control) || isNavigation(request))
}

const SHARED = /(?:^|[,\s])(?:public|s-maxage|immutable)\b/i
const PRIVATE = /(?:^|[,\s])(?:private|no-store|no-cache)(?=$|[,\s=])/i

function withLines<A extends Response | TakenOver>(answered: A, lines: Fields | undefined): A {
  if (lines === undefined || !('fields' in answered)) return answered
  return { ...answered, fields: Fields.fromFlat([...answered.fields.flat, ...lines.flat]) }
}

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']
