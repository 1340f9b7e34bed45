/**
 * Keeps the latest runs of clients and the latest problems, the rates of the last minute, the number of clients of today, and figures of
 * each archive and client since the start, in memory alone and bounded. Counts what is stored of each archive when asked, at most
 * once a minute.
 */
import { LRUCache } from 'lru-cache'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { resultInTime } from '../../async/deadline.ts'
import type { Exchange } from '../../http/message/message.ts'
import { targetText } from '../../http/server/exchanges.ts'
import { notStoredReasons } from '../fetch/found.ts'
import { isGone } from '../fetch/revalidation.ts'
import type { ListedEntry } from '../store/catalogue/catalogue.ts'
import type { ReadableStore } from '../store/store.ts'

/** A request that has been answered. */
export interface AnsweredRequest {
  readonly at: Milliseconds
  readonly client: string
  /** The program that asked, such as `apt`. */
  readonly agent: string
  readonly method: string
  /** The key of the file, or what was asked for. It may have a query: redact it before it is shown. */
  readonly target: string
  readonly status: number
  readonly outcome: string
  readonly because: string
  /** Bytes of content its client got. */
  readonly bytes: number
  readonly duration: number
  readonly complete: boolean
  /** Whether it was cut off because the client read too slowly. */
  readonly slowClient: boolean
  /** Why the disk has not got what was fetched; undefined when it has, or when the origin forbids it. */
  readonly notStored: string | undefined
}

/** Requests of one program on one client without a long pause between them, such as one `apt update`. */
export interface Run extends Pick<AnsweredRequest, 'client' | 'agent'> {
  /** When its first request came. */
  readonly first: Milliseconds
  /** When its last request was over. */
  last: Milliseconds
  count: number
  hits: number
  problems: number
  bytes: number
  /** Its latest requests, the oldest first. */
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

/** A second each: requests and bytes of the last minute. */
interface Rates {
  readonly requests: number
  readonly bytes: number
}

/** Latest problems that are kept. */
const keptProblems = 100
/** Latest runs, and latest requests of each, that are kept. */
const mostRuns = 20
const keptOfRun = 25
/** A request that comes so long after all others of its run were over begins another. */
const pause: Milliseconds = 60_000
/** Clients that are counted each day. */
const mostClients = 10_000
/** Archives and clients whose figures are kept: those seen last. */
const mostNames = 500
const seconds = 60

export class Activity {
  readonly started: Milliseconds
  readonly #clock: Clock
  readonly #begun: Milliseconds
  readonly #runs: Run[] = []
  /** Those that may go on, by client and program; one text of both would cost each request more than all the rest here. */
  readonly #open = new Map<string, Map<string, Run>>()
  readonly #programOf = lastAnswer(programOf)
  readonly #problems: AnsweredRequest[] = []
  readonly #archives = new LRUCache<string, Tally>({ max: mostNames })
  readonly #clients = new LRUCache<string, Tally>({ max: mostNames })
  #today = { from: 0, until: 0, clients: new Set<string>() }
  /** For each second of a minute: which second since the start it is, requests, bytes. */
  readonly #minute = new Float64Array(seconds * 3).fill(-1)

  constructor(clock: Clock) {
    this.#clock = clock
    this.started = clock.now()
    this.#begun = clock.elapsed()
  }

  /** Notes an exchange, and says whether it is a problem; pages about the proxy itself are none. */
  note({ request, response, sent, duration, complete }: Exchange): boolean {
    const { outcome, because, key, origin, notStored } = response.facts ?? {}
    if (typeof outcome !== 'string' || outcome === 'operations') return false
    const at = request.received + duration
    const answered: AnsweredRequest = {
      at,
      client: request.client.address,
      agent: this.#programOf(request.fields.get('User-Agent')),
      method: request.method,
      target: typeof key === 'string' ? key : targetText(request),
      status: response.status,
      outcome,
      because: typeof because === 'string' ? because : '',
      bytes: sent,
      duration,
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

  /** The latest first. */
  get runs(): ReadonlyArray<Readonly<Run>> {
    return this.#runs
      .map(run => ({ ...run, requests: run.requests.slice(-keptOfRun) }))
      .sort((a, b) => b.last - a.last)
  }

  /**
   * Requests that were refused, failed, broke off, got a stale file for want of an answer, or whose file the disk did not take; the
   * latest first.
   */
  get problems(): readonly AnsweredRequest[] {
    return this.#problems.slice(-keptProblems).reverse()
  }

  /** Clients that had a request answered today, since the start; `mostClients` are that many or more. */
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

  get rates(): Rates {
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

  #addToRun(
    answered: AnsweredRequest,
    { began, problem }: { readonly began: Milliseconds; readonly problem: boolean },
  ): void {
    const { at, client, agent, outcome, bytes } = answered
    let programs = this.#open.get(client)
    let run = programs?.get(agent)
    // A clock that was set back begins a run, too.
    if (run === undefined || Math.abs(began - run.last) >= pause) {
      run = { client, agent, first: began, last: at, ...noFigures, requests: [] }
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

const noFigures = { count: 0, hits: 0, problems: 0, bytes: 0 }

/** Adds the latest, and drops the oldest ones now and then, beyond `kept`: to drop one for each moves all the others. */
function keep(all: AnsweredRequest[], one: AnsweredRequest, kept: number): void {
  all.push(one)
  if (all.length >= 2 * kept) all.splice(0, kept)
}

/**
 * A file that an archive does not have is no problem: apt asks for an InRelease, and then for a Release when there is none. The
 * outcome of such a request is `failed` all the same.
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

/** Asks again only when the argument is another one: requests in a row mostly come from one program. */
function lastAnswer<A, B>(ask: (argument: A) => B): (argument: A) => B {
  let last: { readonly argument: A; readonly answer: B } | undefined
  return argument => {
    if (last === undefined || last.argument !== argument) last = { argument, answer: ask(argument) }
    return last.answer
  }
}

function tally(
  all: LRUCache<string, Tally>,
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

function largest(all: LRUCache<string, Tally>): readonly Tally[] {
  return [...all.values()].sort((a, b) => b.bytes - a.bytes || b.requests - a.requests)
}

/** The stored files of one archive. */
interface Holding {
  /** Host, and port if it is not the default. */
  readonly name: string
  files: number
  /** Contents that several files share count for each. */
  bytes: number
}

/** What is stored, as it was counted last. */
export interface CountedHoldings {
  readonly archives: readonly Holding[]
  readonly largest: readonly ListedEntry[]
}

const goodFor: Milliseconds = 60_000
/** How long a page waits for a count; it goes on, for the next one. */
const patience: Milliseconds = 2000
/** Archives with figures of their own. */
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

  /** Undefined while the first count goes on. */
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
