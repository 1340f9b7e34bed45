/**
 * Makes the parts for HTTPS, and their values for pages and metrics. The parts are the CA, the interceptor, the certificate of
 * the TLS listener and the revocation list.
 */
import { type Clock, day, type Milliseconds } from '../../async/clock.ts'
import { repeat } from '../../async/repeat.ts'
import { type Authority as End, formatAuthority } from '../../http/message/target.ts'
import type { KeyAndCertificate, TlsOptions } from '../../http/server/options.ts'
import type { Logger } from '../../log/log.ts'
import { type Config, needsAuthority } from '../config/config.ts'
import { admitTarget, type Policy } from '../policy/policy.ts'
import { type Authority, expiresSoon, expiryWarnings, openAuthority } from './authority.ts'
import { listenerNames } from './certificate-names.ts'
import { type Distrust, DistrustMemory } from './distrust.ts'
import { Interceptor, type Opening, type Taken } from './interceptor.ts'
import { Leaves } from './leaf.ts'
import { listenerCertificate } from './listener-certificate.ts'
import { RevocationList } from './revocation-list.ts'
import { compileModes, type DecidedMode, type ModeRules, tunnelMode } from './tunnel-mode.ts'

interface HttpsOptions {
  readonly config: Config
  readonly clock: Clock
  readonly log: Logger
  /** Whether there is a listener for TLS. */
  readonly secure: boolean
}

/** How HTTPS is handled: carried through unread, intercepted and cached, or refused. */
export type HttpsMode = 'tunnel' | 'intercept' | 'disabled'

/** The CA certificates are issued with, and the clients that do not trust it. */
export interface HttpsState {
  readonly subject: string
  /** SHA-256, upper-case hex with colons. */
  readonly fingerprint: string
  readonly notAfter: Milliseconds
  /** Whether that is near or past. */
  readonly expiresSoon: boolean
  /** For how long a client that rejected a certificate is tunnelled; 0 for not at all. */
  readonly remembered: Milliseconds
  /** The clients that did, the latest first. */
  readonly distrusting: readonly Distrust[]
}

/** What a CA makes possible. */
interface Certifying {
  readonly authority: Authority
  readonly leaves: Leaves
  readonly interceptor: Interceptor
  /** The revocation list, when one is made. */
  readonly list: RevocationList | undefined
}

export class Https {
  readonly #clock: Clock
  readonly #log: Logger
  readonly #distrust: DistrustMemory
  readonly #certifying: Certifying | undefined
  #config: Config
  #modes: ModeRules
  #stops: ReadonlyArray<() => void> = []

