/**
 * The values and functions that the pages get from the rest of the service. All of them only read.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { ParentState } from '../../http/client/dialling/parents.ts'
import type { Fields } from '../../http/message/field.ts'
import type { TargetUri } from '../../http/message/target.ts'
import type { JsonObject } from '../../json.ts'
import type { Config } from '../config/config.ts'
import type { ContentSource } from '../decide/decide.ts'
import type { IncomingFile } from '../fetch/fetch-outcome.ts'
import type { OriginRemark } from '../fetch/origin-remarks.ts'
import type { UnconfirmedOrigin } from '../fetch/unconfirmed-origins.ts'
import type { RouteRule } from '../policy/routing.ts'
import type { Activity, CountedHoldings } from '../stats/activity.ts'
import type { HistoryReport, StatisticsReport } from '../stats/report.ts'
import type { FileSystemSpace, Usage } from '../store/content/space.ts'
import type { Health } from '../store/disk/health.ts'
import type { UnremovableContents } from '../store/store.ts'
import type { Generation } from '../suites/generation.ts'
import type { UnreferencedFigures } from '../suites/unreferenced.ts'
import type { ReleaseBehind } from '../suites/updates/updates.ts'

/** Returns a value, or a promise of it. The pages call it once for each request. */
type Source<Value> = () => Value | Promise<Value>

export interface OperationsSources {
  readonly clock: Clock
  readonly version: string
  readonly config: Config
  readonly admits: (client: string) => boolean
  readonly warnings: () => readonly string[]
  readonly parents: () => readonly ParentState[]
  /** What is special about asking some origins now. */
  readonly origins: () => readonly OriginRemark[]
  /** The open listeners, with the main one first. */
  readonly listeners: () => readonly Listener[]
  /** The IP addresses of this machine, in the order of the system. */
  readonly addresses: () => readonly string[]
  /** The removed contents whose files the file system could not delete. */
  readonly unremovable: () => UnremovableContents
  readonly hostname: string
  readonly httpsMode: HttpsMode
  readonly https: () => HttpsState | undefined
  /** The rules of mirror routing, the first of which that applies decides. */
  readonly routing: ReadonlyArray<Pick<RouteRule, 'from' | 'to'>>
  readonly statistics: () => StatisticsReport
  readonly history: () => HistoryReport
  readonly activity: () => ActivityReport
  readonly usage: Source<StoreUsage>
  /** The stored files of each archive, with the archive of most bytes first; undefined until they are counted. */
  readonly holdings: Source<CountedHoldings | undefined>
  readonly health: Source<Health>
  /** The reason why no file can be stored although the disk works; undefined when files can be stored. */
  readonly nothingStored: () => string | undefined
  /** The figures of packages that indexes no longer name; undefined before the first look, and when none are to be removed. */
  readonly unreferenced: () => UnreferencedFigures | undefined
  /** The adopted suites, with whose indexes files are compared. The one that was adopted last is first. */
  readonly suites: () => readonly SuiteState[]
  /** The origins that have confirmed nothing for ten minutes while clients asked. */
  readonly unconfirmed: () => readonly UnconfirmedOrigin[]
  /** The metrics in the Prometheus text format 0.0.4. */
  readonly metrics: Source<string>
  readonly certificate: Source<Buffer | undefined>
  /** The revocation list in DER; undefined when there is none. */
  readonly revocationList: Source<Buffer | undefined>
  /** What the features say of themselves, in their order. */
  readonly features: readonly FeatureReport[]
  /** Explains how a request for this URL would be answered. It must not use the network, because clients can call it. */
  readonly explain: (
    request: ExplainedRequest,
  ) => readonly Explanation[] | Promise<readonly Explanation[]>
}

/** Whether tunnels are carried through unread, intercepted and cached, or refused. */
export type HttpsMode = 'tunnel' | 'intercept' | 'disabled'

/** The CA that issues certificates, and the clients that do not trust it. */
export interface HttpsState {
  readonly subject: string
  /** The SHA-256 of the certificate, in upper-case hex with colons. */
  readonly fingerprint: string
  readonly notAfter: Milliseconds
  readonly expiresSoon: boolean
  /** The time for which tunnels of a client that rejected a certificate are not intercepted; 0 switches that off. */
  readonly remembered: Milliseconds
  readonly distrusting: readonly Distrust[]
}

/** A client that rejected the certificate of a host. */
export interface Distrust {
  readonly client: string
  readonly host: string
  readonly since: Milliseconds
}

