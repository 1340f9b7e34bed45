/**
 * The activity that the pages show, bounded and in memory only. It consists of the latest runs of clients, the latest problems, the rates
 * of the last minute, the number of today's clients, and the figures of each archive and client since the start. `Holdings` counts the
 * stored files of each archive when a page asks for them, at most once a minute.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { resultInTime } from '../../async/deadline.ts'
import type { Exchange } from '../../http/message/message.ts'
import { targetText } from '../../http/server/exchanges.ts'
import { type RecentEntries, recentEntries } from '../../recent.ts'
import { notStoredReasons } from '../fetch/fetch-outcome.ts'
import { isGone } from '../fetch/revalidation.ts'
import type { ListedEntry } from '../store/catalogue/catalogue.ts'
import type { ReadableStore } from '../store/store.ts'

/** A request that has been answered. */
export interface AnsweredRequest {
  readonly at: Milliseconds
  readonly client: string
  /** The program that sent the request, such as `apt`. */
  readonly agent: string
  readonly method: string
  /** The key of the file, else the target of the request. It may have a query, so it must be redacted before it is shown. */
  readonly target: string
  readonly status: number
  readonly outcome: string
  readonly because: string
  readonly bytes: number
  readonly complete: boolean
  /** Whether the response was cut off because the client read too slowly. */
  readonly slowClient: boolean
  /** The reason why a fetched file could not be stored; undefined when it was stored, or when the response was not to be stored. */
  readonly notStored: string | undefined
}

/** A series of requests of one program on one client without a long pause, such as one `apt update`. */
export interface Run extends Pick<AnsweredRequest, 'client' | 'agent'> {
  readonly first: Milliseconds
  last: Milliseconds
  count: number
  hits: number
  problems: number
  bytes: number
  /** Its latest requests, with the oldest first. */
  readonly requests: AnsweredRequest[]
}

/** The figures of one archive or client. */
export interface Tally {
  readonly name: string
  requests: number
  hits: number
  bytes: number
  last: Milliseconds
}

const keptProblems = 100
/** The most runs that are kept, and the number of requests that are kept of each. */
const mostRuns = 20
const keptOfRun = 25
/** A request that comes this long after the last one of its run ended begins another run. */
const pause: Milliseconds = 60_000
const mostClients = 10_000
/** The most archives, and the most clients, whose figures are kept. The least recently seen go first. */
const mostNames = 500
const seconds = 60

export class Activity {
  readonly started: Milliseconds
  readonly #clock: Clock
  readonly #begun: Milliseconds
  readonly #runs: Run[] = []
  /** The runs that can continue, by client and then by program. One key of both would cost each request more than all other work here. */
  readonly #open = new Map<string, Map<string, Run>>()
  /** The last User-Agent and its program. Consecutive requests mostly come from one program. */
  #latest = { agent: '', program: programOf('') }
  readonly #problems: AnsweredRequest[] = []
  readonly #archives = recentEntries<string, Tally>(mostNames)
  readonly #clients = recentEntries<string, Tally>(mostNames)
  #today = { from: 0, until: 0, clients: new Set<string>() }
  /** Three numbers for each second of a minute: the second since the start, the requests in it, and their bytes. */
  readonly #minute = new Float64Array(seconds * 3).fill(-1)

  constructor(clock: Clock) {
    this.#clock = clock
    this.started = clock.now()
    this.#begun = clock.elapsed()
  }

