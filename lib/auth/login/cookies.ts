/**
 * The cookies of logins: each login that a browser has under way is in a sealed cookie of its own, the user who was signed in last in
 * another. They are opened once for a request, and what its answer changes is written once. The server keeps nothing, so a restart in
 * the middle of a login loses none, and clients cannot fill its memory.
 *
 * # Facts
 * - The IdP answers by a form post from its own site, so the cookies have to be SameSite=None; `__Host-` keeps neighbours of our
 *   domain from setting them.
 * - Tabs log in at the same time. Two answers that set one cookie overwrite each other, so each login has its own, named by
 *   its ID.
 * - Servers in front take 8 KiB of cookies or less. A login that begins removes the oldest that no longer have room; their
 *   tabs still know their address themselves (templates/auth/saml-go.mustache).
 * - Depth tells a loop from many tabs: a login counts as one deeper when it began shortly after another had been completed,
 *   which happens only when the session of that one did not come back.
 * - Browsers drop the session's cookie when the session ends, so only the cookie of the last user can tell one user's form from
 *   another's. It outlasts every session, tells its reader nothing, and gives no access. An IdP that sends transient names sends
 *   another subject at every login: such a form has no sender afterwards.
 */
import { createHash } from 'node:crypto'
import type { Clock, Milliseconds, Seconds } from '../../async/clock.ts'
import { setCookie } from '../../http/message/cookie.ts'
import { Fields } from '../../http/message/field.ts'
import type { Request } from '../../http/message/message.ts'
import { isRecord, parsedJson } from '../../json.ts'
import type { LoginAsks } from '../../saml/response/check-assertion.ts'
import { ownCookies, ownValues } from '../access/own-cookies.ts'
import type { LoginNeeds } from '../access/rules.ts'
import type { SamlConfig } from '../config/config.ts'
import type { KeyRing } from '../keys/key-ring.ts'
import { seal, unseal } from '../keys/seal.ts'
import { longestSession } from '../session/cookie.ts'
import type { Session } from '../session/token.ts'

/** The cookie of a login is this name and its ID. */
const LOGIN = '__Host-authproxy_login.'
/** The cookie of further facts about the browser: its last login, its logout. */
const STATE = '__Host-authproxy_state'
/** The cookie of the user who was signed in last. */
const LAST = '__Host-authproxy_last'

/** The most logins of a browser at a time. */
const MOST_FLOWS = 32
/** The most login cookies that are opened. Tabs that begin at the same moment can leave more cookies than are kept. */
const MOST_READ = 100
/** The most characters of the cookies of all logins. */
const MOST_CHARACTERS = 7000
/** The most characters of one value when the page keeps the address as well, so that many tabs at once stay small. */
const SMALL = 600
/** The most characters of one value otherwise. Browsers drop a cookie of more than 4096, name and attributes included. */
const LARGE = 3800
/** A login that begins so soon after another was completed is the next one of a loop. */
const LOOP_WINDOW: Milliseconds = 60_000

export interface Flow {
  /** The ID of the login in RelayState, in the name of its cookie, and in the key under which a page keeps the address. */
  readonly id: string
  readonly began: Milliseconds
  /** Path and query to come back to. */
  readonly returnTo: string
  /** How many completed logins led to this one. */
  readonly depth: number
  /** Whether the IdP's answer has been taken; the login then waits only for its browser to come back. */
  readonly done: boolean
  /** The requirements for the login beyond the settings of SAML. */
  readonly asks?: LoginAsks | undefined
  /** Whether the IdP was asked to answer without showing anything to the person. */
  readonly passive?: boolean | undefined
  /** Key of the kept form (login/kept-forms.ts), base64url. */
  readonly form?: string | undefined
}

/** The request of a login to the identity provider that fulfils a rule. */
export function asksOf({ maxAge, contexts }: LoginNeeds): LoginAsks {
  return { anew: maxAge !== undefined, contexts }
}

/** Whether a login that has just been completed asked for as much as the next one would. Then the next would not be enough either. */
export function hasJustAsked({ last }: KnownBrowser, asks: LoginAsks, now: Milliseconds): boolean {
  if (last?.asks === undefined || now - last.at >= LOOP_WINDOW) return false
  const { anew, contexts } = last.asks
  return (anew || !asks.anew) && contexts.join(' ') === asks.contexts.join(' ')
}

/** Whether the IdP has just answered that it would have to ask the person. To ask the IdP again at once would begin a loop. */
export function isJustUnknown({ notPassive }: KnownBrowser, now: Milliseconds): boolean {
  return notPassive !== undefined && now - notPassive < LOOP_WINDOW
}

