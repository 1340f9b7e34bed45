/**
 * Makes sessions of verified assertions, reads them from the cookies of a request, renews and ends them.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { Fields } from '../../http/message/field.ts'
import type { Request, Response } from '../../http/message/message.ts'
import type { Logger } from '../../log/log.ts'
import { recent } from '../../recent.ts'
import type { VerifiedSubject } from '../../saml/subject.ts'
import type { Config } from '../config/config.ts'
import type { GroupTable } from '../identity/group-names.ts'
import { identityOf, type NoIdentity } from '../identity/identity.ts'
import { mayBeBasicUser } from '../identity/identity-fields.ts'
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
import { type EndedSessions, type Revocation, type Revoker, sameUser } from './revocation.ts'
import type { ReadSession, Session, SessionTokens } from './token.ts'

export type Established =
  | { readonly setCookie: Fields; readonly session: Session }
  | { readonly refuse: Response }

export interface CookieDiagnosis {
  /** How many cookies of our name came. */
  readonly count: number
  /** Bytes of them, names included. */
  readonly bytes: number
  /** Why none of them is a session; undefined when one is, or none came. */
  readonly because: string | undefined
}

/** What came of ending the sessions of a user. */
export interface EndedUser {
  /** Sessions that were shown here of late; others may exist. */
  readonly seen: number
  /** Whether they stay ended after a restart. */
  readonly isWritten: boolean
}

/**
 * Why a session does not hold any more: its time is over, it was ended, another identity provider is in use, or the settings
 * under `identity` are others than at its login.
 */
export type SessionEnd = 'expired' | 'revoked' | 'other-idp' | 'identity-settings'

/** Characters of an AuthnContextClassRef that are kept; a rule names none that is longer. */
const LONGEST_CONTEXT = 301

interface SessionsOptions {
  readonly config: () => Config
  readonly tokens: SessionTokens
  /** Undefined: a copied cookie stays valid after a logout. */
  readonly revocations: EndedSessions | undefined
  /** Names for groups; undefined where none are configured. */
  readonly groupTable: () => GroupTable | undefined
  readonly failurePage: FailurePage
  readonly clock: Clock
  readonly random: (size: number) => Buffer
  readonly log: Logger
}

export class Sessions {
  readonly #options: SessionsOptions
  #toldTransient = false
  /** When the newest tokens of sessions lapse, by their IDs: what an older one let through goes on until then. */
  readonly #renewed = recent<string, Milliseconds>(20_000)
  /** When browsers were led to the renewal of their sessions, by the IDs of these. */
  readonly #led = recent<string, Milliseconds>(20_000)
  /** The newest session of each browser that has made one here of late, by the hash of its name. */
  readonly #newest = recent<string, Session>(20_000)
  /** IDs of sessions whose cookies were removed: without a list of ended sessions nothing else tells of their end. */
  readonly #removed = recent<string, true>(20_000)
  /**
   * Sessions of field blocks that have come before. A browser says the same about itself with hundreds of requests, and a
   * connection hands equal blocks on as one object. What may have ended meanwhile is asked each time: keys, time, revocation.
   */
  readonly #known = new WeakMap<
    Fields,
    { session: ReadSession; generation: number; config: Config }
  >()
  /** Entity ID of the identity provider whose sessions hold; undefined until its metadata has been read. */
  #issuer: string | undefined

  constructor(options: SessionsOptions) {
    this.#options = options
  }