  /** Notes an exchange. Returns whether it is a problem; a page about the proxy itself never is. */
  note({ request, response, sent, duration, complete }: Exchange): boolean {
    const { outcome, because, key, origin, notStored } = response.facts ?? {}
    if (typeof outcome !== 'string' || outcome === 'operations') return false
    const at = request.received + duration
    const answered: AnsweredRequest = {
      at,
      client: request.client.address,
      agent: this.#programOf(request.fields.get('User-Agent') ?? ''),
      method: request.method,
      target: typeof key === 'string' ? key : targetText(request),
      status: response.status,
      outcome,
      because: typeof because === 'string' ? because : '',
      bytes: sent,
      complete,
      slowClient: request.slowClient === true,
      notStored:
        typeof notStored === 'string' && !notStoredReasons.has(notStored) ? notStored : undefined,
    }
    const problem = isProblem(answered)
    if (problem) keep(this.#problems, answered, keptProblems)
    this.#addToRun(answered, { began: request.received, problem })
    this.#countClient(answered)
    this.#count(sent)
    tally(this.#clients, answered.client, answered)
    if (typeof origin === 'string') tally(this.#archives, origin, answered)
    return problem
  }

  get runs(): ReadonlyArray<Readonly<Run>> {
    return [...this.#runs].sort((a, b) => b.last - a.last)
  }

  /**
   * Requests that were refused, failed or broke off, that got a stale file because the origin did not answer, or whose file could not be
   * stored. The latest is first.
   */
  get problems(): readonly AnsweredRequest[] {
    return [...this.#problems].reverse()
  }

  /** The number of clients that have got an answer today since the start. It does not rise above `mostClients`. */
  get clientsToday(): number {
    const { from, until, clients } = this.#today
    const now = this.#clock.now()
    return now >= from && now < until ? clients.size : 0
  }

  get archives(): readonly Tally[] {
    return largest(this.#archives)
  }

  get clients(): readonly Tally[] {
    return largest(this.#clients)
  }

  /** The averages of the last minute, per second. */
  get rates() {
    const now = this.#second()
    const minute = this.#minute
    let [requests, bytes] = [0, 0]
    for (let i = 0; i < minute.length; i += 3) {
      const second = minute[i] ?? -1
      if (second < 0 || second <= now - seconds) continue
      requests += minute[i + 1] ?? 0
      bytes += minute[i + 2] ?? 0
    }
    const length = Math.min(seconds, now + 1)
    return { requests: requests / length, bytes: bytes / length }
  }

  #programOf(agent: string): string {
    if (agent !== this.#latest.agent) this.#latest = { agent, program: programOf(agent) }
    return this.#latest.program
  }

  #addToRun(
    answered: AnsweredRequest,
    { began, problem }: { readonly began: Milliseconds; readonly problem: boolean },
  ): void {
    const { at, client, agent, outcome, bytes } = answered
    let programs = this.#open.get(client)
    let run = programs?.get(agent)
    // After the clock is set back, a new run begins too.
    if (run === undefined || Math.abs(began - run.last) >= pause) {
      const figures = { count: 0, hits: 0, problems: 0, bytes: 0 }
      run = { client, agent, first: began, last: at, ...figures, requests: [] }
      if (programs === undefined) {
        programs = new Map()
        this.#open.set(client, programs)
      }
      programs.set(agent, run)
      this.#runs.push(run)
      if (this.#runs.length > mostRuns) this.#dropOldestRun()
    }
    run.last = Math.max(run.last, at)
    run.count += 1
    run.hits += outcome === 'hit' ? 1 : 0
    run.problems += problem ? 1 : 0
    run.bytes += bytes
    keep(run.requests, answered, keptOfRun)
  }

  #dropOldestRun(): void {
    const oldest = this.#runs.reduce((a, b) => (b.last < a.last ? b : a))
    this.#runs.splice(this.#runs.indexOf(oldest), 1)
    const programs = this.#open.get(oldest.client)
    if (programs?.get(oldest.agent) === oldest) programs.delete(oldest.agent)
    if (programs?.size === 0) this.#open.delete(oldest.client)
  }

  #countClient({ at, client }: AnsweredRequest): void {
    if (at < this.#today.from || at >= this.#today.until) {
      const from = new Date(at).setHours(0, 0, 0, 0)
      const until = new Date(at).setHours(24, 0, 0, 0)
      this.#today = { from, until, clients: new Set() }
    }
    const { clients } = this.#today
    if (clients.size < mostClients) clients.add(client)
  }

  #count(bytes: number): void {
    const second = this.#second()
    const minute = this.#minute
    const i = (second % seconds) * 3
    if (minute[i] !== second) minute.set([second, 0, 0], i)
    minute[i + 1] = (minute[i + 1] ?? 0) + 1
    minute[i + 2] = (minute[i + 2] ?? 0) + bytes
  }

  #second(): number {
    return Math.floor((this.#clock.elapsed() - this.#begun) / 1000)
  }
}

/** Adds one to a list, which drops its oldest when it has more than `kept`. */
function keep(all: AnsweredRequest[], one: AnsweredRequest, kept: number): void {
  all.push(one)
  if (all.length > kept) all.shift()
}

/**
 * Whether a request is a problem. A file that an archive does not have is none, although the outcome of its request is `failed`: apt
 * asks for InRelease, and for Release when there is no InRelease.
 */
function isProblem(answered: AnsweredRequest): boolean {
  const { outcome, because, status, complete, notStored } = answered
  if (!complete || notStored !== undefined || outcome === 'refused') return true
  if (because.startsWith('stale-origin')) return true
  return outcome === 'failed' && !isGone(status)
}

const longestProgram = 40

/** The first product of a User-Agent (RFC 9110 section 10.1.5), without its version. apt calls itself `Debian APT-HTTP/1.3`. */
export function programOf(agent: string | undefined): string {
  if (agent === undefined || agent === '') return 'unnamed program'
  if (/\bAPT-/.test(agent.slice(0, 80))) return 'apt'
  const [name = ''] = /^[^\s/(]*/.exec(agent) ?? []
  return name === '' ? 'unnamed program' : name.slice(0, longestProgram)
}

function tally(
  all: RecentEntries<Tally>,
  name: string,
  { at, outcome, bytes }: AnsweredRequest,
): void {
  let one = all.get(name)
  if (one === undefined) {
    one = { name, requests: 0, hits: 0, bytes: 0, last: at }
    all.set(name, one)
  }
  one.requests += 1
  one.hits += outcome === 'hit' ? 1 : 0
  one.bytes += bytes
  one.last = at
}

function largest(all: RecentEntries<Tally>): readonly Tally[] {
  return [...all.values()].sort((a, b) => b.bytes - a.bytes || b.requests - a.requests)
}

interface Holding {
  /** The host of the archive, with the port unless it is the default. */
  readonly name: string
  files: number
  /** The bytes of its files. A content that several files share counts for each of them. */
  bytes: number
}

/** The stored files of the archives, and the largest files, as of the last count. */
export interface CountedHoldings {
  readonly archives: readonly Holding[]
  readonly largest: readonly ListedEntry[]
}

const goodFor: Milliseconds = 60_000
/** The longest time for which a page waits for a count. The count continues for the next page. */
const patience: Milliseconds = 2000
const mostHoldings = 1000
const others = 'others'
const mostLargest = 10

export class Holdings {
  readonly #store: Pick<ReadableStore, 'list'>
  readonly #clock: Clock
  #last: { readonly counted: CountedHoldings; readonly at: Milliseconds } | undefined
  #running: Promise<void> | undefined

  constructor(store: Pick<ReadableStore, 'list'>, clock: Clock) {
    this.#store = store
    this.#clock = clock
  }

  /** The last count, which is renewed when it is old. Undefined while the first count takes longer than a page waits. */
  async counted(): Promise<CountedHoldings | undefined> {
    const age = this.#clock.elapsed() - (this.#last?.at ?? 0)
    if (this.#last === undefined || age >= goodFor) {
      this.#running ??= this.#count().finally(() => {
        this.#running = undefined
      })
      await resultInTime(this.#running, this.#clock, patience)
    }
    return this.#last?.counted
  }

  async #count(): Promise<void> {
    const all = new Map<string, Holding>()
    let largest: readonly ListedEntry[] = []
    for await (const some of this.#store.list()) {
      const least = largest[mostLargest - 1]?.size ?? -1
      largest = [...largest, ...some.filter(({ size }) => size > least)]
        .sort((a, b) => b.size - a.size)
        .slice(0, mostLargest)
      for (const { key, size } of some) {
        const [, found = ''] = /^https?:\/\/([^/]+)/.exec(key) ?? []
        const name = all.has(found) || all.size < mostHoldings ? found : others
        const holding = all.get(name) ?? { name, files: 0, bytes: 0 }
        holding.files += 1
        holding.bytes += size
        all.set(name, holding)
      }
    }
    const archives = [...all.values()].sort((a, b) => b.bytes - a.bytes || b.files - a.files)
    this.#last = { counted: { archives, largest }, at: this.#clock.elapsed() }
  }
}
