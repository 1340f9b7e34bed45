/**
 * Where SAML and the rest of the gateway meet: what the SAML room offers (SamlService) and what it is given (SamlParts).
 * Types only. Whoever changes a meaning here changes both sides.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { Facts } from '../../errors.ts'
import type { Fields } from '../../http/message/field.ts'
import type { Request, Response } from '../../http/message/message.ts'
import type { Logger } from '../../log/log.ts'
import type { SamlConfig } from '../config/config.ts'
import type { VerifiedSubject } from './core/subject.ts'

export type { SamlConfig } from '../config/config.ts'

/** The SAML side of the gateway. Made once; `parts.config()` and `parts.keys` are asked anew whenever they are needed. */
export interface SamlService {
  /**
   * Begins a login for a navigation. `returnTo` is path and query as they stood in the request line, bytes untouched; it has to
   * be checked again before anybody is sent there. `stash` is the content of a form post whose session has ended, to be replayed
   * once after the login.
   */
  startLogin(request: Request, login: LoginStart): Promise<Response>
  /**
   * The address a script may send its user to when a request of its own has no session: a navigation there begins a login
   * and comes back to `returnTo`. Making it leaves no state behind.
   */
  loginAddress(returnTo: string): string
  /**
   * Answers /saml/metadata.xml, /saml/metadata, /saml/certificate.crt, /saml/acs, /saml/slo and /__authproxy-redirect;
   * undefined for every other path. `path` is the exact path of the target, without query.
   */
  handle(request: Request, path: string): Promise<Response> | undefined
  /** Whether a form this request posts can be kept: whose it is has to be known, and its address one to come back to. */
  keepsForms(request: Request, returnTo: string): boolean
  /**
   * The kept form that a post of our own page stands for, to be sent to the backend in its place; `target` is path and query of
   * that post.
   */
  takeReplay(
    request: Request,
    asked: { readonly handle: string; readonly session: Session; readonly target: string },
  ): Replay
  /** What keeps logins from working now, a sentence each; none when all is well. For readiness. */
  problems(): readonly string[]
  /** Figures for the metrics page, such as the moment the IdP's newest certificate ends. Quick, never throws. */
  readings(): SamlReadings
  /** Ends the refresh loop and the worker. */
  close(): Promise<void>
}

export interface LoginStart {
  readonly returnTo: string
  readonly stash?: Stash
}

/** A form post to be sent again after the login. */
export interface Stash {
  /** Content-Type as it came: application/x-www-form-urlencoded, multipart/form-data or text/plain. */
  readonly contentType: string
  readonly content: Buffer
}

/** A kept form, handed out once, or the page that says why it is not sent. */
export type Replay =
  | { readonly stash: Stash; readonly setCookie: Fields }
  | { readonly refuse: Response }

export interface SamlReadings {
  /** Moments since the epoch; undefined when there is none. */
  readonly metadataFetched: Milliseconds | undefined
  readonly metadataValidUntil: Milliseconds | undefined
  readonly idpCertificateEnds: Milliseconds | undefined
  readonly ownCertificateEnds: Milliseconds | undefined
  /** Outcomes since the start, by code: `accepted`, `signature`, `audience`, … From a closed set. */
  readonly outcomes: Readonly<Record<string, number>>
}

/** Makes the service; lib/auth/saml/service.ts exports one of this type as `createSamlService`. Throws a Failure when it cannot start. */
export type CreateSamlService = (parts: SamlParts) => Promise<SamlService>

/** What the SAML room is given. */
export interface SamlParts {
  readonly config: () => SamlConfig
  readonly keys: SamlKeys
  readonly sessions: SessionService
  readonly failurePage: FailurePage
  readonly page: PageMaker
  readonly clock: Clock
  /** So many random bytes, fit for keys. */
  readonly random: (size: number) => Buffer
  readonly log: Logger
  /** The client's address after trusted proxies have been believed; for logs and limits. */
  readonly clientAddress: (request: Request) => string
}

/** Keys of the dynamic file. Every call answers what the file says now. */
export interface SamlKeys {
  /** Newest first: the first seals, all open. 32 bytes each, for AES-256-GCM. */
  sealing(): readonly SealingKey[]
  /** Newest first: the first signs and is what IdPs are to encrypt to; the others still decrypt and are still published. */
  saml(): readonly SamlKeyPair[]
}

export interface SealingKey {
  readonly kid: string
  readonly key: Buffer
}

export interface SamlKeyPair {
  readonly kid: string
  /** PKCS #8 in PEM. Never log it. */
  readonly privateKey: string
  /** Self-signed certificate in PEM. */
  readonly certificate: string
  readonly created: Milliseconds
  /** When the pair leaves the file; undefined for the current one. */
  readonly retires: Milliseconds | undefined
}

