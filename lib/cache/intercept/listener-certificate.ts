/**
 * The certificate of the TLS listener: one for all names and addresses of this machine, so that clients that name no host are
 * served, too. Issued again when the names change or it grows old.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { repeat } from '../../async/repeat.ts'
import { Failure } from '../../errors.ts'
import type { KeyAndCertificate } from '../../http/server/node-server.ts'
import type { Logger } from '../../log/log.ts'
import type { Leaves } from './leaf.ts'

export interface ListenerCertificateParts {
  readonly leaves: Pick<Leaves, 'issue' | 'covers'>
  /** The names of this machine at the moment. */
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
  #stop = () => {}

  constructor(parts: ListenerCertificateParts) {
    this.#parts = parts
  }

  /**
   * The first certificate; `onNext` is told of every one that takes its place. Throws a Failure when the CA may not issue for
   * any name of this machine.
   */
  async start(onNext: (identity: KeyAndCertificate) => void): Promise<KeyAndCertificate> {
    const identity = await this.#issueWhenDue()
    if (identity === undefined) {
      throw new Failure(
        'the CA may not issue certificates for any name of this machine; listen_port_secure needs one that may',
        { code: 'AUTHORITY', fault: 'internal', publicText: 'The service cannot start.' },
      )
    }
    const { clock, log } = this.#parts
    this.#stop = repeat(clock, interval, async () => {
      try {
        const next = await this.#issueWhenDue()
        if (next !== undefined) onNext(next)
      } catch (error) {
        log.error('the certificate of the TLS listener could not be renewed', { error })
      }
    })
    return identity
  }

  stop(): void {
    this.#stop()
  }

  /** A certificate for other names, or in place of an old one; undefined while the last one serves, and without a name. */
  async #issueWhenDue(): Promise<KeyAndCertificate | undefined> {
    const { clock, leaves, names } = this.#parts
    const [first, ...rest] = names().filter(name => leaves.covers(name))
    const text = [first, ...rest].join()
    if (first === undefined || (text === this.#names && clock.now() < this.#renewal)) return
    const leaf = await leaves.issue([first, ...rest])
    this.#names = text
    this.#renewal = leaf.renewal
    return { key: leaf.key, cert: leaf.cert }
  }
}
