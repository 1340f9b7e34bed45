/**
 * Issues certificates for intercepted hosts, and one for the TLS listener with all names of this machine. A certificate is made when it
 * is first needed, once for each host, and kept for a day at most. All certificates of one hour share a key, which saves making keys
 * and limits the use of a stolen one.
 */
import { createSecureContext, type SecureContext } from 'node:tls'
import { LRUCache } from 'lru-cache'
import { type Clock, hour, type Milliseconds } from '../../../async/clock.ts'
import { repeat } from '../../../async/repeat.ts'
import { SingleFlight } from '../../../async/single-flight.ts'
import { Failure } from '../../../errors.ts'
import type { KeyAndCertificate } from '../../../http/server/options.ts'
import type { Logger } from '../../../log/log.ts'
import { generateLeafKey, type LeafKey, type LeafOptions } from '../../../x509/x509.ts'
import { type Authority, isCertifiable } from './authority.ts'

/** A key, and its certificate with those between it and the root. */
interface Leaf extends KeyAndCertificate {
  readonly renewal: Milliseconds
}

interface LeavesOptions {
  readonly authority: Pick<Authority, 'certificate' | 'issuer' | 'chain'>
  readonly clock: Clock
  /** The URLs in certificates, where clients find the CA certificate and the revocation list. */
  readonly addresses: () => Pick<LeafOptions, 'caIssuers' | 'distributionPoint'>
}

/** The validity of a certificate begins this long before it is made, for clients whose clocks are late. */
const head: Milliseconds = hour
const lifetime: Milliseconds = 24 * hour
/** A certificate is replaced this long before it ends, because connections last for hours at most. */
const margin: Milliseconds = 6 * hour
const keyLifetime: Milliseconds = hour
const mostHosts = 1000

export class LeafCertificates {
  readonly #options: LeavesOptions
  readonly #kept = new LRUCache<string, { context: SecureContext; renewal: Milliseconds }>({
    max: mostHosts,
  })
  readonly #issuing = new SingleFlight<SecureContext>()
  readonly #generating = new SingleFlight<LeafKey>()
  #key: { readonly pair: LeafKey; readonly until: Milliseconds } | undefined

  constructor(options: LeavesOptions) {
    this.#options = options
  }

  /** Whether a certificate can be issued for this DNS name (lower case) or IP address now. */
  covers(host: string): boolean {
    const { authority, clock } = this.#options
    const { certificate } = authority
    return isCertifiable(host) && certificate.permits(host) && clock.now() < certificate.notAfter
  }

  /** The TLS context of a server for this host. Throws a Failure for a host that `covers` denies. */
  async context(host: string): Promise<SecureContext> {
    const known = this.#kept.get(host)
    if (known !== undefined && this.#options.clock.now() < known.renewal) return known.context
    return this.#issuing.run(host, async () => {
      const { key, cert, renewal } = await this.issue([host])
      const context = createSecureContext({ key, cert, minVersion: 'TLSv1.2' })
      this.#kept.set(host, { context, renewal })
      return context
    })
  }

  /** Issues one certificate for all of these names. Throws a Failure when `covers` denies one of them. */
  async issue(names: readonly [string, ...string[]]): Promise<Leaf> {
    const refused = names.find(name => !this.covers(name))
    if (refused !== undefined) {
      throw new Failure(`no certificate can be made for ${refused}`, { code: 'LEAF_REFUSED' })
    }
    const { authority, clock, addresses } = this.#options
    const pair = await this.#pair()
    const now = clock.now()
    const notAfter = Math.min(now + lifetime, authority.certificate.notAfter)
    const certificate = await authority.issuer.issueLeaf({
      names,
      publicKey: pair.publicKey,
      notBefore: Math.max(now - head, authority.certificate.notBefore),
      notAfter,
      ...addresses(),
    })
    return { key: pair.pem, cert: certificate + authority.chain, renewal: notAfter - margin }
  }

  async #pair(): Promise<LeafKey> {
    const { clock } = this.#options
    if (this.#key !== undefined && clock.now() < this.#key.until) return this.#key.pair
    return this.#generating.run('', async () => {
      const pair = await generateLeafKey()
      this.#key = { pair, until: clock.now() + keyLifetime }
      return pair
    })
  }
}

interface ListenerCertificateParts {
  readonly leaves: Pick<LeafCertificates, 'issue' | 'covers'>
  readonly names: () => readonly string[]
  readonly clock: Clock
  readonly log: Logger
  /** Called with each certificate that replaces the first. */
  readonly onNext: (identity: KeyAndCertificate) => void
}

/** The time between two checks of the names and the age of the certificate. */
const interval: Milliseconds = 60_000

/** Issues the first certificate, and replaces it until `stop` is called. Throws a Failure when the CA covers no name of this machine. */
export async function listenerCertificate(
  parts: ListenerCertificateParts,
): Promise<{ readonly identity: KeyAndCertificate; readonly stop: () => void }> {
  const { leaves, names, clock, log, onNext } = parts
  let last = { names: '', renewal: 0 }
  /** Issues a certificate. Undefined while the last one is still good, and when the CA covers none of the names. */
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
      { code: 'AUTHORITY' },
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
