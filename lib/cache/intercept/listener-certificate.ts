/**
 * The certificate of the TLS listener: one for all names and addresses of this machine, so that clients that name no host are
 * served, too. Made anew when names change or it grows old.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { Failure } from '../../errors.ts'
import type { KeyAndCertificate } from '../../http/server/node-server.ts'
import type { Logger } from '../../log/log.ts'
import { type Leaves, renewalOf } from './leaf.ts'

export interface ListenerCertificateParts {
  readonly leaves: Pick<Leaves, 'issue' | 'covers'>
  /** What this machine is called at the moment. */
  readonly names: () => readonly string[]
  readonly clock: Clock
  readonly log: Logger
}

/** How often names and age are looked at. */
const interval: Milliseconds = 60_000

export class ListenerCertificate {
  readonly #parts: ListenerCertificateParts
  #names = ''
  #renewal: Milliseconds = 0
  #cancel = () => {}
  #stopped = false

  constructor(parts: ListenerCertificateParts) {
    this.#parts = parts
  }

  /**
   * The first certificate; `onNext` is told of every one that takes its place. Throws a Failure when the CA may not issue for
   * any name of this machine.
   */
  async start(onNext: (identity: KeyAndCertificate) => void): Promise<KeyAndCertificate> {
    const [first, ...rest] = this.#coveredNames()
    if (first === undefined) {
      throw new Failure(
        'the CA may not issue certificates for any name of this machine; listen_port_secure needs one that may',
        { code: 'AUTHORITY', fault: 'internal', publicText: 'The service cannot start.' },
      )
    }
    const identity = await this.#issue([first, ...rest])
    this.#lookLater(onNext)
    return identity
  }

  stop(): void {
    this.#stopped = true
    this.#cancel()
  }

  #lookLater(onNext: (identity: KeyAndCertificate) => void): void {
    if (this.#stopped) return
    this.#cancel = this.#parts.clock.after(interval, () => {
      void this.#look(onNext).finally(() => this.#lookLater(onNext))
    })
  }

  async #look(onNext: (identity: KeyAndCertificate) => void): Promise<void> {
    const { clock, log } = this.#parts
    const [first, ...rest] = this.#coveredNames()
    const due = clock.now() >= this.#renewal || [first, ...rest].join() !== this.#names
    if (!due || first === undefined) return
    try {
      onNext(await this.#issue([first, ...rest]))
    } catch (error) {
      log.error('the certificate of the TLS listener could not be renewed', { error })
    }
  }

  async #issue(names: readonly [string, ...string[]]): Promise<KeyAndCertificate> {
    const leaf = await this.#parts.leaves.issue(names)
    this.#names = names.join()
    this.#renewal = renewalOf(leaf)
    return { key: leaf.key, cert: leaf.cert }
  }

  #coveredNames(): readonly string[] {
    const { leaves, names } = this.#parts
    return names().filter(name => leaves.covers(name))
  }
}
