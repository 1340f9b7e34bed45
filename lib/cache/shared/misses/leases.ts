/**
 * Leases: an object in the bucket says which node fetches a key. Only one node can make the object (`PUT If-None-Match: *`). A lease lasts ten
 * seconds and is renewed while the fetch runs, so that the other nodes go on ten seconds after a node has died. A node takes over a lapsed lease
 * by its version (`If-Match`), so that only one of several nodes gets it.
 */
import { randomBytes } from 'node:crypto'
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
} from '../objects.ts'
import type { Bucket, ObjectWrite } from '../s3/bucket.ts'
import { type Lease, sharedPatience } from '../shared-store.ts'
import { mayBeNode } from './peer-addresses.ts'

/** How long a lease lasts, and how often its holder renews it. */
const term: Milliseconds = 10_000
const renewal: Milliseconds = 3000

/** A lease of another node may last this much longer than `term`, because clocks differ. */
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
  lost?: boolean
  stop: () => void
}

const none: Lease = { kind: 'none' }

export class Leases {
  readonly #parts: LeaseParts
  /** The leases of this node by their names; undefined while a lease is being asked for. */
  readonly #held = new Map<string, Held | undefined>()
  /** Whether another node has the name of this node. */
  #hasTwin = false

  constructor(parts: LeaseParts) {
    this.#parts = parts
  }

  /** Asks for the lease of a key. `whenReleased` is awaited between the release by the fetch and the release in the bucket. */
  async ask(key: string, whenReleased: () => Promise<unknown>): Promise<Lease> {
    const name = leaseName(key)
    if (this.#held.has(name)) return none
    this.#held.set(name, undefined)
    const ours: Held = { id: randomBytes(12).toString('hex'), name, etag: '', stop() {} }
    const asking = this.#ask(ours).then(found => {
      if ('etag' in found) this.#held.set(name, found)
      else this.#held.delete(name)
      return found
    })
    // Three requests may be needed, but a client waits only `patience` for all of them.
    const found = await resultInTime(asking, this.#parts.clock, sharedPatience)
    if (found === undefined) {
      void asking.then(async late => {
        if ('etag' in late) await this.#letGo(late)
      })
      return none
    }
    if (!('etag' in found)) return found
    this.#renew(found)
    return { kind: 'held', release: () => void whenReleased().then(() => this.#letGo(found)) }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#held.values()].map(held => held && this.#letGo(held)))
  }

  /** The lease when this node got it, or the lease of another node, or none. */
  async #ask(ours: Held): Promise<Held | Lease> {
    const { bucket } = this.#parts
    const { name } = ours
    if (await this.#put(ours, 'new')) return ours
    if (ours.etag === 'refused') return none
    const there = await bucket.read(name, { most: mostBytes.lease })
    // The holder has just released the lease, so the file is in the bucket or this node may fetch it.
    if (there.outcome !== 'done') return none
    const record = readLease(there.bytes)
    if (record?.id === ours.id) return { ...ours, etag: there.etag }
    const left = record === undefined ? 0 : this.#left(record)
    if (record !== undefined && left > 0) return { kind: 'taken', peer: this.#peerOf(record), left }
    if (there.etag !== '' && (await this.#put(ours, { etag: there.etag }))) return ours
    return none
  }

  /** The URL of the node that has the lease; undefined when no node can be at its address. */
  #peerOf({ peer }: LeaseRecord): LeaseRecord['peer'] {
    const { peer: own } = this.#parts
    return peer && mayBeNode(peer.host, own && peerOf(own)?.host) ? peer : undefined
  }

  /** The remaining time of a lease. It is 0 for a lease with a wrong time, and for a lease of this node from before a restart. */
  #left({ node, until }: LeaseRecord): Milliseconds {
    const left = until - this.#parts.bucket.now()
    return node === this.#parts.node || left > term + slack ? 0 : left
  }

  /** Writes a lease. Answers whether this node has it; `etag` is then its version. `etag` is 'refused' when the store refuses the write. */
  async #put(lease: Held, only: NonNullable<ObjectWrite['only']>): Promise<boolean> {
    const { bucket, node, peer } = this.#parts
    const bytes = leaseBytes({ node, peer, id: lease.id, until: bucket.now() + term })
    const written = await bucket.putJson(lease.name, bytes, only)
    if (written.outcome === 'done') lease.etag = written.etag
    else lease.etag = written.outcome === 'precondition' ? '' : 'refused'
    return written.outcome === 'done'
  }

  #renew(lease: Held): void {
    // A lease without a version cannot be renewed and lapses.
    if (lease.etag === '') return
    lease.stop = repeat(this.#parts.clock, renewal, async () => {
      const { etag } = lease
      if (await this.#put(lease, { etag })) return
      // Another node has taken the lapsed lease, or the store does not answer now.
      lease.lost = lease.etag === ''
      if (!lease.lost) {
        lease.etag = etag
        return
      }
      lease.stop()
      await this.#noteLost(lease)
    })
  }

  /** Finds out whether another node has this node's name. A node takes over leases of its own name at once, so two such nodes take each other's. */
  async #noteLost({ name, id }: Held): Promise<void> {
    const { bucket, node, log } = this.#parts
    if (this.#hasTwin) return
    const there = await bucket.read(name, { most: mostBytes.lease })
    if (there.outcome !== 'done') return
    const record = readLease(there.bytes)
    if (record?.node !== node || record.id === id || this.#hasTwin) return
    this.#hasTwin = true
    log.warn('another node has the same shared_store.peer_url: both fetch the same files', { node })
  }

  async #letGo(lease: Held): Promise<void> {
    lease.stop()
    if (this.#held.get(lease.name) !== lease) return
    this.#held.delete(lease.name)
    if (lease.lost === true) return
    const { bucket } = this.#parts
    const { name, etag } = lease
    const removed = await bucket.remove(name, etag === '' ? undefined : { etag })
    if (removed.outcome === 'unsupported') await bucket.remove(name)
  }
}