/** Sessions in the browser's cookies. */
export interface SessionService {
  /**
   * Makes a session of what an assertion said. The answer holds Set-Cookie lines to be added to whatever response follows, or
   * the page to answer with instead: no usable subject identifier, or a session too large for cookies.
   */
  establish(subject: VerifiedSubject, request: Request): Promise<Established>
  /** The session of this request, however old its login; undefined when it has none that is valid. */
  read(request: Request): Promise<Session | undefined>
  /** Set-Cookie lines that remove every session cookie the browser may hold. */
  end(request: Request): Fields
  /** Ends sessions everywhere, copies included, as far as the revocation list is on. Settles when that is on disk. */
  revoke(which: Revocation): Promise<void>
  /** The session cookies a request carries, for pages that explain: how many, how large, why not valid. No values. */
  diagnose(request: Request): Promise<CookieDiagnosis>
}

export type Established =
  | { readonly setCookie: Fields; readonly session: Session }
  | { readonly refuse: Response }

/** One session by its ID, or what a LogoutRequest names: all of a NameID's at an issuer, or those of a session index. */
export type Revocation =
  | { readonly sessionId: string }
  | { readonly issuer: string; readonly nameId: string; readonly sessionIndexes: readonly string[] }

export interface Session {
  readonly id: string
  /** What X-Authproxy-User says. */
  readonly subject: string
  /** Attributes by canonical name (claim.ts), empty ones left out. Groups are among them as `groups`. */
  readonly attributes: ReadonlyMap<string, readonly string[]>
  readonly issuer: string
  readonly nameId: SessionNameId | undefined
  readonly sessionIndex: string | undefined
  /** Moments since the epoch: of the login at the IdP, of the login here, of the absolute end. */
  readonly authenticated: Milliseconds
  readonly created: Milliseconds
  readonly expires: Milliseconds
}

/** What a LogoutRequest of ours has to repeat exactly. */
export interface SessionNameId {
  readonly value: string
  readonly format: string | undefined
  readonly nameQualifier: string | undefined
  readonly spNameQualifier: string | undefined
}

export interface CookieDiagnosis {
  /** How many cookies of our name came. */
  readonly count: number
  /** Bytes of them, names included. */
  readonly bytes: number
  /** Why none of them is a session; undefined when one is, or none came. */
  readonly because: string | undefined
}

/**
 * A page that says what went wrong: written to the log with its category and code, kept for `authproxy explain`, answered
 * with fixed public text and the request ID. HTML for navigations, JSON for everything else.
 */
export type FailurePage = (failure: FailureReport) => Response

export interface FailureReport {
  readonly request: Request
  readonly category: 'SAML-ERROR' | 'PROXY-ERROR'
  /** Exact and stable, for the log: `signature_unknown_key`. */
  readonly code: string
  readonly status: number
  /** Reason phrase when it is to differ from the standard one. */
  readonly reason?: string
  /** Public: heading, what happened, and what the reader may try. Fixed texts, nothing of the message in them. */
  readonly title: string
  readonly text: string
  readonly advice?: readonly string[]
  /** A link or a button below the text; `href` is a path of ours or an address of the IdP. */
  readonly action?: { readonly href: string; readonly label: string }
  /** Small public figures that help: both clocks, sizes of cookies. */
  readonly details?: ReadonlyArray<readonly [name: string, value: string]>
  /** More fields of the response, such as Set-Cookie. */
  readonly fields?: Fields
  /** Private: for the log. */
  readonly facts?: Facts
  readonly cause?: unknown
  /** Private: what was checked, for `authproxy explain`. Values that are secret or personal are cut before they come here. */
  readonly findings?: readonly Finding[]
}

/** One thing that was checked: `Audience`, what was expected, what was received. */
export interface Finding {
  readonly what: string
  readonly ok: boolean
  readonly expected: string
  readonly received: string
}

/** Makes an HTML page of ours from templates/auth, never cached, no external resource, under a strict policy. */
export type PageMaker = (page: Page) => Response

export interface Page {
  /** Name of the template. It is given `nonce` besides the view, for its `<script nonce="…">`. */
  readonly template: string
  readonly view: Readonly<Record<string, unknown>>
  /** 200 unless told. */
  readonly status?: number
  readonly reason?: string
  readonly fields?: Fields
  /** Whether the page has a script of its own. */
  readonly script?: boolean
  /** Origins its forms may be sent to, besides ours; `https:` for any with TLS. */
  readonly formAction?: readonly string[]
}
