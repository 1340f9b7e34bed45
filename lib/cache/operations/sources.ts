/**
 * The values and functions that the pages get from the rest of the service, read-only.
 */
import type { Clock } from '../../async/clock.ts'
import type { ParentState } from '../../http/client/dialling/parents.ts'
import type { DelayState } from '../answer/suite-delays.ts'
import type { ReleaseBehind } from '../answer/suites-behind.ts'
import type { Config } from '../config/config.ts'
import type { ChangeCount } from '../delay/changes.ts'
import type { IncomingFile } from '../fetch/found.ts'
import type { HttpsMode, HttpsState } from '../intercept/https.ts'
import type { RouteRule } from '../policy/routing.ts'
import type { SharedState } from '../shared/shared-store.ts'
import type { Activity, CountedHoldings } from '../stats/activity.ts'
import type { HistoryReport, StatisticsReport } from '../stats/report.ts'
import type { Health } from '../store/disk/health.ts'
import type { Unremovable } from '../store/store.ts'
import type { FileSystemSpace, Usage } from '../store/upkeep/room.ts'
import type { Generation } from '../suites/generation.ts'
import type { UnreferencedFigures } from '../suites/unreferenced.ts'

/** A value that is asked for once a request, at once or later. */
type Source<Value> = () => Value | Promise<Value>

export interface OperationsSources {
  readonly clock: Clock
  readonly version: string
  readonly config: Config
  readonly admits: (client: string) => boolean
  readonly warnings: () => readonly string[]
  /** The parent proxies, in their order. */
  readonly parents: () => readonly ParentState[]
  /** The open listeners, the main one first. */
  readonly listeners: () => readonly Listener[]
  /** IP addresses of this machine, in the system's order. */
  readonly addresses: () => readonly string[]
  /** Removed contents whose files the file system did not let go. */
  readonly unremovable: () => Unremovable
  /** How many builds there are, and the bytes of the contents that stay for them. */
  readonly builds: () => { readonly count: number; readonly bytes: number }
  /** The name that the machine gives itself. */
  readonly hostname: string
  readonly httpsMode: HttpsMode
  readonly https: () => HttpsState | undefined
  /** The rules of mirror routing; the first that applies decides. */
  readonly routing: ReadonlyArray<Pick<RouteRule, 'from' | 'to'>>
  readonly statistics: () => StatisticsReport
  readonly history: () => HistoryReport
  readonly activity: () => ActivityReport
  readonly usage: Source<StoreUsage>
  /** What is stored of each archive, most bytes first; undefined until it is known. */
  readonly holdings: Source<CountedHoldings | undefined>
  readonly health: Source<Health>
  /** Why nothing can be stored although the disk works; undefined when something can. */
  readonly nothingStored: () => string | undefined
  /** What is found of packages that no index names any more; undefined while none are to be removed, and before the first look. */
  readonly unreferenced: () => UnreferencedFigures | undefined
  /** What is known of the store that several nodes share; undefined without one. */
  readonly shared: () => SharedState | undefined
  readonly verification: () => Verification
  /** The suites whose indexes files are compared with, the one adopted last first. */
  readonly suites: () => readonly SuiteState[]
  /** Suites that a delay or a hold is for and has no effect on, because they are not adopted. */
  readonly notDelayed: () => readonly string[]
  /** Metrics in the Prometheus text format 0.0.4. */
  readonly metrics: Source<string>
  readonly certificate: Source<Buffer | undefined>
  /** The revocation list, DER; undefined when there is none. */
  readonly revocationList: Source<Buffer | undefined>
  /** How a request for this URL would be answered. Must not use the network, because all clients may call it. */
  readonly explain: (url: string) => readonly Explanation[] | Promise<readonly Explanation[]>
}

/** An open listener. */
export interface Listener {
  /** Undefined when it listens on every address of the machine. */
  readonly address: string | undefined
  readonly port: number
  readonly secure: boolean
}

/** What the service does now and did lately. */
export interface ActivityReport
  extends Pick<
    Activity,
    'started' | 'rates' | 'runs' | 'problems' | 'archives' | 'clients' | 'clientsToday'
  > {
  /** Connections of clients. */
  readonly connections: number
  /** Clients of which content waits for `limits.per_client.rate`. */
  readonly waitingForRate: number
  readonly arriving: readonly IncomingFile[]
}

/** What the store holds and what its file system has left; all sizes in bytes. */
interface StoreUsage extends Omit<Usage, 'blobs'> {
  /** Undefined when the file system does not say. */
  readonly filesystem: FileSystemSpace | undefined
}

/** A suite with the generation that clients get. */
export interface SuiteState
  extends Pick<Generation, 'date' | 'adopted' | 'validUntil' | 'signature'> {
  /** URL of the directory of its Release file. */
  readonly name: string
  /** The files it names that clients use, and their bytes. */
  readonly files: number
  readonly bytes: number
  /** Why clients do not get what the origin has now, when they do not. */
  readonly behind: ReleaseBehind | undefined
  /** Why the Release file that the origin has now is not given to clients, in words; undefined when it is. */
  readonly refusal?: string | undefined
  /** What a delay or a hold keeps from clients, when its archive has one. */
  readonly delay?: SuiteDelayed | undefined
}

/** What a delay or a hold keeps from clients. */
interface SuiteDelayed {
  readonly state: DelayState
  /** How many packages the newest that waits would change; undefined until they are counted, which this begins. */
  readonly changes: () => ChangeCount | 'unknown' | undefined
}

/** The check of everything stored. */
export interface Verification {
  readonly running: boolean
  /** What the last one found that reached its end; undefined before the first. */
  readonly last: LastVerification | undefined
}

/** The figures of a check: when it finished and how long it took, milliseconds; what it looked at and found. */
export const verificationFigures = [
  'finished',
  'took',
  'files',
  'bytes',
  'suites',
  'confirmed',
  'wrong',
] as const

export type LastVerification = Readonly<Record<(typeof verificationFigures)[number], number>>

/** One thing `explain` found out about a URL, such as "Admitted by" and the rule. */
export interface Explanation {
  readonly question: string
  readonly answer: string
  /** What becomes of a request, as far as it is known; the first finding alone has it. */
  readonly fate?: RequestFate | undefined
}

/**
 * What becomes of a request:
 * - hit: the store answers
 * - asks: the store answers once the origin has confirmed the copy
 * - miss: the origin's content is the answer
 * - tunnel: the proxy carries it unread
 * - refused: a rule refuses it
 * - failed: there is no file to answer with
 */
export type RequestFate = 'hit' | 'asks' | 'miss' | 'tunnel' | 'refused' | 'failed'
