/**
 * What a feature of authproxy is: a folder that the core does not import, and the places at which it joins. A feature names no other one;
 * `features.ts` lists them, and the service and the commands go through that list. A setting of a feature that is not there stops the start.
 */
import type { Clock } from '../../async/clock.ts'
import { type AddedCommand, addedCommand } from '../../command-line.ts'
import type { Exchange, Request, Response } from '../../http/message/message.ts'
import type { HttpServerOptions } from '../../http/server/options.ts'
import type { Logger } from '../../log/log.ts'
import type { InheritedSocket } from '../../systemd.ts'
import type { Backend } from '../backend/backend.ts'
import type { Config, StateConfig } from '../config/config.ts'
import type { LoadedConfig } from '../config/loading/load-config.ts'
import type { CheckAddress } from '../config/setting-forward-auth.ts'
import type { Proof } from '../gate/gate.ts'
import type { SessionIdentity } from '../identity/session-identity.ts'
import type { KeyRing } from '../keys/key-ring.ts'
import type { SharedParts } from '../login/parts.ts'
import type { SamlService } from '../login/service.ts'
import type { FailurePage } from '../pages/failure-page.ts'
import type { FailureRecord } from '../pages/failure-records.ts'
import type { PageMaker } from '../pages/page.ts'
import type { SeenCheck } from '../probe/probe.ts'
import type { EndedSessions, RevocationList } from '../session/revocation.ts'
import type { BrowserLogin, Sessions } from '../session/sessions.ts'
import type { ReadSession } from '../session/token.ts'

export interface Feature {
  readonly commands?: ReadonlyArray<AddedCommand<CommandContext>>
  /** What `--check-config` finds beyond the settings themselves. */
  readonly findings?: (loaded: UsableConfig) => Promise<readonly StartFinding[]>
  /** What the log says at the start, a sentence each. */
  readonly warnings?: (config: Config, from: string) => Promise<readonly string[]>
  /** Judges the lines of a log by the rules of a configuration. */
  readonly judgeLog?: (config: Config) => Promise<LogJudge>
  /** Suggests rules for the use in a log. */
  readonly suggestRules?: () => Promise<LogJudge>
  /** Opens the state that instances share. Throws a Failure when it cannot. */
  readonly shareState?: (config: StateConfig, parts: StateParts) => Promise<SharedState>
  /** Opens the record of the tokens that people make. */
  readonly openTokens?: (parts: TokenParts) => Promise<PeopleTokens>
  /** Makes the listener for the checks of an edge; undefined when the settings name none. */
  readonly listenForChecks?: (
    config: Config,
    parts: CheckingParts,
  ) => Promise<ChecksListener | undefined>
}

export type UsableConfig = Extract<LoadedConfig, { readonly ok: true }>

/** What a command of a feature gets in addition to its line. */
interface CommandContext {
  readonly loaded: UsableConfig
}

/** Makes a command of a feature. */
export const featureCommand = addedCommand<CommandContext, object>()

/** `wrong` keeps the service from starting well. */
export interface StartFinding {
  readonly state: 'right' | 'doubtful' | 'wrong' | 'not asked'
  readonly found: string
  readonly mend?: string
}

export interface LogJudge {
  /** Takes a line of the log, as it stands in a file or as the journal prints it. */
  take(line: string): void
  report(): readonly string[]
}

export interface StateParts {
  readonly revocations: RevocationList | undefined
  readonly clock: Clock
  readonly log: Logger
}

/** The state that instances share, as far as the core uses it. */
export interface SharedState extends SharedParts {
  /** The list of ended sessions, shared; undefined where there is none. */
  readonly revocations:
    | (EndedSessions & {
        readonly waitingCount: number
        whenEnded(look: () => void): void
        /** Tells the other instances of a login. */
        tellLogin(login: BrowserLogin): void
        whenLoggedIn(note: (login: BrowserLogin) => void): void
      })
    | undefined
  /** Keeps a record of a failure for the other instances. */
  keepFailure(record: FailureRecord): void
  /** The records of failures at all instances. */
  failures(): Promise<readonly FailureRecord[]>
  /** Keeps a line of the record of tokens for the other instances. */
  keepToken(user: string, line: string): void
  /** The lines of the record about a user, of all instances, the latest first; undefined when the store is away. `later` waits longer. */
  tokensOf(user: string, when: 'now' | 'later'): Promise<readonly string[] | undefined>
  /** Keeps a digest of the attributes of the last login of a user for the other instances. */
  keepLogin(user: string, attributes: string): void
  lastLoginOf(user: string): Promise<string | undefined>
  readonly link: string
  /** How many questions of requests had no answer, so that this instance decided alone. */
  readonly unanswered: number
  /** Whether the store throws keys away when its memory is full. */
  readonly evicts: boolean
  /** The present problem of the store, for the administrator. */
  remark(): string | undefined
  close(): Promise<unknown> | undefined
}

/** The parts that the tokens of people need before there are sessions. */
export interface TokenParts {
  readonly config: () => Config
  readonly keys: Pick<KeyRing, 'generation' | 'session'>
  readonly revocations: EndedSessions
  readonly shared:
    | Pick<SharedState, 'keepToken' | 'tokensOf' | 'keepLogin' | 'lastLoginOf'>
    | undefined
  readonly clock: Clock
  readonly random: (size: number) => Buffer
  readonly log: Logger
}

/** The tokens of people: another proof of who asks, and a page of their own. */
export interface PeopleTokens {
  /** A login here may end tokens of its user. */
  noteLogin(login: BrowserLogin): void
  front(sessions: Pick<Sessions, 'whyEnded'>, page: PageMaker): TokenFront
  close(): Promise<void>
}

/** What the fronts ask: both for the proof, the gateway for the page. */
export interface TokenFront {
  readonly proof: Proof
  readonly page: (request: Request, session: ReadSession) => Promise<Response>
}

/** The parts that checks are answered with. */
export interface CheckingParts {
  readonly rules: () => {
    readonly config: Config
    readonly identity: SessionIdentity
    readonly backend: Pick<Backend, 'credential'>
  }
  readonly saml: Pick<SamlService, 'loginAddress' | 'unreadAttributes'>
  readonly sessions: Sessions
  readonly proof: Proof | undefined
  readonly failurePage: FailurePage
  readonly instanceId: string
  readonly keys: Pick<KeyRing, 'sealingKeys'>
  readonly clock: Clock
  readonly log: Logger
  readonly metrics: { readonly check: (edge: string, exchange: Exchange) => void }
  readonly server: Pick<HttpServerOptions, 'requestId' | 'onMalformed' | 'limits'>
}

export interface ChecksListener {
  /** Listens at the inherited socket, if there is one, and answers the address. */
  listen(socket?: InheritedSocket): Promise<CheckAddress | undefined>
  /** Answers checks from now on, and closes each connection behind its answer. */
  announceEnd(): void
  close(deadline: AbortSignal): Promise<void>
  /** The check that carried the question of `authproxy doctor` with this nonce. */
  checkOf(nonce: string): SeenCheck | undefined
}