  private constructor({ config, clock, log }: HttpsOptions, authority: Authority | undefined) {
    this.#config = config
    this.#modes = compileModes(config.https)
    this.#clock = clock
    this.#log = log
    const distrust = new DistrustMemory(clock, () => this.#config.https.rememberDistrust)
    this.#distrust = distrust
    if (authority === undefined) return
    const leaves = new Leaves({ authority, clock, addresses: () => leafAddresses(this.#config) })
    const deadline = () => this.#config.timeouts.clientHead
    const { issuer } = authority
    this.#certifying = {
      authority,
      leaves,
      interceptor: new Interceptor({ leaves, distrust, clock, log, deadline }),
      list: config.https.enableCrl
        ? new RevocationList({ issuer, directory: config.cacheDirectory, clock, log })
        : undefined,
    }
  }

  /** Opens the CA these settings take, or makes one. Throws a Failure with one sentence. */
  static async open(options: HttpsOptions): Promise<Https> {
    const { config, clock, log } = options
    if (!needsAuthority(config, options.secure)) return new Https(options, undefined)
    const authority = await openAuthority(config, clock.now())
    const { certificate, file, made } = authority
    log.info(made ? 'a CA has been made' : 'certificates are issued by', {
      subject: certificate.subject,
      fingerprint: certificate.fingerprint,
      expires: new Date(certificate.notAfter).toISOString(),
      file,
    })
    for (const warning of authority.warnings) log.warn(warning)
    const https = new Https(options, authority)
    const warn = () => {
      for (const warning of expiryWarnings(certificate, file, clock.now())) log.warn(warning)
    }
    const list = https.#certifying?.list
    await list?.start()
    https.#stops = [repeat(clock, day, () => void warn()), () => list?.stop()]
    return https
  }

  /** Takes over what can change while the service runs. */
  use(config: Config): void {
    this.#config = config
    this.#modes = compileModes(config.https)
  }

  stop(): void {
    for (const stop of this.#stops) stop()
  }

  /** The mode of a CONNECT the policy admits. It is not intercepted when the policy would refuse the requests inside. */
  mode(end: End, policy: Policy): DecidedMode {
    const within = admitTarget({ kind: 'fetch', authority: end }, policy)
    const passthrough = 'deny' in within || within.allow === 'passthrough'
    const decided = tunnelMode(end, this.#modes, passthrough)
    return decided.mode === 'intercept' && 'deny' in within
      ? { ...decided, mode: 'tunnel' }
      : decided
  }

  /** Whether a CONNECT to this end would be admitted and intercepted. */
  #intercepts(end: End, policy: Policy): boolean {
    const admission = admitTarget({ kind: 'connect', authority: end }, policy)
    return 'allow' in admission && this.mode(end, policy).mode === 'intercept'
  }

  /** Opens a tunnel whose mode is `intercept`; undefined, with nothing sent, when it has to be tunnelled instead. */
  async open(opening: Omit<Opening, 'admits'>, policy: () => Policy): Promise<Taken | undefined> {
    const admits = (end: End) => this.#intercepts(end, policy())
    return this.#certifying?.interceptor.open({ ...opening, admits })
  }

  /**
   * What the TLS listener needs. `onNext` is told of every certificate that takes the place of the first. Throws a Failure
   * when the CA may not issue for any name of ours.
   */
  async listener(
    policy: () => Policy,
    onNext: (identity: KeyAndCertificate) => void,
  ): Promise<TlsOptions> {
    if (this.#certifying === undefined) throw new TypeError('a TLS listener without a CA')
    const { leaves } = this.#certifying
    const names = () => listenerNames(this.#config)
    const parts = { leaves, names, clock: this.#clock, log: this.#log, onNext }
    const { identity, stop } = await listenerCertificate(parts)
    this.#stops = [...this.#stops, stop]
    return {
      identity,
      contextFor: async name => {
        const host = name.toLowerCase().replace(/\.$/, '')
        if (names().includes(host) || !leaves.covers(host)) return undefined
        // Clients that DNS led here connect as if to the archive, at its port.
        return this.#intercepts({ host, port: 443 }, policy()) ? leaves.context(host) : undefined
      },
    }
  }

  /** For the index page. */
  get pageMode(): HttpsMode {
    const { prevent, intercept, interceptDomains } = this.#config.https
    if (prevent) return 'disabled'
    const intercepting = intercept || interceptDomains.length > 0
    return intercepting && this.#certifying !== undefined ? 'intercept' : 'tunnel'
  }

  /** What the pages and routes are told. */
  get sources() {
    const { authority, list } = this.#certifying ?? {}
    return {
      https: () => authority && this.#state(authority),
      certificate: () => authority && Buffer.from(authority.certificate.pem),
      revocationList: () => list?.read(),
    }
  }

  /** What is measured. */
  get gauges() {
    const { notAfter } = this.#certifying?.authority.certificate ?? {}
    return {
      distrusting_clients: () => this.#distrust.list().length,
      authority_expiry_timestamp_seconds:
        notAfter === undefined ? undefined : () => Math.floor(notAfter / 1000),
    }
  }

  #state({ certificate }: Authority): HttpsState {
    const { subject, fingerprint, notAfter } = certificate
    return {
      subject,
      fingerprint,
      notAfter,
      expiresSoon: expiresSoon(certificate, this.#clock.now()),
      remembered: this.#config.https.rememberDistrust,
      distrusting: this.#distrust.list(),
    }
  }
}

/** Addresses in certificates: those of the settings, and those made from the name of this proxy. */
function leafAddresses({ https, listen }: Config) {
  const { certificateDomain, aiaAddress, enableCrl } = https
  const port = listen[0]?.port
  const here =
    certificateDomain === undefined || port === undefined
      ? undefined
      : `http://${formatAuthority({ host: certificateDomain, port }, 'http')}/_cachesvc`
  return {
    caIssuers: aiaAddress ?? (here && `${here}/cachesvc.crt`),
    distributionPoint: enableCrl && here !== undefined ? `${here}/revocation.crl` : undefined,
  }
}
