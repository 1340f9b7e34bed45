/**
 * Intercepts a tunnel: it speaks TLS with a certificate of this proxy, and the requests in the tunnel are answered like any other.
 *
 * The certificate is for the host that the client names in its handshake (SNI), else for the host of the CONNECT. A host that differs
 * from the CONNECT's must be admitted as if a CONNECT named it; otherwise the handshake fails. The requests in the tunnel have to
 * name the host of the certificate.
 *
 * A client that does not accept the certificate sends an alert, or closes the connection without one. It closes in the handshake, or
 * afterwards without a request, like wget, which checks the certificate only then. Such a client is remembered for a time, in which
 * its tunnels are not intercepted, so that it works.
 */
import { type SecureContext, TLSSocket } from 'node:tls'
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { systemCode } from '../../../errors.ts'
import { tlsRules } from '../../../http/server/server.ts'
import type { Logger } from '../../../log/log.ts'
import { recentEntries } from '../../../recent.ts'
import type { InterceptedTunnel, TunnelOpening } from '../../answer/connect.ts'
import type { Distrust } from '../../operations/sources.ts'
import { isIntercepted, type Rules } from '../../policy/policy.ts'
import type { LeafCertificates } from './leaf.ts'

/**
 * - intercepted: the client sent requests through the tunnel
 * - distrusted: the client did not accept the certificate, or closed the connection without a request
 * - broken: the TLS handshake failed for another reason, the client named a host it may not reach, or it took too long
 */
type InterceptionEnd = 'intercepted' | 'distrusted' | 'broken'

interface Taken extends InterceptedTunnel {
  readonly because: InterceptionEnd
  /** The error code of the handshake; undefined unless it failed with one. */
  readonly error?: string | undefined
}

interface InterceptorParts {
  readonly leaves: Pick<LeafCertificates, 'context' | 'covers'>
  readonly distrust: DistrustMemory
  readonly clock: Clock
  readonly rules: () => Rules
  readonly log: Logger
}

const ESTABLISHED = 'HTTP/1.1 200 Connection Established\r\n\r\n'
/** The bytes after which a client can have a certificate to check, because no ServerHello with a certificate is shorter. */
const LEAST_FLIGHT = 300

export class Interceptor {
  readonly #parts: InterceptorParts

  constructor(parts: InterceptorParts) {
    this.#parts = parts
  }

  /**
   * Opens the tunnel, and resolves when its connection has closed. Resolves to undefined, and sends nothing, when the CA cannot certify
   * the host or the client rejected its certificate before.
   */
  async open(opening: TunnelOpening): Promise<Taken | undefined> {
    const { socket, head, authority, client, adopt } = opening
    const { leaves, distrust, log, rules } = this.#parts
    if (!leaves.covers(authority.host) || distrust.has(client, authority.host)) return undefined
    let context: SecureContext
    try {
      context = await leaves.context(authority.host)
    } catch (error) {
      log.error('no certificate could be made', { host: authority.host, error })
      return undefined
    }
    if (!socket.writable) return { because: 'broken', requests: 0 }
    socket.write(ESTABLISHED)
    if (head.length > 0) socket.unshift(head)
    const sentBefore = socket.bytesWritten

    let end = authority
    const contextFor = async (name: string): Promise<SecureContext> => {
      const host = hostOfName(name)
      if (host === authority.host) return context
      const other = { host, port: authority.port }
      if (!isIntercepted(other, rules().policy)) {
        throw new Error(`${host} may not be reached through this tunnel`)
      }
      end = other
      return leaves.context(host)
    }
    let refused = false
    const secure = new TLSSocket(socket, {
      isServer: true,
      secureContext: context,
      ALPNProtocols: [...tlsRules.ALPNProtocols],
      SNICallback: (name, done) => {
        contextFor(name).then(
          found => done(null, found),
          error => {
            refused = true
            done(error)
          },
        )
      },
    })
    const left = watchClient(secure)
    const failure = await this.#handshake(secure)
    // Both hosts are remembered, because the next CONNECT is looked up by its own host, before a handshake can name another.
    const hosts = [...new Set([end.host, authority.host])]
    if (failure !== undefined) {
      const silent = failure.left && socket.bytesWritten - sentBefore >= LEAST_FLIGHT && !refused
      secure.destroy()
      socket.destroy()
      const rejected = REJECTIONS.has(failure.code) || silent
      if (rejected) this.#remember(client, hosts)
      const error = failure.code === '' ? undefined : failure.code
      return { because: rejected ? 'distrusted' : 'broken', requests: 0, error }
    }
    const requests = await adopt(secure, end)
    if (requests > 0) {
      for (const host of hosts) distrust.forget(client, host)
      return { because: 'intercepted', requests }
    }
    if (!left()) return { because: 'broken', requests }
    this.#remember(client, hosts)
    return { because: 'distrusted', requests }
  }

