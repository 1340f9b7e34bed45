/**
 * The certificate of the TLS listener: one for all names and addresses of this machine, so that clients that name no host are
 * served, too. Issued again when the names change or it grows old.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { repeat } from '../../async/repeat.ts'
import { Failure } from '../../errors.ts'
import type { KeyAndCertificate } from '../../http/server/options.ts'
import type { Logger } from '../../log/log.ts'
import type { Leaves } from './leaf.ts'

interface ListenerCertificateParts {
  readonly leaves: Pick<Leaves, 'issue' | 'covers'>
  /** The names of this machine at the moment. */
  readonly names: () => readonly string[]
  readonly clock: Clock
  readonly log: Logger
  /** Told of every certificate that takes the place of the first. */
  readonly onNext: (identity: KeyAndCertificate) => void
}

/** How often names and age are looked at. */
const interval: Milliseconds = 60_000

/** The first certificate, and how to stop replacing it. Throws a Failure when the CA may not issue for any name of ours. */
export async function listenerCertificate(
  parts: ListenerCertificateParts,
): Promise<{ readonly identity: KeyAndCertificate; readonly stop: () => void }> {
  const { leaves, names, clock, log, onNext } = parts
  let last = { names: '', renewal: 0 }
  /** Undefined while the last one serves, and when no name is left. */
  const issueWhenDue = async (): Promise<KeyAndCertificate | undefined> => {
    const [first, ...rest] = names().filter(name => leaves.covers(name))
    const text = [first, ...rest].join()
    if (first === undefined || (text === last.names && clock.now() < last.renewal)) return undefined
    const { key, cert, renewal } = await leaves.issue([first, ...rest])
    last = { names: text, renewal }
    return { key, cert }
  }
  const identity = await issueWhenDue()
  if (identity === undefined) {
    throw new Failure(
      'the CA may not issue certificates for any name of this machine; listen_port_secure needs one that may',
      { code: 'AUTHORITY', fault: 'internal', publicText: 'The service cannot start.' },
    )
  }
  const stop = repeat(clock, interval, async () => {
    try {
      const next = await issueWhenDue()
      if (next !== undefined) onNext(next)
    } catch (error) {
      log.error('the certificate of the TLS listener could not be renewed', { error })
    }
  })
  return { identity, stop }
}