  /**
   * Makes a session of what an assertion said. The answer holds Set-Cookie lines to be added to whatever response follows, or
   * the page to answer with instead: no usable subject identifier, or a session too large for cookies. `back` is where the link of a
   * page leads.
   */
  async establish(subject: VerifiedSubject, request: Request, back = '/'): Promise<Established> {
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
    this.#newest.set(session.browser, session)
    return { setCookie: written.plus('Set-Cookie', browserLine(browser)), session }
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

  /** Says which identity provider is in use. Sessions that another one has vouched for end. */
  useIssuer(entityId: string): void {
    this.#issuer = entityId
  }

  /** Whether it is time to keep a used session alive. */
  wantsRenewal(session: ReadSession): boolean {
    const age = this.#options.clock.now() - session.issued
    // A new token could not last longer.
    return age >= this.#renewalAge() && session.lapses < session.expires - 1000
  }

  /**
   * Whether to lead the browser of a session that `wantsRenewal` there, where an answer cannot carry the new cookie itself. It is led once in
   * the time in which a session is renewed once, whatever came of it: a browser that keeps no new cookie runs in no circle.
   */
  leadsToRenewal(session: ReadSession): boolean {
    const now = this.#options.clock.now()
    const last = this.#led.get(session.id) ?? Number.NEGATIVE_INFINITY
    if (now >= last && now - last < this.#renewalAge()) return false
    this.#led.set(session.id, now)
    return true
  }

  /** How old a token is before it is renewed. */
  #renewalAge(): Milliseconds {
    return Math.max(this.#options.config().session.idle / 10, 30_000)
  }

  /**
   * Set-Cookie lines that keep a used session alive; undefined when they would be too large, or the session has ended while its
   * answer was under way.
   */
  async renew(session: ReadSession, request: Request): Promise<Fields | undefined> {
    // No wait between this question and the choice of the key, or a session whose key is gone would get a token of the new one.
    if (this.#removed.has(session.id) || this.whyEnded(session) !== undefined) return undefined
    const lapses = this.#nextLapse(session)
    const written = await this.#write(session, request)
    if ('tooLarge' in written) return undefined
    this.#renewed.set(session.id, lapses)
    return written
  }

  /** The session that the browser of a session has got by a later login; undefined when there is none. */
  laterThan({ id, browser, created }: ReadSession): Session | undefined {
    const newest = this.#newest.get(browser)
    return newest !== undefined && newest.id !== id && newest.created >= created
      ? newest
      : undefined
  }

  /** Why a session that has let something through does not hold any more; undefined while it, or its newest token, does. */
  whyEnded(session: ReadSession): SessionEnd | undefined {
    if (!this.#options.tokens.hasKeyOf(session)) return 'revoked'
    const lapses = Math.max(session.lapses, this.#renewed.get(session.id) ?? 0)
    return this.#whyOver(session, lapses)
  }

  /**
   * Set-Cookie lines that remove every session cookie the browser may hold. Answers that are under way do not renew the session
   * that was read of these fields.
   */
  end(request: Request): Fields {
    const known = this.#known.get(request.fields)
    if (known !== undefined) this.#removed.set(known.session.id, true)
    return clearingLines(request.fields, this.#options.config().domain)
  }

  /**
   * Ends sessions everywhere, copies included; false when the revocation list is off, or too full for `anyone`, and nothing has
   * ended. Settles when that is on disk.
   */
  async revoke(which: Revocation, by?: Revoker): Promise<boolean> {
    return (await this.#options.revocations?.add(which, by)) ?? false
  }

  /**
   * Ends all sessions of a user that have been made until now, copies included: how many of them have been seen of late, and whether
   * their end is on disk. Undefined when the revocation list is off, and nothing has ended.
   */
  async endUser(user: string): Promise<EndedUser | undefined> {
    const { revocations, tokens } = this.#options
    if (revocations === undefined) return undefined
    const wanted = sameUser(user)
    const seen = new Set<string>()
    for (const session of tokens.remembered()) {
      if (sameUser(session.subject) !== wanted || this.whyEnded(session) !== undefined) continue
      seen.add(session.id)
    }
    await revocations.add({ user })
    return { seen: seen.size, isWritten: revocations.isWritten }
  }

  /** The session cookies a request carries, for pages that explain. No values. */
  async diagnose(request: Request): Promise<CookieDiagnosis> {
    const size = sessionCookies(request.fields)
    const { session, reasons } = await this.#look(request)
    if (session !== undefined) return { ...size, because: undefined }
    return { ...size, because: reasons[0] ?? (size.count > 0 ? 'incomplete' : undefined) }
  }

  /** The first valid session in the cookies of a request, and why those before it are none. */
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
      const over = this.#whyOfOther(session, browser) ?? this.#whyOver(session)
      if (over === undefined) return { session, reasons }
      reasons.push(over)
    }
    return { session: undefined, reasons }
  }

  /**
   * Why a session is not of the browser that shows it: a neighbour under the parent domain may have set its cookie. Without the
   * browser's own cookie that cannot be told; `session.browser` says what then counts.
   */
  #whyOfOther(
    session: ReadSession,
    browser: string | undefined,
  ): 'other-browser' | 'no-browser-cookie' | undefined {
    if (browser !== undefined) return session.browser === browser ? undefined : 'other-browser'
    const { browser: cookie } = this.#options.config().session
    return cookie === 'required' ? 'no-browser-cookie' : undefined
  }

  /** Why a session does not hold now; undefined when it does. */
  #whyOver(session: ReadSession, lapses = session.lapses): SessionEnd | undefined {
    const { revocations, clock, config } = this.#options
    const now = clock.now()
    if (lapses <= now) return 'expired'
    if (this.#issuer !== undefined && session.issuer !== this.#issuer) return 'other-idp'
    if (session.identitySettings !== config().identityDigest) return 'identity-settings'
    // Older than sessions may be by now, which its token cannot know; or ended before its time.
    const tooOld = session.created + config().session.lifetime <= now
    return tooOld || revocations?.has(session) === true ? 'revoked' : undefined
  }

  /** When a token that is written now lapses. */
  #nextLapse({ expires }: Session): Milliseconds {
    const { clock, config } = this.#options
    return Math.min(clock.now() + config().session.idle, expires)
  }

  async #write(session: Session, { fields: held }: Request) {
    const { clock, tokens, random, config } = this.#options
    const { cookieSize: limit } = config().session
    const lapses = this.#nextLapse(session)
    const token = await tokens.issue(session, lapses)
    const maxAge = (lapses - clock.now()) / 1000
    return writeToken(token, { limit, maxAge, tag: random(4).toString('hex'), held })
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
