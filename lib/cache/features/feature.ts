/**
 * What a feature is, and the places where it can join the core. A feature is one folder below `features/`. The core names no feature, and
 * no feature names another: `features.ts` lists them, and the service goes through that list.
 */
import type { RequestHandler } from '../../admin-socket.ts'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { BlockPool } from '../../bytes/block-pool.ts'
import { type AddedCommand, addedCommand } from '../../command-line.ts'
import type { StopStep } from '../../daemon.ts'
import type { OriginClient } from '../../http/client/client.ts'
import type { Lookup } from '../../http/client/dialling/name-lookup.ts'
import type { Exchange } from '../../http/message/message.ts'
import type { ListenAddress } from '../../http/server/listen.ts'
import type { KeyAndCertificate, TlsOptions } from '../../http/server/options.ts'
import type { JsonObject } from '../../json.ts'
import type { Log } from '../../log/log.ts'
import type { Metrics } from '../../metrics.ts'
import type { ExitCode } from '../../program.ts'
import type { AnswerStep } from '../answer/answer-step.ts'
import type { InterceptTunnel, RefuseTunnel } from '../answer/connect.ts'
import type { Config } from '../config/config.ts'
import type { RefuseFile } from '../decide/decide.ts'
import type { Fetcher } from '../fetch/fetch.ts'
import type { NearSource } from '../fetch/near-source.ts'
import type { OriginCredentials } from '../fetch/origin-credentials.ts'
import type { FeatureReport, HttpsPages } from '../operations/sources.ts'
import type { Rules } from '../policy/policy.ts'
import type { ReadableStore, Store } from '../store/store.ts'
import type { KnownSuite } from '../suites/generation.ts'
import type { LiveSuites } from '../suites/suite.ts'
import type { Suites } from '../suites/suites.ts'
import type { GenerationChoice, OtherNodes } from '../suites/updates/places.ts'
import type { Updates } from '../suites/updates/updates.ts'

export interface Feature {
  /** The name of its folder. */
  readonly name: string
  /** Adds its metrics without a running service, for the list in the manual. */
  readonly listMetrics?: (metrics: Metrics) => void
  /** Its commands. */
  readonly commands?: ReadonlyArray<AddedCommand<CommandContext>>
  /** The problem with a file that its settings name, in one sentence, for `--check-config`. */
  readonly problem?: (config: Config, now: Milliseconds) => Promise<string | undefined>
  /** The records that it keeps beside the store and that a bundle carries. */
  readonly records?: () => Promise<CarriedRecords>
  /** Writes stored files as a bundle, and returns the exit code of the command that asked for it. */
  readonly exportFiles?: (path: string, config: Config, choose: ChooseFiles) => Promise<ExitCode>
  /** Opens it, before the parts that answer requests are made. Throws a Failure with one sentence when it cannot. */
  readonly open?: (ground: Ground) => OpenFeature | Promise<OpenFeature>
}

/** What a command of a feature gets in addition to its line. */
export interface CommandContext {
  readonly config: Config
  readonly features: readonly Feature[]
  /** Asks the running service, prints its answer, and returns its exit code. */
  readonly ask: (request: object) => Promise<ExitCode>
  /** Starts a service in this process, which keeps its configuration. Throws a Failure with one sentence when it cannot. */
  readonly startService: (config: Config, log: Log) => Promise<StartedService>
}

/** A service that a command has started. */
export interface StartedService {
  readonly listeners: ReadonlyArray<{ readonly address: string | undefined; readonly port: number }>
  readonly stop: readonly StopStep[]
  /** Answers what the admin socket is asked. */
  readonly answer: RequestHandler
}

/** The values of options that every command has. A command need not say that it takes them. */
interface CommonOptions {
  readonly config: string | undefined
  readonly 'cache-dir': string | undefined
  readonly listen: readonly ListenAddress[]
}

/** The values of the options that the commands of several features and of the core share. */
export interface SharedOptions extends CommonOptions {
  readonly json: boolean
  readonly 'dry-run': boolean
  readonly suite: readonly string[]
}

/** Makes a command of a feature. */
export const featureCommand = addedCommand<CommandContext, SharedOptions>()

/** Chooses the files of a bundle. */
export type ChooseFiles = (store: ReadableStore) => Promise<ChosenFiles>

export interface ChosenFiles {
  readonly chosen: (key: string) => boolean
  /** The indexes that cannot be read. Packages that only they name are missing. */
  readonly unread: ReadonlyArray<{ readonly key: string; readonly because: string }>
  /** Members that are neither a content nor a part of the manifest. */
  readonly members?: ReadonlyArray<{ readonly name: string; readonly text: string }>
}

