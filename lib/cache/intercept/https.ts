/**
 * Everything about HTTPS in one place for the wiring: the CA if there is one, what becomes of a CONNECT, the TLS listener's
 * certificate, the revocation list, and what the pages say of all that.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { type Authority as End, formatAuthority } from '../../http/message/target.ts'
import type { KeyAndCertificate, TlsOptions } from '../../http/server/node-server.ts'
import type { Logger } from '../../log/log.ts'
import type { Config } from '../config/config.ts'
import type { Gauges } from '../operations/metrics.ts'
import type { HttpsMode, HttpsState, OperationsSources } from '../operations/sources.ts'
import { admitTarget, type Policy } from '../policy/policy.ts'
import {
  type Authority,
  expiresSoon,
  expiryWords,
  needsAuthority,
  openAuthority,
} from './authority.ts'
import { listenerNames } from './certificate-names.ts'
import { DistrustMemory } from './distrust.ts'
import { Interceptor, type Opening, type Taken } from './interceptor.ts'
import { Leaves } from './leaf.ts'
import { ListenerCertificate } from './listener-certificate.ts'
import { RevocationList } from './revocation-list.ts'
import { compileModes, type DecidedMode, type ModeRules, tunnelMode } from './tunnel-mode.ts'

export interface HttpsOptions {
  readonly config: Config
  readonly clock: Clock
  readonly log: Logger
  /** Whether there is a listener for TLS. */
  readonly secure: boolean
}

const day: Milliseconds = 86_400_000

export class Https {
  readonly authority: Authority | undefined
  readonly distrust: DistrustMemory
  /** The revocation list, when one is made. */
  readonly list: RevocationList | undefined
  readonly #clock: Clock
  readonly #log: Logger
  readonly #leaves: Leaves | undefined
  readonly #interceptor: Interceptor | undefined
  #config: Config
  #modes: ModeRules
  #own: ListenerCertificate | undefined
  #stopped = false

  private constructor({ config, clock, log }: HttpsOptions, authority: Authority | undefined) {
    this.#config = config
    this.#modes = compileModes(config.https)
    this.#clock = clock
    this.#log = log
    this.authority = authority
    this.distrust = new DistrustMemory(clock, () => this.#config.https.rememberDistrust)
    if (authority === undefined) return
    const addresses = () => leafAddresses(this.#config)
    this.#leaves = new Leaves({ authority, clock, addresses })
    this.#interceptor = new Interceptor({
      leaves: this.#leaves,
      distrust: this.distrust,
      clock,
      log,
      deadline: () => this.#config.timeouts.clientHead,
    })
    if (config.https.enableCrl) {
      const { issuer } = authority
      this.list = new RevocationList({ issuer, directory: config.cacheDirectory, clock, log })
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
    clock.after(day, () => https.#lookAtExpiry())
    await https.list?.start()
    return https
  }

  /** Takes over what can change while the service runs. */
  use(config: Config): void {
    this.#config = config
    this.#modes = compileModes(config.https)
  }

  stop(): void {
    this.#stopped = true
    this.list?.stop()
    this.#own?.stop()
  }

  /** What becomes of a CONNECT the policy admits. One whose requests it would refuse is not opened. */
  mode(end: End, policy: Policy): DecidedMode {
    const within = admitTarget({ kind: 'fetch', authority: end }, policy)
    const passthrough = 'deny' in within || within.allow === 'passthrough'
    const decided = tunnelMode(end, this.#modes, passthrough)
    return decided.mode === 'intercept' && 'deny' in within
      ? { ...decided, mode: 'tunnel' }
      : decided
  }

  /** Opens a tunnel whose mode is `intercept`; undefined, with nothing sent, when it is to be carried through all the same. */
  async open(opening: Omit<Opening, 'admits'>, policy: () => Policy): Promise<Taken | undefined> {
    const interceptor = this.#interceptor
    if (interceptor === undefined || !interceptor.takes(opening.client, opening.authority)) return
    const admits = (end: End) => {
      const admission = admitTarget({ kind: 'connect', authority: end }, policy())
      return !('deny' in admission) && this.mode(end, policy()).mode === 'intercept'
    }
    return interceptor.open({ ...opening, admits })
  }

  /**
   * What the TLS listener needs. `onIdentity` is told of every certificate that takes the place of the first. Throws a Failure
   * when the CA may not issue for any name of ours.
   */
  async listener(
    policy: () => Policy,
    onIdentity: (identity: KeyAndCertificate) => void,
  ): Promise<TlsOptions> {
    const leaves = this.#leaves
    if (leaves === undefined) throw new TypeError('a TLS listener without a CA')
    const names = () => listenerNames(this.#config)
    this.#own = new ListenerCertificate({ leaves, names, clock: this.#clock, log: this.#log })
    return {
      identity: await this.#own.start(onIdentity),
      contextFor: async name => {
        const host = name.toLowerCase().replace(/\.$/, '')
        if (names().includes(host) || !leaves.covers(host)) return undefined
        // Clients steered here by DNS take us for the archive itself, at its own port.
        const end = { host, port: 443 }
        const admitted = !('deny' in admitTarget({ kind: 'connect', authority: end }, policy()))
        return admitted && this.mode(end, policy()).mode === 'intercept'
          ? leaves.context(host)
          : undefined
      },
    }
  }

  /** For the index page. */
  get pageMode(): HttpsMode {
    const { prevent, intercept, interceptDomains } = this.#config.https
    if (prevent) return 'disabled'
    const intercepting = intercept || interceptDomains.length > 0
    return intercepting && this.authority !== undefined ? 'intercept' : 'tunnel'
  }

  /** What the pages and routes are told. */
  get sources(): Pick<OperationsSources, 'https' | 'certificate' | 'revocationList'> {
    return {
      https: () => this.state(),
      certificate: () => this.authority && Buffer.from(this.authority.certificate.pem),
      revocationList: () => this.list?.read(),
    }
  }

  /** What is measured. */
  get gauges(): Pick<Gauges, 'distrusting' | 'authorityExpiry'> {
    const { authority } = this
    return {
      distrusting: () => this.distrust.list().length,
      authorityExpiry: authority && Math.floor(authority.certificate.notAfter / 1000),
    }
  }

  /** What the pages say of the CA; undefined without one. */
  state(): HttpsState | undefined {
    if (this.authority === undefined) return undefined
    const { certificate } = this.authority
    const now = this.#clock.now()
    return {
      subject: certificate.subject,
      fingerprint: certificate.fingerprint,
      notAfter: certificate.notAfter,
      expiresSoon: expiresSoon(certificate, now),
      remembered: this.#config.https.rememberDistrust,
      distrusting: this.distrust.list(),
    }
  }

  #lookAtExpiry(): void {
    if (this.#stopped || this.authority === undefined) return
    const { certificate, file } = this.authority
    const now = this.#clock.now()
    if (expiresSoon(certificate, now)) {
      this.#log.warn(
        `the CA certificate ${certificate.subject} in ${file} ${expiryWords(certificate, now)}`,
      )
    }
    this.#clock.after(day, () => this.#lookAtExpiry())
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
