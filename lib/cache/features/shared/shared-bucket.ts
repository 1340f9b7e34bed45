/**
 * The store that nodes share, in a bucket: the requests for each call, the health of the store, and the figures. Reads and writes rest
 * separately, because a full store still answers reads.
 */
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { resultInTime } from '../../../async/deadline.ts'
import type { Logger } from '../../../log/log.ts'
import { isDigest } from '../../store/disk/disk.ts'
import type { Entry } from '../../store/entry.ts'
import type { Store } from '../../store/store.ts'
import { blobName, entryObject, largestBlob, mostBytes, probeName, readEntry } from './objects.ts'
import { Renewal } from './renewal.ts'
import { Bucket, type BucketParts, type OutcomeReason } from './s3/bucket.ts'
import { tryConditions } from './s3/conditions.ts'
import {
  type BlobOptions,
  type SharedContent,
  type SharedOperation,
  type SharedOutcome,
  type SharedState,
  type SharedStore,
  type SuitePointer,
  type SuiteRecord,
  type SwapResult,
  sharedPatience,
} from './shared-store.ts'
import { SuiteObjects } from './suites/suite-objects.ts'
import { Uploads } from './uploads.ts'

export interface SharedBucketParts extends Omit<BucketParts, 'onOutcome'> {
  readonly log: Logger
  /** The URL of the setting, for status and log. */
  readonly url: string
  /** The name of this node in the bucket, which no other node has. */
  readonly node: string
  readonly expire: () => Milliseconds
  /** Reads the credentials again, before a trial of a store that has failed. */
  readonly credentialsAgain: () => unknown
  readonly store: Pick<Store, 'read' | 'content' | 'list'>
  readonly shares: (key: string) => boolean
}

export class SharedBucket implements SharedStore {
  readonly #parts: SharedBucketParts
  readonly #bucket: Bucket
  readonly #reads: Breaker
  readonly #writes: Breaker
  readonly #suites: SuiteObjects
  readonly #uploads: Uploads
  readonly #renewal: Renewal
  readonly #requests = new Map<SharedOperation, Map<SharedOutcome, number>>()
  #conditional: SharedState['conditionalWrites'] = 'unknown'
  #wrong = 0

