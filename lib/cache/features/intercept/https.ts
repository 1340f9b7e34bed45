/**
 * Makes the parts for HTTPS: the CA, the interceptor, the certificate of the TLS listener and the revocation list. It also provides
 * their values for pages and metrics.
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Clock, day, hour, type Milliseconds } from '../../../async/clock.ts'
import { repeat } from '../../../async/repeat.ts'
import { valueUnlessMissing } from '../../../errors.ts'
import { writeFileAtomically } from '../../../files/atomic-file.ts'
import { formatAuthority } from '../../../http/message/target.ts'
import type { KeyAndCertificate, TlsOptions } from '../../../http/server/options.ts'
import type { Logger } from '../../../log/log.ts'
import type { Issuer } from '../../../x509/x509.ts'
import { type Config, needsAuthority } from '../../config/config.ts'
import type { HttpsPages } from '../../operations/sources.ts'
import { isIntercepted, type Rules } from '../../policy/policy.ts'
import {
  type Authority,
  expiresSoon,
  expiryWarnings,
  listenerNames,
  openAuthority,
} from './authority.ts'
import { DistrustMemory, hostOfName, Interceptor } from './interceptor.ts'
import { LeafCertificates, listenerCertificate } from './leaf.ts'

interface HttpsOptions {
  readonly rules: () => Rules
  readonly clock: Clock
  readonly log: Logger
  readonly secure: boolean
}

/** The parts that exist only with a CA. */
interface Certifying {
  readonly authority: Authority
  readonly leaves: LeafCertificates
  readonly interceptor: Interceptor
}

export class Https {
  readonly #options: HttpsOptions
  readonly #distrust: DistrustMemory
  readonly #certifying: Certifying | undefined
  #stops: ReadonlyArray<() => void> = []

  private constructor(options: HttpsOptions, authority?: Authority) {
    const { rules, clock, log } = options
    this.#options = options
    const distrust = new DistrustMemory(clock, () => rules().config.https.rememberDistrust)
    this.#distrust = distrust
    if (authority === undefined) return
    const leaves = new LeafCertificates({
      authority,
      clock,
      addresses: () => leafAddresses(rules().config),
    })
    const interceptor = new Interceptor({ leaves, distrust, clock, log, rules })
    this.#certifying = { authority, leaves, interceptor }
  }

  /** Opens the CA when the settings need one, and makes it when there is none. Throws a Failure with one sentence. */
  static async open(options: HttpsOptions): Promise<Https> {
    const { rules, clock, log } = options
    const { config } = rules()
    if (!needsAuthority(config, options.secure)) return new Https(options)
    const authority = await openAuthority(config, clock.now())
    const { certificate, file, issuer, made } = authority
    log.info(made ? 'a CA has been made' : 'certificates are issued by', {
      subject: certificate.subject,
      fingerprint: certificate.fingerprint,
      expires: new Date(certificate.notAfter).toISOString(),
      file,
    })
    for (const warning of authority.warnings) log.warn(warning)
    const https = new Https(options, authority)
    const writeList = async (): Promise<void> => {
      const list = revocationFile(config)
      if (list !== undefined) await writeRevocationList({ issuer, file: list, clock, log })
    }
    await writeList()
    const daily = () => {
      for (const warning of expiryWarnings(authority, clock.now())) log.warn(warning)
      return writeList()
    }
    https.#stops = [repeat(clock, day, daily)]
    return https
  }

  stop(): void {
    for (const stop of this.#stops) stop()
  }

  /** The interceptor of tunnels whose mode is `intercept`; undefined without a CA. */
  get interceptor(): Interceptor | undefined {
    return this.#certifying?.interceptor
  }

  /**
   * The TLS options of the TLS listener. `onNext` gets every certificate that replaces the first. Throws a Failure when the CA may not
   * issue a certificate for any name of this machine.
   */
  async listener(onNext: (identity: KeyAndCertificate) => void): Promise<TlsOptions> {
    const { rules, clock, log } = this.#options
    if (this.#certifying === undefined) throw new TypeError('a TLS listener without a CA')
    const { leaves } = this.#certifying
    const names = () => listenerNames(rules().config)
    const parts = { leaves, names, clock, log, onNext }
    const { identity, stop } = await listenerCertificate(parts)
    this.#stops = [...this.#stops, stop]
    return {
      identity,
      contextFor: async name => {
        const host = hostOfName(name)
        if (names().includes(host) || !leaves.covers(host)) return undefined
        // Clients that DNS sends here connect as if to the archive, at port 443.
        return isIntercepted({ host, port: 443 }, rules().policy) ? leaves.context(host) : undefined
      },
    }
  }

  /** What the pages show. */
  get pages(): HttpsPages {
    const { authority } = this.#certifying ?? {}
    const { rules, clock } = this.#options
    return {
      mode: () => {
        const { prevent, intercept, interceptDomains } = rules().config.https
        if (prevent) return 'disabled'
        const intercepting = intercept || interceptDomains.length > 0
        return intercepting && authority !== undefined ? 'intercept' : 'tunnel'
      },
      https: () => {
        if (authority === undefined) return undefined
        const { subject, fingerprint, notAfter } = authority.certificate
        return {
          subject,
          fingerprint,
          notAfter,
          expiresSoon: expiresSoon(authority.certificate, clock.now()),
          remembered: rules().config.https.rememberDistrust,
          distrusting: this.#distrust.list(),
        }
      },
      certificate: () => authority && Buffer.from(authority.certificate.pem),
      revocationList: () => {
        const list = authority && revocationFile(rules().config)
        return list === undefined ? undefined : valueUnlessMissing(readFile(list))
      },
    }
  }

  /** The end of the certificate of the CA; undefined without one. */
  get notAfter(): Milliseconds | undefined {
    return this.#certifying?.authority.certificate.notAfter
  }

  /** The number of clients that are remembered as rejecting a certificate, once for each host. */
  get distrusting(): number {
    return this.#distrust.list().length
  }
}

/** The file of the revocation list; undefined when none is made. */
function revocationFile({ https, cacheDirectory }: Config): string | undefined {
  return https.enableCrl ? join(cacheDirectory, 'revocation.crl') : undefined
}

/** The URLs in certificates, from the settings or made from the name of this proxy. */
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

/** The time for which a client may use a revocation list. */
const validity: Milliseconds = 7 * day

interface RevocationListOptions {
  readonly issuer: Pick<Issuer, 'issueList'>
  readonly file: string
  readonly clock: Clock
  readonly log: Logger
}

/** Writes the certificate revocation list. It is empty, because certificates are valid for a day only. A failure is logged. */
export async function writeRevocationList({ issuer, file, clock, log }: RevocationListOptions) {
  try {
    const now = clock.now()
    // For clients whose clocks are late.
    const thisUpdate = now - hour
    await writeFileAtomically(
      file,
      await issuer.issueList({ thisUpdate, nextUpdate: now + validity }),
    )
  } catch (error) {
    log.error('the revocation list could not be made', { file, error })
  }
}