/** The records that a feature keeps beside the store. A bundle has them in a directory of their own. */
export interface CarriedRecords {
  /** The name of that directory, such as `builds`. */
  readonly directory: string
  readonly mostBytes: number
  /** The record of a member, or a sentence when this version cannot read it. */
  readonly read: (name: string, text: string) => CarriedRecord | string
  /** Finds the contents that records of a cache directory keep. */
  readonly keepersIn: (cacheDirectory: string) => Promise<(digest: string) => boolean>
}

export interface CarriedRecord {
  readonly name: string
  /** What the summary of an import says of it. */
  readonly text: string
  /** Adds it while no service runs. Resolves to a sentence when it cannot. */
  readonly add: (cacheDirectory: string) => Promise<string | undefined>
}

/** The parts that are there before those that answer requests. */
export interface Ground {
  readonly rules: () => Rules
  readonly credentials: () => OriginCredentials
  readonly store: Store
  readonly clock: Clock
  readonly log: Log
  readonly blocks: BlockPool
  /** The resolver of names, when it is not that of the system. */
  readonly lookup: Lookup | undefined
  readonly metrics: Metrics
  /** Whether there is a listener for TLS. */
  readonly secure: boolean
  /** The name of this proxy in Via. */
  readonly pseudonym: string
  readonly cacheDirectory: string
}

/** What the core needs of a feature while the parts that answer are made, and its moment to join them. Each place is called once. */
export interface OpenFeature {
  /** Makes the parts by which this node gets content and Release files from other nodes. Called before the first fetch. */
  readonly share?: (parts: { readonly live: LiveSuites }) => Sharing
  /** Chooses the generation of each suite that clients get. One feature can do so. */
  readonly choose?: (parts: { readonly suites: Suites }) => GenerationChoice
  /** Called once, when the parts that answer are made and before a client is served. */
  readonly join?: (core: Core) => Joints | Promise<Joints>
}

/** The parts by which this node gets content and Release files from other nodes. */
export interface Sharing {
  /** A source of content that is asked before the origins. */
  readonly nearer: NearSource
  readonly others: OtherNodes
  /**
   * Makes the function that puts the Release file of the other nodes under its key. It answers undefined when the suite is not shared, and
   * its promise never rejects.
   */
  readonly follow: (parts: {
    readonly suites: Suites
    readonly choice: GenerationChoice
    readonly updates: Updates
  }) => (key: string) => Promise<void> | undefined
}

/** The parts that answer requests, and those before them. */
export interface Core extends Ground {
  readonly origin: OriginClient
  readonly fetcher: Fetcher
  readonly suites: Suites
  readonly updates: Updates
}

/** The places where a running feature joins. Each is optional. */
export interface Joints {
  /** The step around the answers to requests that name it. One feature can have it. */
  readonly step?: AnswerStep
  /** Refuses single files, stored or not. One feature can do so. */
  readonly refuse?: RefuseFile
  /** Called when a client was sent the end of an answer, or its connection broke. It is called for each request, and must be quick. */
  readonly answered?: (exchange: Exchange) => void
  /** Whether a content has to stay, whatever retention says. It is called for many contents in a row and must answer at once. */
  readonly keeps?: (digest: string) => boolean
  /** Intercepts tunnels to hosts that the settings name. */
  readonly interceptTunnel?: InterceptTunnel | undefined
  /** Answers instead of some tunnels that would be carried through unread. */
  readonly refuseTunnel?: RefuseTunnel
  /** The identity of the TLS listener. `onNext` gets every certificate that replaces the first. */
  readonly tlsListener?: (onNext: (identity: KeyAndCertificate) => void) => Promise<TlsOptions>
  /** What pages show of the CA. */
  readonly https?: HttpsPages
  /** Called after a suite was adopted. */
  readonly adopted?: (suite: KnownSuite) => void
  /** The answers to commands that ask the running service, by the `do` of the request. */
  readonly answers?: Readonly<Record<string, CommandAnswering>>
  /** What pages, `status` and `explain` say of it. */
  readonly report?: FeatureReport
  /** Called after a reload with the authorities that are trusted for origins now. Returns a problem in one sentence. */
  readonly reload?: (authorities: readonly string[] | undefined) => string | undefined
  /** Begins nothing new from now on. Called when the service begins to stop, and again later. Resolves when its work has ended. */
  readonly quiet?: () => Promise<unknown>
  readonly stops?: readonly FeatureStop[]
}

/** Answers the request of a command to the running service. Most answer a `CommandAnswer`, which the command prints. */
export type CommandAnswering = (request: JsonObject) => Promise<unknown>

/**
 * A step of stopping, and when it is taken:
 * - work: when the last client was served. It breaks off work that no client waits for.
 * - last: before the store is closed. It ends what the parts before it have used.
 */
export interface FeatureStop {
  readonly when: 'work' | 'last'
  readonly step: StopStep
}