/** The facts about a browser apart from its logins. */
interface KnownBrowser {
  /** The login that was completed last; `ahead` is how far the IdP's clock seemed to be ahead of ours. */
  readonly last?:
    | {
        readonly at: Milliseconds
        readonly depth: number
        readonly ahead: Milliseconds
        readonly asks?: LoginAsks | undefined
        /** When its session ends because the IdP says so (SessionNotOnOrAfter). */
        readonly ends?: Milliseconds | undefined
      }
    | undefined
  /** ID of a LogoutRequest of ours whose answer has not come yet. */
  readonly logout?: string | undefined
  /** When the IdP last answered that it would have to show something to the person. */
  readonly notPassive?: Milliseconds | undefined
}

/** The content of the login cookies of a request. */
export interface LoginState extends KnownBrowser {
  /** `absent` when there is no cookie of these names, `invalid` when none could be opened. */
  readonly cookieState: 'state' | 'absent' | 'invalid'
  /** The oldest first. */
  readonly flows: readonly Flow[]
}

const AGAIN = 'again.'

/** Characters of the IDs of logins. */
export const idLengths: readonly number[] = [27, AGAIN.length + 27]

/** The ID of a login in a RelayState; undefined when the text does not have the form of one. */
export function flowIdIn(
  relayState: string | undefined,
): { readonly id: string; readonly isReplacement: boolean } | undefined {
  const [id, mark] = /^(again\.)?[\w-]{27}$/.exec(relayState ?? '') ?? []
  return id === undefined ? undefined : { id, isReplacement: mark !== undefined }
}

/** The ID of the AuthnRequest of a login: unguessable, and an xs:ID (saml-core-2.0-os section 1.3.4). */
export function requestIdOf({ id }: Pick<Flow, 'id'>): string {
  return `_${id}`
}

/** What the cookies are sealed with. */
interface CookieParts {
  readonly keys: Pick<KeyRing, 'sealingKeys'>
  readonly config: () => Pick<SamlConfig, 'entityId' | 'loginTime'>
  readonly clock: Clock
  readonly random: (size: number) => Buffer
}

/** Answers the cookies of the browser that sent a request: one object for each request. */
export type CookiesOfRequest = (request: Pick<Request, 'fields'>) => LoginCookies

export function loginCookies(parts: CookieParts): CookiesOfRequest {
  const opened = new WeakMap<object, LoginCookies>()
  return request => {
    const known = opened.get(request)
    if (known !== undefined) return known
    const cookies = new LoginCookies(parts, request.fields)
    opened.set(request, cookies)
    return cookies
  }
}

export class LoginCookies {
  readonly #parts: CookieParts
  readonly #fields: Fields
  #state: LoginState | undefined
  #owner: { readonly is: string | undefined } | undefined
  /** The Set-Cookie values of the answer, by the name of the cookie. */
  readonly #written = new Map<string, string>()

  constructor(parts: CookieParts, fields: Fields) {
    this.#parts = parts
    this.#fields = fields
  }

  /** The logins of the browser, and what is known of it. */
  get state(): LoginState {
    this.#state ??= this.#open()
    return this.#state
  }

  /** A login that waits for its browser, by its ID. */
  flow(id: string | undefined): Flow | undefined {
    return this.state.flows.find(flow => flow.id === id)
  }

  /** The user who was signed in last in the browser; undefined when there is none, or it cannot be known. */
  get owner(): string | undefined {
    this.#owner ??= { is: this.#openOwner() }
    return this.#owner.is
  }

  /** A new ID of a login; `again` marks a login that replaces one that is no longer known. */
  newId(again: boolean): string {
    return `${again ? AGAIN : ''}${this.#parts.random(20).toString('base64url')}`
  }

  /**
   * Keeps a login that begins, and removes the oldest ones beyond the limits. `small`: the page that is answered keeps the address, so
   * that the cookie need not hold all of a long one. A login that takes the place of a removed one has room of its own, or it would
   * remove the next, whose tab would begin again in its turn.
   */
  begin(flow: Flow, { small }: { readonly small: boolean }): void {
    this.keep(flow, small ? SMALL : LARGE)
    const share = flow.id.startsWith(AGAIN) ? 2 : 1
    let room = share * MOST_CHARACTERS - sizeOf(flow)
    for (const [newer, each] of [...this.state.flows].reverse().entries()) {
      room -= sizeOf(each)
      if (room < 0 || newer + 2 > share * MOST_FLOWS) this.drop(each.id)
    }
  }

