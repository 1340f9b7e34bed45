/**
 * Makes sessions of verified assertions, reads them from the cookies of a request, renews and ends them.
 */
import { createHash } from 'node:crypto'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { Fields } from '../../http/message/field.ts'
import type { Request, Response } from '../../http/message/message.ts'
import type { Logger } from '../../log/log.ts'
import { recentEntries } from '../../recent.ts'
import type { VerifiedSubject } from '../../saml/subject.ts'
import { isOfBrowser } from '../access/navigation.ts'
import type { Config } from '../config/config.ts'
import type { FailurePage } from '../pages/failure-page.ts'
import {
  browserHash,
  browserIn,
  browserLine,
  clearingLines,
  newBrowser,
  sessionCookies,
  tokensIn,
  writeToken,
} from './cookie.ts'
import type { GroupTable } from './group-names.ts'
import {
  identityOf,
  mayBeBasicUser,
  type NoIdentity,
  type UnreadAttribute,
  UnreadAttributes,
  unreadAttributes,
} from './identity.ts'
import { type EndedSessions, type Revocation, type Revoker, sameUser } from './revocation.ts'
import type { ReadSession, Session, SessionTokens } from './token.ts'

export type EstablishedSession =
  | {
      readonly setCookie: Fields
      readonly session: Session
      /** The names of attributes of the assertion that nothing reads, for the log, once a minute. */
      readonly unread: readonly string[] | undefined
    }
  | { readonly refuse: Response }

export interface CookieDiagnosis {
  /** The number of session cookies in the request. */
  readonly count: number
  /** Their bytes, names included. */
  readonly bytes: number
  /** The reason why they hold no valid session; undefined when they do, or when there are none. */
  readonly because: string | undefined
}

/** The result of ending the sessions of a user. */
export interface EndedUser {
  /** The number of ended sessions that this instance has seen recently; others may exist. */
  readonly seenSessions: number
  /** Whether the revocation is on disk, so that it survives a restart. */
  readonly isWritten: boolean
}

/** A login in a browser, here or at another instance. */
export interface BrowserLogin {
  /** The hash of the name of the browser. */
  readonly browser: string
  /** The ID of the session, and when it was made. */
  readonly id: string
  readonly created: Milliseconds
  /** The user, as `userHash` makes it. */
  readonly user: string
  /** The session; undefined for a login at another instance. */
  readonly session?: Session
}

/** The user of a login as a hash. The name counts as it is written, as in rules: two names that differ in capitals are two users. */
export function userHash(subject: string): string {
  return createHash('sha256').update(`login ${subject}`).digest('base64url')
}

/**
 * The reason why a session is no longer valid: it has expired, it was ended, another identity provider is in use, or the
 * settings under `identity` have changed since its login.
 */
type SessionEnd = 'expired' | 'revoked' | 'other-idp' | 'identity-settings'

/** The characters of an AuthnContextClassRef that a session keeps. Rules cannot name a longer one. */
const LONGEST_CONTEXT = 301

interface SessionsOptions {
  readonly config: () => Config
  readonly tokens: SessionTokens
  /** The list of ended sessions; when it is undefined, a copied cookie stays valid after a logout. */
  readonly revocations: EndedSessions | undefined
  /** The names for groups; undefined where none are configured. */
  readonly groupTable: () => GroupTable | undefined
  /** Tells other instances, and features, of a login. */
  readonly tellLogin?: ((login: BrowserLogin) => void) | undefined
  readonly failurePage: FailurePage
  readonly clock: Clock
  readonly random: (size: number) => Buffer
  readonly log: Logger
}

export class Sessions {
  readonly #options: SessionsOptions
  #toldTransient = false
  /** The moment each browser was last redirected to the renewal of its session, by session ID. */
  readonly #led = recentEntries<string, Milliseconds>(20_000)
  /** The newest login of each browser that has recently logged in, by the hash of its name. */
  readonly #newest = recentEntries<string, BrowserLogin>(20_000)
  /** The IDs of sessions whose cookies were removed. Without a list of ended sessions only this shows their end. */
  readonly #removed = recentEntries<string, true>(20_000)
  /**
   * The sessions of field blocks that have come before. A browser sends the same fields with hundreds of requests, and a
   * connection hands on equal blocks as one object. Keys, time and revocation are still checked each time.
   */
  readonly #known = new WeakMap<
    Fields,
    { session: ReadSession; generation: number; config: Config }
  >()
  /** The entity ID of the identity provider whose sessions are valid; undefined until its metadata has been read. */
  #issuer: string | undefined