  constructor(parts: SharedBucketParts) {
    const { clock } = parts
    this.#parts = parts
    const bucket = new Bucket({
      ...parts,
      onOutcome: (operation, outcome, reason) => this.#came(operation, outcome, reason),
    })
    this.#bucket = bucket
    this.#reads = new Breaker({
      clock,
      ask: () => this.#askToRead(),
      onChange: because => this.#changed('the shared store', because),
    })
    this.#writes = new Breaker({
      clock,
      ask: () => this.#tryWrites(),
      onChange: because => this.#changed('writing to the shared store', because),
    })
    const conditional = () => this.#conditional === 'on'
    const usable = () => this.#usable
    this.#suites = new SuiteObjects({ clock, bucket, conditional })
    this.#uploads = new Uploads({ ...parts, bucket, writable: usable, conditional })
    this.#renewal = new Renewal({
      ...parts,
      bucket,
      usable,
      offer: (key, size) => void this.#uploads.add(key, { size }),
    })
  }

  /** Begins to try the engine in the background, and to renew objects. */
  open(): void {
    void this.#tryWrites().then(because => {
      if (because !== undefined) this.#writes.failed(because)
    })
    this.#renewal.begin()
  }

  async blob(digest: string, { size, lifetime }: BlobOptions): Promise<SharedContent | undefined> {
    if (this.#reads.resting !== undefined || !isDigest(digest)) return undefined
    const name = blobName(digest)
    const found = await this.#bucket.get(name, lifetime)
    if (found.outcome !== 'done') return undefined
    if (size !== undefined && found.size !== size) {
      found.source.close()
      this.#count('get', 'failed')
      return undefined
    }
    this.#renewal.seen(name, found.modified)
    return { size: found.size, source: found.source }
  }

  async entry(key: string): Promise<Entry | undefined> {
    if (this.#reads.resting !== undefined) return undefined
    const name = entryObject(key)
    const there = await this.#bucket.read(name, { most: mostBytes.entry })
    if (there.outcome !== 'done') return undefined
    this.#renewal.seen(name, there.modified)
    return readEntry(there.bytes, key)
  }

  async suite(
    id: string,
    { fresh = false }: { readonly fresh?: boolean } = {},
  ): Promise<SuitePointer | undefined> {
    if (this.#reads.resting !== undefined) return undefined
    const read = await this.#suites.read(id, fresh)
    return read === 'away' ? undefined : read.pointer
  }

  async swap(id: string, from: SuitePointer | undefined, to: SuiteRecord): Promise<SwapResult> {
    if (!this.#usable) return 'away'
    return (
      (await resultInTime(this.#suites.swap(id, from, to), this.#parts.clock, sharedPatience)) ??
      'away'
    )
  }

  async offer(
    entry: Entry,
    { first = false }: { readonly first?: boolean } = {},
  ): Promise<boolean> {
    const { key, size } = entry
    if (!this.#parts.shares(key)) return false
    const waits = this.#uploads.add(key, first ? { size, urgent: entry } : { size })
    return waits && this.#uploads.settled(key)
  }

  wrong(digest: string): void {
    this.#wrong += 1
    const { log } = this.#parts
    log.warn('a content of the shared store is not what its digest says; it is removed there', {
      digest,
    })
    if (this.#usable) void this.#bucket.remove(blobName(digest))
  }

  get state(): SharedState {
    const { url } = this.#parts
    const { received, sent } = this.#bucket.traffic
    return {
      url,
      resting: this.#reads.resting,
      unwritable: this.#writes.resting,
      conditionalWrites: this.#conditional,
      requests: this.#requests,
      received,
      sent,
      uploads: this.#uploads.counts,
      wrong: this.#wrong,
      renewed: this.#renewal.count,
      largest: largestBlob,
      ahead: this.#bucket.ahead,
    }
  }

  /** Lets uploads under way end until the signal fires. */
  async close(signal: AbortSignal): Promise<void> {
    this.#renewal.close()
    await this.#uploads.close(signal)
    this.#reads.close()
    this.#writes.close()
  }

  get #usable(): boolean {
    return this.#reads.resting === undefined && this.#writes.resting === undefined
  }

  /** The reason why the store cannot be read; undefined when it can. The object that is read need not exist. */
  async #askToRead(): Promise<string | undefined> {
    this.#parts.credentialsAgain()
    const there = await this.#bucket.read(probeName(this.#parts.node), { most: mostBytes.probe })
    if (!('because' in there)) return undefined
    const answers = there.outcome === 'absent' || there.code === 'AccessDenied'
    return answers ? undefined : there.because
  }

  /** The reason why the store takes no writes; undefined when it does. A successful trial also finds out whether writes can be conditional. */
  async #tryWrites(): Promise<string | undefined> {
    const { node, log, credentialsAgain } = this.#parts
    credentialsAgain()
    const trial = await tryConditions(this.#bucket, probeName(node))
    if ('outcome' in trial) return trial.because
    const before = this.#conditional
    this.#conditional = trial.tags === 'none' ? 'off' : 'on'
    this.#bucket.tags = trial.tags === 'bare' ? 'bare' : 'quoted'
    if (trial.tags === 'none' && before !== 'off') {
      log.warn(
        'the shared store has no conditional writes: of two nodes that write a suite in the same moment the later one wins',
        { because: trial.because },
      )
    }
    return undefined
  }

  #came(
    operation: SharedOperation,
    outcome: SharedOutcome,
    { because, telling }: OutcomeReason,
  ): void {
    this.#count(operation, outcome)
    if (!telling || harmless.has(outcome)) return
    const reads = operation === 'get' || operation === 'head'
    if (reads) this.#reads.failed(because)
    else this.#writes.failed(because)
  }

  #count(operation: SharedOperation, outcome: SharedOutcome): void {
    const of = this.#requests.get(operation) ?? new Map<SharedOutcome, number>()
    this.#requests.set(operation, of)
    of.set(outcome, (of.get(outcome) ?? 0) + 1)
  }

  #changed(what: string, because: string | undefined): void {
    const { log, url } = this.#parts
    if (because !== undefined) {
      return log.warn(`${what} fails; it is tried again in the background`, { store: url, because })
    }
    log.info(`${what} works again`, { store: url })
    this.#uploads.go()
  }
}

/** Outcomes that are no failure of the store. */
const harmless: ReadonlySet<SharedOutcome> = new Set([
  'done',
  'absent',
  'precondition',
  'unsupported',
])

/*
 * `Breaker` keeps requests from a store that fails. After a failure, requests are answered at once without the store, until a trial in the
 * background succeeds. The time before a trial is a second at first. It doubles after each failure, up to a minute. When a store fails again
 * within a minute after it worked again, the time continues from its last value.
 */

const firstRest: Milliseconds = 1000
const longestRest: Milliseconds = 60_000

interface BreakerOptions {
  readonly clock: Clock
  /** Tries the store. Answers undefined when it works, else the reason. It must not reject. */
  readonly ask: () => Promise<string | undefined>
  /** Called with the reason when the store begins to rest, and with undefined when it works again. */
  readonly onChange: (because: string | undefined) => void
}

class Breaker {
  readonly #options: BreakerOptions
  #because: string | undefined
  #failures = 0
  /** When the store last began to work again, by `elapsed`. */
  #recovered: Milliseconds = 0
  #cancel: () => void = () => {}
  #closed = false

  constructor(options: BreakerOptions) {
    this.#options = options
  }

  /** The reason why the store rests; undefined when it may be asked. */
  get resting(): string | undefined {
    return this.#because
  }

  /** Notes that a request failed. Further failures while the store rests have no effect. */
  failed(because: string): void {
    if (this.#because !== undefined || this.#closed) return
    if (this.#options.clock.elapsed() - this.#recovered > longestRest) this.#failures = 0
    this.#because = because
    this.#options.onChange(because)
    this.#rest()
  }

  close(): void {
    this.#closed = true
    this.#cancel()
  }

  #rest(): void {
    const time = Math.min(longestRest, firstRest * 2 ** this.#failures)
    this.#failures += 1
    this.#cancel = this.#options.clock.after(time, () => void this.#ask())
  }

  async #ask(): Promise<void> {
    const because = await this.#options.ask()
    if (this.#closed) return
    if (because !== undefined) {
      this.#because = because
      return this.#rest()
    }
    this.#because = undefined
    this.#recovered = this.#options.clock.elapsed()
    this.#options.onChange(undefined)
  }
}