/** What the pages get from the feature that intercepts HTTPS. */
export interface HttpsPages
  extends Pick<OperationsSources, 'https' | 'certificate' | 'revocationList'> {
  readonly mode: () => HttpsMode
}

/** An open listener. */
export interface Listener {
  /** Undefined when it listens on every address of the machine. */
  readonly address: string | undefined
  readonly port: number
  readonly secure: boolean
}

/** The activity of the service now and lately. */
export interface ActivityReport extends Omit<Activity, 'note'> {
  readonly connections: number
  /** The number of clients whose content waits for `limits.per_client.rate`. */
  readonly waitingForRate: number
  readonly arriving: readonly IncomingFile[]
}

/** The usage of the store and the space of its file system, in bytes. */
interface StoreUsage extends Omit<Usage, 'blobs'> {
  /** Undefined when the file system does not say. */
  readonly filesystem: FileSystemSpace | undefined
}

/** A suite with the generation that clients get. */
export interface SuiteState
  extends Pick<Generation, 'date' | 'adopted' | 'validUntil' | 'signature' | 'contradictions'> {
  /** The URL of the directory of its Release file. */
  readonly name: string
  /** The number of its files that clients use, and their bytes. */
  readonly files: number
  readonly bytes: number
  /** The reason why clients do not get the newest Release file of the origin; undefined when they get it. */
  readonly behind: ReleaseBehind | undefined
  /** A sentence that says why the Release file of the origin was refused; undefined when it was not. */
  readonly refusal?: string | undefined
}

/** The request that is explained: a GET without fields of a client that is not named, where nothing else is said. */
export interface ExplainedRequest {
  readonly url: string
  readonly method?: string
  readonly fields?: Fields
  readonly client?: string
}

/** One finding of `explain` about a request, such as "Admitted by" and the rule. */
export interface Explanation {
  readonly question: string
  readonly answer: string
  /** The expected outcome of a request. Only the first finding has it, and the two members below. */
  readonly fate?: RequestFate | undefined
  /** The reason in the word that the log has for it. */
  readonly because?: string | undefined
  /** The sources of the answer in the order in which they are tried; none when the client gets no file. */
  readonly from?: readonly AnswerSource[] | undefined
}

export type AnswerSource = ContentSource | 'store'

/**
 * The expected outcome of a request:
 * - hit: the store answers
 * - asks: the store answers once the origin has confirmed the copy
 * - miss: the origin's content is the answer
 * - tunnel: the proxy carries the request through a tunnel, unread
 * - refused: a rule refuses it
 * - failed: there is no file to answer with
 */
export type RequestFate = 'hit' | 'asks' | 'miss' | 'tunnel' | 'refused' | 'failed'

/** What pages and commands say of a feature. All of it only reads, and is called once for each page or command. */
export interface FeatureReport {
  /** Sentences about what an operator has to look after. `upkeep` is about storing and single suites, and stands in the health check too. */
  readonly cautions?: () => ReadonlyArray<{ readonly text: string; readonly upkeep: boolean }>
  /** Its members of `status --json`, and its lines of `status`. Undefined when it has nothing to say. */
  readonly status?: () => StatusPart | undefined
  /** Sentences of the cache page about what stays in the store because of it. */
  readonly stays?: () => readonly string[]
  /** Its sections of the cache page, which come last there. */
  readonly sections?: () => readonly PageSection[]
  /**
   * What it says of an adopted suite, for the cache page and `explain`. With `counts` it may begin to count in the background what it says
   * the next time.
   */
  readonly suite?: (at: string, options: { readonly counts: boolean }) => SuiteRemark | undefined
  /** What `explain` says of a file. `bytes` is its size, where that is known. */
  readonly findings?: (file: ExplainedFile) => readonly Explanation[]
}

/** A word such as `Delayed`, and what it means for a suite now. */
export interface SuiteRemark {
  readonly label: string
  readonly text: string
}

/** A file that `explain` tells of. */
export interface ExplainedFile {
  readonly uri: TargetUri
  readonly bytes: number | undefined
}

export interface StatusPart {
  readonly members: JsonObject
  readonly lines: readonly PageRow[]
}

/** A name, and the text beside it. */
export interface PageRow {
  readonly name: string
  readonly text: string
}

/** A section of a page, in the order of its parts. */
export interface PageSection {
  /** The anchor of its title. */
  readonly id: string
  readonly title: string
  readonly state?: { readonly good: boolean; readonly word: string; readonly text: string }
  readonly paragraphs: readonly string[]
  /** Remarks in small letters. */
  readonly remarks: readonly string[]
  readonly rows: readonly PageRow[]
}
