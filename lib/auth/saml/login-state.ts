/**
 * Keeps the logins a browser has under way in a sealed cookie of bounded size. The server keeps nothing, so a restart in the
 * middle of a login loses none, and strangers cannot fill any memory.
 *
 * # Facts
 * - The IdP answers by a form post from its own site, so the cookie has to be SameSite=None; `__Host-` keeps neighbours of our
 *   domain from setting it.
 * - Tabs log in at the same time, so several logins are kept; when there are too many, the oldest is dropped.
 * - Depth tells a loop from many tabs: a login counts as one deeper when it began shortly after another had been completed,
 *   which happens only when the session of that one did not come back.
 */
import type { Milliseconds, Seconds } from '../../async/clock.ts'
import { cookieValues } from '../../http/message/cookie.ts'
import type { Request } from '../../http/message/message.ts'
import { isRecord } from '../../json.ts'
import { seal, unseal } from '../keys/seal.ts'
import type { Saml } from './parts.ts'

const COOKIE = '__Host-authproxy_state'

/** Logins at a time. */
const MOST_FLOWS = 5
/** Characters of the cookie's value; browsers drop a cookie beyond 4096 with its name and attributes. */
const MOST_CHARACTERS = 3800
/** A login that begins so soon after another was completed is the next one of a loop. */
const LOOP_WINDOW: Milliseconds = 60_000

export interface Flow {
  /** Names the login towards the browser: RelayState, and where a page keeps the fragment. */
  readonly id: string
  /** ID of the AuthnRequest. */
  readonly request: string
  readonly began: Milliseconds
  /** Path and query to come back to. */
  readonly returnTo: string
  /** How many completed logins led to this one. */
  readonly depth: number
  /** Whether the IdP's answer has been taken; the login then waits only for its browser to come back. */
  readonly done: boolean
  /** Key of the kept form (form-preservation/kept-forms.ts), base64url. */
  readonly form?: string
}

export interface LoginState {
  readonly flows: readonly Flow[]
  /** The login that was completed last; `ahead` is how far the IdP's clock seemed to be ahead of ours. */
  readonly last?: {
    readonly at: Milliseconds
    readonly depth: number
    readonly ahead: Milliseconds
  }
  /** ID of a LogoutRequest of ours whose answer has not come yet. */
  readonly logout?: string
}

const emptyState: LoginState = { flows: [] }

/** What a request carries: `absent` when there is no cookie of the name, `invalid` when none could be opened. */
export interface CarriedState {
  readonly found: 'state' | 'absent' | 'invalid'
  readonly state: LoginState
}

/** The logins of the browser that sent a request. */
export function stateOf(saml: Saml, request: Request): CarriedState {
  const { entityId, loginTime } = saml.config()
  const values = cookieValues(request.fields, COOKIE)
  if (values.length === 0) return { found: 'absent', state: emptyState }
  for (const value of values.slice(0, 4)) {
    const plain = unseal(value, purposeOf(entityId), saml.keys.sealing())
    const state = plain === undefined ? undefined : decode(plain)
    if (state === undefined) continue
    const flows = state.flows.filter(flow => saml.clock.now() - flow.began < loginTime)
    return { found: 'state', state: { ...state, flows } }
  }
  return { found: 'invalid', state: emptyState }
}

function decode(plain: Buffer): LoginState | undefined {
  try {
    const value: unknown = JSON.parse(plain.toString())
    return isState(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** Only we can have sealed it, in the version its purpose names, so its outline is all that is checked. */
function isState(value: unknown): value is LoginState {
  return isRecord(value) && Array.isArray(value['flows'])
}

/**
 * The Set-Cookie line that keeps `state`. The oldest logins are dropped until it fits; one that does not fit alone loses its
 * query and then its path.
 */
export function keepState(saml: Saml, state: LoginState): string {
  const { entityId, loginTime } = saml.config()
  let { flows } = state
  for (;;) {
    const plain = Buffer.from(JSON.stringify({ ...state, flows }))
    const value = seal(plain, purposeOf(entityId), saml.keys.sealing(), saml.random)
    if (value.length <= MOST_CHARACTERS) return cookieLine(value, Math.ceil(loginTime / 1000))
    const [only, ...rest] = flows
    if (only === undefined) throw new Error('the login state does not fit into a cookie')
    flows = rest.length > 0 ? rest : [{ ...only, returnTo: shorter(only.returnTo) }]
  }
}

function cookieLine(value: string, maxAge: Seconds): string {
  return `${COOKIE}=${value}; Max-Age=${maxAge}; Path=/; Secure; HttpOnly; SameSite=None`
}

function shorter(returnTo: string): string {
  const mark = returnTo.indexOf('?')
  return mark > 0 && mark < 1500 ? returnTo.slice(0, mark) : '/'
}

/** Removes the cookie. */
export const noStateCookie = cookieLine('', 0)

/** The state with one more login, the oldest beyond the limit gone. */
export function withFlow(state: LoginState, flow: Flow): LoginState {
  return { ...state, flows: [...state.flows, flow].slice(-MOST_FLOWS) }
}

/** The state with a login marked as completed at a moment; `ahead` is how far the IdP's clock was ahead. */
export function withDone(
  state: LoginState,
  done: Flow,
  when: { readonly at: Milliseconds; readonly ahead: Milliseconds },
): LoginState {
  const flows = state.flows.map(flow => (flow.id === done.id ? { ...flow, done: true } : flow))
  return { ...state, flows, last: { ...when, depth: done.depth } }
}

/** The state without a login. */
export function withoutFlow(state: LoginState, id: string): LoginState {
  return { ...state, flows: state.flows.filter(flow => flow.id !== id) }
}

/** How deep in a loop a login is that begins now: 0 unless another was completed just before. */
export function depthOf(state: LoginState, now: Milliseconds): number {
  const { last } = state
  return last !== undefined && now - last.at < LOOP_WINDOW ? last.depth + 1 : 0
}

function purposeOf(entityId: string): string {
  return `authproxy login state 1 ${entityId}`
}