  /** Keeps a login. When it does not fit, the address loses its query and then its path. */
  keep(flow: Flow, most = LARGE): void {
    const { id, ...kept } = flow
    const name = `${LOGIN}${id}`
    const value = this.#sealed(name, kept)
    if (value.length > most) this.keep({ ...flow, returnTo: shorter(flow.returnTo) }, most)
    else this.#write(name, value)
  }

  /** Removes a login. */
  drop(id: string): void {
    this.#write(`${LOGIN}${id}`)
  }

  /** Replaces what is known of the browser; removes the cookie when nothing is. */
  know({ last, logout, notPassive }: KnownBrowser): void {
    const isNothing = (last ?? logout ?? notPassive) === undefined
    this.#write(STATE, isNothing ? undefined : this.#sealed(STATE, { last, logout, notPassive }))
  }

  /** Remembers the user of a session. */
  own(session: Pick<Session, 'issuer' | 'subject'>): void {
    const { keys, random } = this.#parts
    const value = seal(
      Buffer.from(ownerOf(session)),
      this.#ownerPurpose,
      keys.sealingKeys(),
      random,
    )
    this.#written.set(LAST, setCookie(LAST, value, { maxAge: longestSession }))
  }

  /** The fields that carry all that was written. */
  get lines(): Fields {
    return Fields.of(...[...this.#written.values()].map(line => ['Set-Cookie', line] as const))
  }

  #write(name: string, value?: string): void {
    const time: Seconds = Math.ceil(this.#parts.config().loginTime / 1000)
    const maxAge = value === undefined ? 0 : time
    this.#written.set(name, setCookie(name, value ?? '', { maxAge, sameSite: 'None' }))
  }

  #open(): LoginState {
    const { config, clock } = this.#parts
    const pairs = ownCookies(this.#fields)
      .filter(({ name }) => name === STATE || name.startsWith(LOGIN))
      .slice(0, MOST_READ)
    if (pairs.length === 0) return { cookieState: 'absent', flows: [] }
    const flows: Flow[] = []
    let known: KnownBrowser | undefined
    for (const { name, value } of pairs) {
      const found = this.#unsealed(name, value)
      if (found === undefined) continue
      if (name === STATE) known ??= found
      else if (isFlow(found)) flows.push({ ...found, id: name.slice(LOGIN.length) })
    }
    if (known === undefined && flows.length === 0) return { cookieState: 'invalid', flows }
    const now = clock.now()
    const { loginTime } = config()
    const current = flows.filter(flow => now - flow.began < loginTime)
    current.sort((a, b) => a.began - b.began)
    return { ...known, cookieState: 'state', flows: current }
  }

  #openOwner(): string | undefined {
    const [value, ...more] = ownValues(this.#fields, LAST)
    if (value === undefined || more.length > 0) return undefined
    return unseal(value, this.#ownerPurpose, this.#parts.keys.sealingKeys())?.toString()
  }

  /** Only this service can have sealed the value for the cookie of this name, so only its outline is checked. */
  #unsealed(name: string, value: string): object | undefined {
    const plain = unseal(value, this.#purposeOf(name), this.#parts.keys.sealingKeys())
    const found = plain && parsedJson(plain.toString())
    return isRecord(found) ? found : undefined
  }

  #sealed(name: string, content: object): string {
    const { keys, random } = this.#parts
    const plain = Buffer.from(JSON.stringify(content))
    return seal(plain, this.#purposeOf(name), keys.sealingKeys(), random)
  }

  #purposeOf(name: string): string {
    return `authproxy login 2 ${name} ${this.#parts.config().entityId}`
  }

  get #ownerPurpose(): string {
    return `authproxy last 1 ${this.#parts.config().entityId}`
  }
}

function isFlow(found: object): found is Omit<Flow, 'id'> {
  return 'began' in found && 'returnTo' in found
}

/** Characters of name and value of a login's cookie, about: what is sealed is a third longer in base64url. */
function sizeOf({ returnTo }: Flow): number {
  return 200 + Math.ceil((returnTo.length * 4) / 3)
}

function shorter(returnTo: string): string {
  const mark = returnTo.indexOf('?')
  return mark > 0 && mark < 1500 ? returnTo.slice(0, mark) : '/'
}

/** How deep in a loop a login is that begins now: 0 unless another was completed just before. */
export function depthOf({ last }: KnownBrowser, now: Milliseconds): number {
  return last !== undefined && now - last.at < LOOP_WINDOW ? last.depth + 1 : 0
}

/** The user of a session as a hash. */
export function ownerOf(session: Pick<Session, 'issuer' | 'subject'>): string {
  const user = JSON.stringify([session.issuer, session.subject])
  return createHash('sha256').update(user).digest('base64url')
}