  readonly #unread: UnreadAttributes

  constructor(options: SessionsOptions) {
    this.#options = options
    this.#unread = new UnreadAttributes(options.clock)
  }

  /** The attributes of the last login that nothing read. */
  get lastUnread(): readonly UnreadAttribute[] {
    return this.#unread.last
  }

  /**
   * Makes a session from the facts of an assertion. The result has the Set-Cookie lines for the response, or a page when there
   * is no usable subject identifier or the session is too large for cookies. `back` is the address of the link on that page.
   */
  async establish(
    subject: VerifiedSubject,
    request: Request,
    back = '/',
  ): Promise<EstablishedSession> {
    const { clock, random, failurePage, log } = this.#options
    const config = this.#options.config()
    const identity = identityOf(subject, config.identity, this.#options.groupTable())
    if (typeof identity === 'string') return { refuse: this.#noSubject(request, subject, identity) }
    if (config.identityFields.basicAuth && !mayBeBasicUser(identity.subject)) {
      return { refuse: failurePage({ request, code: 'subject_not_basic' }) }
    }
    if (identity.from === 'transient-nameId' && !this.#toldTransient) {
      this.#toldTransient = true
      log.warn(
        'the subject is a transient NameID, another one at every login: the identity provider sends neither email nor sAMAccountName',
      )
    }
    const now = clock.now()
    const browser = browserIn(request.fields) ?? newBrowser(random)
    const session: Session = {
      browser: browserHash(browser),
      id: random(16).toString('hex'),
      subject: identity.subject,
      attributes: identity.attributes,
      issuer: subject.issuer,
      nameId: subject.nameId,
      sessionIndex: subject.sessionIndex,
      authenticated: subject.authenticated,
      authnInstant: subject.authnInstant,
      authnContext: subject.authnContext?.slice(0, LONGEST_CONTEXT),
      identitySettings: config.identityDigest,
      created: now,
      expires: Math.min(now + config.session.lifetime, subject.sessionEnds ?? Infinity),
    }
    if (session.expires <= now) {
      const facts = { since: now - session.expires }
      return { refuse: failurePage({ request, code: 'session_over', words: { back }, facts }) }
    }
    const written = await this.#write(session, request)
    if ('tooLarge' in written) {
      return { refuse: this.#tooLarge(request, session, written.tooLarge) }
    }
    const login = {
      browser: session.browser,
      id: session.id,
      created: now,
      user: userHash(session.subject),
    }
    this.#newest.set(session.browser, { ...login, session })
    this.#options.tellLogin?.({ ...login, session })
    const unread = this.#unread.take(unreadAttributes(subject.attributes, config.identity))
    return { setCookie: written.plus('Set-Cookie', browserLine(browser)), session, unread }
  }

  /** The session of this request, however old its login; undefined when it has none that is valid. */
  read(
    request: Pick<Request, 'fields'>,
  ): ReadSession | undefined | Promise<ReadSession | undefined> {
    const known = this.#known.get(request.fields)
    const { generation } = this.#options.tokens
    return known?.generation === generation &&
      known.config === this.#options.config() &&
      this.#whyOver(known.session) === undefined
      ? known.session
      : this.#readAnew(request)
  }

  async #readAnew(request: Pick<Request, 'fields'>): Promise<ReadSession | undefined> {
    const { generation } = this.#options.tokens
    const config = this.#options.config()
    const { fields } = request
    const { session } = await this.#look(request)
    if (session === undefined) this.#known.delete(fields)
    else this.#known.set(fields, { session, generation, config })
    return session
  }

  /** Sets the identity provider in use. Sessions by another one end. */
  useIssuer(entityId: string): void {
    this.#issuer = entityId
  }

  /** Whether it is time to renew a session in use. */
  wantsRenewal(session: ReadSession): boolean {
    const age = this.#options.clock.now() - session.issued
    // A new token could not last longer. That of a person lasts to its end from the beginning.
    return age >= this.#renewalAge() && session.lapses < session.expires - 1000
  }

  /**
   * Whether to redirect the browser of a session that `wantsRenewal` to the renewal, where the answer cannot carry the new
   * cookie. The browser is redirected at most once for each renewal interval, so that a browser that rejects the new cookie
   * does not loop.
   */
  leadsToRenewal(session: ReadSession): boolean {
    const now = this.#options.clock.now()
    const last = this.#led.get(session.id) ?? Number.NEGATIVE_INFINITY
    if (now >= last && now - last < this.#renewalAge()) return false
    this.#led.set(session.id, now)
    return true
  }

  /** The age at which a token is renewed. */
  #renewalAge(): Milliseconds {
    return Math.max(this.#options.config().session.idle / 10, 30_000)
  }

  /**
   * Set-Cookie lines that renew a session; undefined when they would be too large, when the session ended while its answer was
   * under way, or when its browser has signed in again meanwhile. A request counts as use when it arrives, so a token that
   * lapsed while the answer was under way is renewed.
   */
  async renew(session: ReadSession, request: Request): Promise<Fields | undefined> {
    if (this.laterThan(session) !== undefined) return undefined
    // There is no wait between this check and the choice of the key, or a session whose key was removed would get a token of
    // the new key.
    if (this.#removed.has(session.id) || this.whyEnded(session) !== undefined) return undefined
    const written = await this.#write(session, request)
    return 'tooLarge' in written ? undefined : written
  }

  /** Notes a login at another instance, unless a later one is known. */
  noteLogin(login: BrowserLogin): void {
    const known = this.#newest.get(login.browser)
    if (known === undefined || known.created < login.created) this.#newest.set(login.browser, login)
  }

  /** A later login in the same browser; undefined when there is none. */
  laterThan({ id, browser, created }: ReadSession): BrowserLogin | undefined {
    const newest = this.#newest.get(browser)
    return newest !== undefined && newest.id !== id && newest.created >= created
      ? newest
      : undefined
  }

  /**
   * Why a session that let an exchange through has ended; undefined while it lasts. The idle timeout does not count here: a
   * session is in use for as long as one of its exchanges is under way.
   */
  whyEnded(session: ReadSession): SessionEnd | undefined {
    return this.#options.tokens.hasKeyOf(session)
      ? this.#whyOver(session, session.expires)
      : 'revoked'
  }

  /** Set-Cookie lines that remove every session cookie. Answers under way do not renew the session read from these fields. */
  end(request: Request): Fields {
    const known = this.#known.get(request.fields)
    if (known !== undefined) this.#removed.set(known.session.id, true)
    return clearingLines(request.fields, this.#options.config().domain)
  }

  /** Whether there is a list of ended sessions. Without one, a session ends only with the cookies of its browser. */
  get canRevoke(): boolean {
    return this.#options.revocations !== undefined
  }

  /**
   * Ends sessions everywhere, copied cookies included. Answers false, and ends nothing, when the revocation list is off, or too
   * full for `anyone`. The promise settles when the revocation is on disk.
   */
  async revoke(which: Revocation, by?: Revoker): Promise<boolean> {
    return (await this.#options.revocations?.add(which, by)) !== undefined
  }

  /**
   * Ends all sessions of a user that have been made until now, copied cookies included. Answers the number of them that were
   * seen recently, and whether the revocation is on disk; undefined, when the revocation list is off and nothing has ended.
   */
  async endUser(user: string): Promise<EndedUser | undefined> {
    const { revocations, tokens } = this.#options
    if (revocations === undefined) return undefined
    const wanted = sameUser(user)
    const seen = new Set<string>()
    for (const session of tokens.rememberedSessions()) {
      if (sameUser(session.subject) !== wanted || !tokens.hasKeyOf(session)) continue
      if (this.#whyOver(session) !== undefined) continue
      seen.add(session.id)
    }
    const added = await revocations.add({ user })
    return { seenSessions: seen.size, isWritten: added?.isWritten === true }
  }

  /** The number and size of the session cookies in a request, without their values, for pages that explain a failure. */
  async diagnose(request: Request): Promise<CookieDiagnosis> {
    const size = sessionCookies(request.fields)
    const { session, reasons } = await this.#look(request)
    if (session !== undefined) return { ...size, because: undefined }
    return { ...size, because: reasons[0] ?? (size.count > 0 ? 'incomplete' : undefined) }
  }

  /** The first valid session in the cookies of a request, and the reason why earlier ones are not valid. */
  async #look({ fields }: Pick<Request, 'fields'>) {
    const { tokens } = this.#options
    const reasons: string[] = []
    const name = browserIn(fields)
    const browser = name === undefined ? undefined : browserHash(name)
    for (const token of tokensIn(fields)) {
      const session = await tokens.verify(token)
      if (typeof session === 'string') {
        reasons.push(session)
        continue
      }
      const over = this.#whyOfOther(session, { browser, fields }) ?? this.#whyOver(session)
      if (over === undefined) return { session, reasons }
      reasons.push(over)
    }
    return { session: undefined, reasons }
  }

  /**
   * The reason why a session does not belong to the browser that sends it: another host of the parent domain may have set its
   * cookie. Every browser that has logged in here has the cookie of the browser, so one without it has another's session, or a
   * neighbour has pushed that cookie out. Programs send what they like; `session.browser` decides about them.
   */
  #whyOfOther(
    session: ReadSession,
    { browser, fields }: { readonly browser: string | undefined; readonly fields: Fields },
  ): 'other-browser' | 'no-browser-cookie' | undefined {
    if (browser !== undefined) return session.browser === browser ? undefined : 'other-browser'
    const { browser: cookie } = this.#options.config().session
    const needed = cookie === 'required' || isOfBrowser(fields)
    return needed ? 'no-browser-cookie' : undefined
  }

  /** The reason why a session is not valid now; undefined when it is. */
  #whyOver(session: ReadSession, lapses = session.lapses): SessionEnd | undefined {
    const { revocations, clock, config } = this.#options
    const now = clock.now()
    if (lapses <= now) return 'expired'
    if (this.#issuer !== undefined && session.issuer !== this.#issuer) return 'other-idp'
    if (session.identitySettings !== config().identityDigest) return 'identity-settings'
    // The lifetime in force may be shorter than that in the token, and the session may have been ended early.
    const { session: sessions, tokens } = config()
    const lifetime = session.token === undefined ? sessions.lifetime : (tokens.longest ?? 0)
    const tooOld = session.created + lifetime <= now
    return tooOld || revocations?.has(session) === true ? 'revoked' : undefined
  }

  /** The moment a token lapses that is issued now. */
  #nextLapse({ expires }: Session): Milliseconds {
    const { clock, config } = this.#options
    return Math.min(clock.now() + config().session.idle, expires)
  }

  async #write(session: Session, { fields: requestFields }: Request) {
    const { clock, tokens, random, config } = this.#options
    const { cookieSize: limit } = config().session
    const lapses = this.#nextLapse(session)
    const token = await tokens.issue(session, lapses)
    const maxAge = (lapses - clock.now()) / 1000
    return writeToken(token, { limit, maxAge, tag: random(4).toString('hex'), requestFields })
  }

  #noSubject(request: Request, subject: VerifiedSubject, because: NoIdentity): Response {
    const { issuer, assertionId: assertion, attributes } = subject
    return this.#options.failurePage({
      request,
      code: because === 'no-subject' ? 'subject_missing' : 'subject_unfit',
      facts: { issuer, assertion },
      findings: [
        {
          what: 'subject',
          ok: false,
          expected:
            'email, sAMAccountName or NameID, not empty, without control characters and white space other than spaces',
          received: `attributes: ${attributes.map(({ name }) => name).join(', ') || 'none'}`,
        },
      ],
    })
  }

  #tooLarge(request: Request, session: Session, bytes: number): Response {
    const sizes = [...session.attributes].map(([name, values]) => ({
      name,
      size: values.reduce((sum, value) => sum + value.length + 3, 0),
      count: values.length,
    }))
    const largest = sizes.sort((a, b) => b.size - a.size).slice(0, 5)
    const { cookieSize } = this.#options.config().session
    return this.#options.failurePage({
      request,
      code: 'cookie_too_large',
      details: [
        ['Size of the session', `${bytes} bytes`],
        ['Limit', `${cookieSize} bytes`],
        ...largest.map(({ name, size, count }) => {
          return [name, `${count} ${count === 1 ? 'value' : 'values'}, ${size} bytes`] as const
        }),
      ],
      facts: { bytes, limit: cookieSize, largest: largest.map(({ name }) => name).join(' ') },
    })
  }
}
