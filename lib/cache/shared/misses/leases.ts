/**
 * Who fetches a key: an object that only one node can make (`PUT If-None-Match: *`). It lasts ten seconds and is renewed while the fetch
 * runs: when a node dies, the others go on after so long. One that has lapsed is taken over by the version it has (`If-Match`), so that of several nodes one gets it.
 */
import { hash, randomBytes } from 'node:crypto'
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { resultInTime } from '../../../async/deadline.ts'
import { repeat } from '../../../async/repeat.ts'
import type { Logger } from '../../../log/log.ts'
import {
  type LeaseRecord,
  leaseBytes,
  leaseName,
  mostBytes,
  peerOf,
  readLease,
  types,
} from '../objects.ts'
import type { Bucket, Put } from '../s3/bucket.ts'
import { type Lease, patience } from '../shared-store.ts'
import { mayBeNode } from './peer-addresses.ts'

/** How long a lease lasts, and after which time its holder renews it. */
const term: Milliseconds = 10_000
const renewal: Milliseconds = 3000

/** What a lease may last longer than we would give it, for clocks are a second off. */
const slack: Milliseconds = 3000

interface LeaseParts {
  readonly clock: Clock
  readonly log: Logger
  readonly bucket: Bucket
  readonly node: string
  readonly peer: string | undefined
}

interface Held {
  readonly id: string
  readonly name: string
  etag: string
  /** Whether another node has taken it over. */
  lost?: boolean
  stop: () => void
}

const none: Lease = { kind: 'none' }

export class Leases {
  readonly #parts: LeaseParts
  /** By their names. */
  readonly #held = new Map<string, Held | undefined>()
  /** Whether another node has our name. */
  #hasTwin = false

  constructor(parts: LeaseParts) {
    this.#parts = parts
  }

  /** `whenReleased` is awaited between the release by the fetch and the release in the bucket. */
  async ask(key: string, whenReleased: () => Promise<unknown>): Promise<Lease> {
    const name = leaseName(key)
    if (this.#held.has(name)) return none
    this.#held.set(name, undefined)
    // Three requests may be needed, and a client waits for all of them no longer than for one.
    const asking = this.#ask({ id: randomBytes(12).toString('hex'), name, etag: '', stop() {} })
    const found = await resultInTime(asking, this.#parts.clock, patience)
    if (found === undefined) {
      void asking.then(late => this.#forget(name, late))
      return none
    }
    if (!('etag' in found)) {
      this.#held.delete(name)
      return found
    }
    this.#hold(found)
    let released = false
    return {
      kind: 'held',
      release: () => {
        if (released) return
        released = true
        void whenReleased().then(() => this.#letGo(found))
      },
    }
  }

  /** Lets go of all of them, as far as there is time. */
  async close(): Promise<void> {
    await Promise.all([...this.#held.values()].map(held => held && this.#letGo(held)))
  }

  /** The lease when it is ours now, or what there is in its place. */
  async #ask(ours: Held): Promise<Held | Lease> {
    const { bucket } = this.#parts
    const { name } = ours
    if (await this.#put(ours, 'new')) return ours
    if (ours.etag === 'refused') return none
    const there = await bucket.read(name, { most: mostBytes.lease })
    // Its holder has just let go of it: what was fetched is in the bucket, or can be fetched.
    if (there === 'unchanged' || there.outcome !== 'done') return none
    const record = readLease(there.bytes)
    if (record?.id === ours.id) return { ...ours, etag: there.etag }
    const left = record === undefined ? 0 : this.#left(record)
    if (record !== undefined && left > 0) return { kind: 'taken', peer: this.#peerOf(record), left }
    if (there.etag !== '' && (await this.#put(ours, { etag: there.etag }))) return ours
    return none
  }

  /** The node that has the lease, unless it names a place where none can be. */
  #peerOf({ peer }: LeaseRecord): LeaseRecord['peer'] {
    const { peer: own } = this.#parts
    return peer && mayBeNode(peer.host, own && peerOf(own)?.host) ? peer : undefined
  }

  /** For how long a lease lasts still. One that lasts too long has a wrong time, and ours are from before a restart. */
  #left({ node, until }: LeaseRecord): Milliseconds {
    const left = until - this.#parts.bucket.now()
    return node === this.#parts.node || left > term + slack ? 0 : left
  }

  /** Whether the lease is ours; `etag` is then its version, and 'refused' when not another node was first but the store refuses. */
  async #put(lease: Held, only: NonNullable<Put['only']>): Promise<boolean> {
    const { bucket, node, peer } = this.#parts
    const bytes = leaseBytes({ node, peer, id: lease.id, until: bucket.now() + term })
    const written = await bucket.put({
      name: lease.name,
      digest: hash('sha256', bytes),
      content: { kind: 'bytes', bytes },
      type: types.json,
      only,
    })
    if (written.outcome === 'done') lease.etag = written.etag
    else lease.etag = written.outcome === 'precondition' ? '' : 'refused'
    return written.outcome === 'done'
  }

  #hold(lease: Held): void {
    this.#held.set(lease.name, lease)
    // Without its version it cannot be renewed, and lapses.
    if (lease.etag === '') return
    lease.stop = repeat(this.#parts.clock, renewal, async () => {
      const { etag } = lease
      if (await this.#put(lease, { etag })) return
      // Another node has taken it over after it had lapsed; or the store is away for now.
      lease.lost = lease.etag === ''
      if (!lease.lost) {
        lease.etag = etag
        return
      }
      lease.stop()
      await this.#noteLost(lease)
    })
  }

  /** A node takes over at once what a run of its own before has left. So two nodes with one name take each other's. */
  async #noteLost({ name, id }: Held): Promise<void> {
    const { bucket, node, log } = this.#parts
    if (this.#hasTwin) return
    const there = await bucket.read(name, { most: mostBytes.lease })
    if (there === 'unchanged' || there.outcome !== 'done') return
    const record = readLease(there.bytes)
    if (record?.node !== node || record.id === id || this.#hasTwin) return
    this.#hasTwin = true
    log.warn('another node has the same shared_store.peer_url: both fetch the same files', { node })
  }

  /** The answer came when the client waited no longer. */
  async #forget(name: string, late: Held | Lease): Promise<void> {
    if ('etag' in late) this.#held.set(name, late)
    if ('etag' in late) return this.#letGo(late)
    this.#held.delete(name)
  }

  async #letGo(lease: Held): Promise<void> {
    lease.stop()
    if (this.#held.get(lease.name) !== lease) return
    this.#held.delete(lease.name)
    if (lease.lost === true) return
    const { bucket } = this.#parts
    const etag = lease.etag === '' ? undefined : lease.etag
    const removed = await bucket.remove(lease.name, { etag })
    if (removed.outcome === 'unsupported') await bucket.remove(lease.name)
  }
}