  #remember(client: string, hosts: readonly string[]): void {
    for (const host of hosts) this.#parts.distrust.remember(client, host)
    this.#parts.log.warn('a client does not accept our certificate', {
      client,
      host: hosts[0],
      advice: 'install /_cachesvc/cachesvc.crt there; tunnelled unread for https.remember_distrust',
    })
  }

  /** Waits for the handshake. Resolves to undefined when it succeeds. */
  #handshake(secure: TLSSocket): Promise<HandshakeFailure | undefined> {
    const { clock, rules } = this.#parts
    return new Promise(resolve => {
      let error: unknown
      let left = false
      const settle = (failure?: HandshakeFailure) => {
        cancel()
        resolve(failure)
      }
      const cancel = clock.after(rules().config.timeouts.clientHead, () =>
        settle({ code: 'TIMEOUT', left: false }),
      )
      secure.on('error', problem => {
        error ??= problem
      })
      secure.once('end', () => {
        left = true
        settle({ code: '', left })
      })
      secure.once('close', () => {
        const code = systemCode(error) ?? ''
        settle({ code, left: left || ['', 'ECONNRESET', 'EPIPE'].includes(code) })
      })
      // tls.Server itself waits for this event.
      secure.once('secure', () => settle())
    })
  }
}

/** The host that a client names in its handshake (SNI). */
export function hostOfName(name: string): string {
  return name.toLowerCase().replace(/\.$/, '')
}

interface HandshakeFailure {
  /** The code of the error; empty when there was none. */
  readonly code: string
  /** Whether the client ended the connection without an alert. */
  readonly left: boolean
}

/** The alerts by which clients reject a certificate (RFC 8446 section 6.2), as OpenSSL names them when it receives one. */
const REJECTIONS: ReadonlySet<string> = new Set([
  'ERR_SSL_TLSV1_ALERT_UNKNOWN_CA',
  'ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE',
  'ERR_SSL_SSLV3_ALERT_CERTIFICATE_UNKNOWN',
  'ERR_SSL_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE',
  'ERR_SSL_SSLV3_ALERT_CERTIFICATE_EXPIRED',
  'ERR_SSL_SSLV3_ALERT_CERTIFICATE_REVOKED',
  'ERR_SSL_TLSV1_ALERT_ACCESS_DENIED',
  'ERR_SSL_TLSV1_BAD_CERTIFICATE_STATUS_RESPONSE',
])

/** Returns a function that tells whether the client ended the connection before this proxy did. */
function watchClient(secure: TLSSocket): () => boolean {
  let left = false
  const note = () => {
    if (!secure.writableEnded) left = true
  }
  secure.once('end', note)
  secure.once('error', note)
  return () => left
}

/** The most pairs of a client and a host that are remembered. A client can ask for any number of hosts. */
const mostRemembered = 10_000

export class DistrustMemory {
  readonly #clock: Clock
  readonly #length: () => Milliseconds
  readonly #known = recentEntries<string, Distrust>(mostRemembered)

  /** `length` is the time for which a client is remembered; with 0 none is. */
  constructor(clock: Clock, length: () => Milliseconds) {
    this.#clock = clock
    this.#length = length
  }

  remember(client: string, host: string): void {
    if (this.#length() === 0) return
    this.#known.set(`${client} ${host}`, { client, host, since: this.#clock.now() })
  }

  /** Forgets a client that has accepted the certificate of a host. */
  forget(client: string, host: string): void {
    this.#known.delete(`${client} ${host}`)
  }

  has(client: string, host: string): boolean {
    const found = this.#known.get(`${client} ${host}`)
    return found !== undefined && this.#holds(found)
  }

  list(): readonly Distrust[] {
    const held = [...this.#known.values()].filter(one => this.#holds(one))
    return held.sort((a, b) => b.since - a.since)
  }

  #holds({ since }: Distrust): boolean {
    return this.#clock.now() < since + this.#length()
  }
}
