/**
 * The store that nodes share, in a bucket: the requests for each call, the health of the store, and the figures. Reads and writes rest
 * separately, because a full store still answers reads.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { resultInTime } from '../../async/deadline.ts'
import type { Logger } from '../../log/log.ts'
import { isDigest } from '../store/disk/disk.ts'
import type { Entry } from '../store/entry.ts'
import type { Store } from '../store/store.ts'
import { Leases } from './misses/leases.ts'
import { blobName, entryObject, largestBlob, mostBytes, probeName, readEntry } from './objects.ts'
import { Renewal } from './renewal.ts'
import {
  Bucket,
  type BucketParts,
  type BucketRefusal,
  type ObjectWrite,
  type OutcomeReason,
} from './s3/bucket.ts'
import {
  type BlobOptions,
  type Lease,
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
  /** The name of this node, which no other node has. */
  readonly node: string
  readonly peer: string | undefined
  readonly expire: () => Milliseconds
  /** Reads the credentials again, before a trial of a store that has failed. */
  readonly credentialsAgain: () => unknown
  readonly directory: string
  readonly store: Pick<Store, 'read' | 'content' | 'list'>
  readonly shares: (key: string) => boolean
}

const none: Lease = { kind: 'none' }

/** The longest time for which a lease waits for the upload of the fetched content. */
const uploadTime: Milliseconds = 60_000

export class SharedBucket implements SharedStore {
  readonly #parts: SharedBucketParts
  readonly #bucket: Bucket
  readonly #reads: Breaker
  readonly #writes: Breaker
  readonly #leases: Leases
  readonly #suites: SuiteObjects
  readonly #uploads: Uploads
  readonly #renewal: Renewal
  readonly #requests = new Map<SharedOperation, Map<SharedOutcome, number>>()
  #conditional: 'unknown' | 'on' | 'off' = 'unknown'
  #trial: Promise<unknown> = Promise.resolve()
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
    this.#leases = new Leases({ ...parts, bucket })
    this.#suites = new SuiteObjects({ clock, bucket, conditional })
    this.#uploads = new Uploads({ ...parts, bucket, writable: usable, conditional })
    this.#renewal = new Renewal({
      ...parts,
      bucket,
      usable,
      offer: (key, size) => void this.#uploads.add(key, { size }),
    })
  }

  /** Begins to try the engine in the background, and continues the uploads of an earlier run. */
  async open(): Promise<void> {
    this.#trial = this.#tryWrites().then(because => {
      if (because !== undefined) this.#writes.failed(because)
    })
    await this.#uploads.open()
    this.#renewal.begin()
  }

  async blob(
    digest: string,
    { first, size, lifetime }: BlobOptions,
  ): Promise<SharedContent | undefined> {
    if (this.#reads.resting !== undefined || !isDigest(digest)) return undefined
    const name = blobName(digest)
    const found = await this.#bucket.get(name, { first, lifetime })
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

  async lease(key: string): Promise<Lease> {
    if (this.#conditional === 'unknown')
      await resultInTime(this.#trial, this.#parts.clock, sharedPatience)
    if (this.#conditional !== 'on' || !this.#usable) return none
    return this.#leases.ask(key, () => {
      return resultInTime(this.#uploads.settled(key), this.#parts.clock, uploadTime)
    })
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
      leases: this.#conditional,
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

  /** Ends uploads and leases until the signal fires. */
  async close(signal: AbortSignal): Promise<void> {
    this.#renewal.close()
    await this.#uploads.close(signal)
    if (this.#usable && !signal.aborted) await this.#leases.close()
    this.#reads.close()
    this.#writes.close()
  }

  get #usable(): boolean {
    return this.#reads.resting === undefined && this.#writes.resting === undefined
  }

  /** The reason why the store cannot be read; undefined when it can. The object that is read need not exist. */
  async #askToRead(): Promise<string | undefined> {
    this.#parts.credentialsAgain()
    const there = await this.#bucket.read(probeName(this.#parts.node), { most: mostBytes.lease })
    if (!('because' in there)) return undefined
    const answers = there.outcome === 'absent' || there.because.endsWith(' AccessDenied')
    return answers ? undefined : there.because
  }

  /** The reason why the store takes no writes; undefined when it does. A successful trial also finds out whether writes can be conditional. */
  async #tryWrites(): Promise<string | undefined> {
    const { node, log, credentialsAgain } = this.#parts
    credentialsAgain()
    const because = await whyUnconditional(this.#bucket, node)
    if (typeof because === 'object') return because.because
    const before = this.#conditional
    this.#conditional = because === undefined ? 'on' : 'off'
    if (because !== undefined && before !== 'off') {
      log.warn(
        'the shared store has no conditional writes: several nodes may fetch the same file at once, and of two that write a suite in the same moment the later one wins',
        { because },
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

/**
 * Finds out whether the engine obeys `If-None-Match: *` and `If-Match` in a write: writes an object of this node. Then tries to write it again
 * as a new object, and with a wrong version. The text says why the engine has no conditional writes. With a refusal this is not known.
 */
async function whyUnconditional(
  bucket: Bucket,
  node: string,
): Promise<string | BucketRefusal | undefined> {
  const name = probeName(node)
  const write = (only: ObjectWrite['only']) => bucket.putJson(name, Buffer.from('{}\n'), only)
  const removed = await bucket.remove(name)
  if (removed.outcome !== 'done' && removed.outcome !== 'absent') return removed
  const first = await write('new')
  const without = 'it refuses conditional writes'
  if (first.outcome === 'unsupported') {
    const plain = await write(undefined)
    return plain.outcome === 'done' ? without : plain
  }
  // An object of an earlier run of this node may still exist.
  if (first.outcome !== 'done' && first.outcome !== 'precondition') return first
  const again = [await write('new'), await write({ etag: `"${'0'.repeat(32)}"` })]
  await bucket.remove(name)
  let refused: BucketRefusal | undefined
  for (const written of again) {
    if (written.outcome === 'done') return 'it ignores conditions of writes'
    if (written.outcome === 'unsupported') return without
    if (written.outcome !== 'precondition') refused ??= written
  }
  return refused
}

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
