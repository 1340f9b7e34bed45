/**
 * What the operations interface is told by the rest of the service: plain values and functions, nothing it could change.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { Config } from '../config/config.ts'
import type { StatisticsReport } from '../stats/report.ts'

/** Something asked for once per request; it may take its time. */
export type Source<Value> = () => Value | Promise<Value>

/** An open listener. */
export interface Listener {
  /** Undefined when it listens on every address of the machine. */
  readonly address: string | undefined
  /** The port it really has. */
  readonly port: number
  /** Whether clients speak TLS to it. */
  readonly secure: boolean
}

/** What becomes of HTTPS: carried unread, read and cached with a certificate of our own, or refused. */
export type HttpsMode = 'tunnel' | 'intercept' | 'disabled'

/** What is to be said of the CA certificates are issued with. */
export interface HttpsState {
  readonly subject: string
  /** SHA-256, upper-case hex with colons. */
  readonly fingerprint: string
  readonly notAfter: Milliseconds
  /** Whether that is near or past. */
  readonly expiresSoon: boolean
  /** For how long a client that rejected a certificate is tunnelled; 0 for not at all. */
  readonly remembered: Milliseconds
  /** Those who did, the latest first. */
  readonly distrusting: ReadonlyArray<{
    readonly client: string
    readonly host: string
    readonly since: Milliseconds
  }>
}

/** One rule that sends requests elsewhere, in words for people. */
export interface RoutingRule {
  /** What it applies to, such as a host or the beginning of a URL. */
  readonly from: string
  /** Where those requests go, in the order in which they are tried. */
  readonly to: readonly string[]
}

/** What the store holds and what its file system has left; all sizes in bytes. */
export interface StoreUsage {
  readonly objects: number
  readonly bytes: number
  readonly filesystem: { readonly total: number; readonly used: number; readonly free: number }
}

/** Whether the service can do its work. */
export interface Health {
  /** Whether the store takes new content. Hits and uncached answers work even when it does not. */
  readonly writable: boolean
  /** Why not: a sentence strangers may read. */
  readonly because?: string
}

/** The check of everything stored. */
export interface Verification {
  /** Whether one runs now. */
  readonly running: boolean
  /** What the last one found; undefined before the first. Moments and durations in milliseconds, sizes in bytes. */
  readonly last:
    | {
        readonly finished: number
        readonly took: number
        readonly files: number
        readonly bytes: number
        readonly suites: number
        readonly confirmed: number
        readonly wrong: number
      }
    | undefined
}

/** One thing `explain` found out about a URL, such as "Rule" and the rule that decided. */
export interface Explanation {
  readonly question: string
  readonly answer: string
}

export interface OperationsSources {
  readonly clock: Clock
  readonly version: string
  readonly config: Config
  /** The open listeners, the main one first. */
  readonly listeners: () => readonly Listener[]
  /** IP addresses of this machine, in the system's order. */
  readonly addresses: () => readonly string[]
  readonly httpsMode: HttpsMode
  /** The CA; absent, or undefined, when there is none. */
  readonly https?: () => HttpsState | undefined
  /** The rules of mirror routing; the first that applies wins. */
  readonly routing: readonly RoutingRule[]
  readonly statistics: () => StatisticsReport
  readonly usage: Source<StoreUsage>
  readonly health: Source<Health>
  readonly verification: () => Verification
  /** Metrics in the Prometheus text format 0.0.4. */
  readonly metrics: Source<string>
  /** The CA's certificate; absent, or undefined, when HTTPS is not intercepted. */
  readonly certificate?: Source<Buffer | undefined>
  /** The revocation list, DER; absent, or undefined, when there is none. */
  readonly revocationList?: Source<Buffer | undefined>
  /** What would become of a request for this URL. Must not ask the network: strangers may call it. */
  readonly explain?: (url: string) => readonly Explanation[] | Promise<readonly Explanation[]>
}
