/**
 * Intercepts a tunnel: speaks TLS with a certificate of ours, and has the requests in it answered as any other.
 *
 * Which host the certificate is for: the one the client names in its handshake (SNI), else that of the CONNECT. A name that is
 * not the CONNECT's has to be admitted as if a CONNECT named it; otherwise the handshake fails. The requests within have to
 * name that host.
 *
 * A client that does not accept the certificate sends an alert, or closes the connection without one: in the handshake, or
 * after it without a request, as programs do that check the certificate only then (wget). It is remembered for a while, and
 * tunnelled next time, so that it works.
 */
import type { Socket } from 'node:net'
import { type SecureContext, TLSSocket } from 'node:tls'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { systemCode } from '../../errors.ts'
import type { Authority } from '../../http/message/target.ts'
import type { Adopt } from '../../http/server/options.ts'
import { tlsRules } from '../../http/server/server.ts'
import type { Logger } from '../../log/log.ts'
import { recentEntries } from '../../recent.ts'
import { intercepts, type Rules } from '../policy/policy.ts'
import type { Leaves } from './leaf.ts'

/**
 * - intercepted: requests came through
 * - distrusted: the client did not accept the certificate, or left without a request
 * - broken: the client did not speak TLS as we do, named a host it may not reach, or took too long
 */
type InterceptionEnd = 'intercepted' | 'distrusted' | 'broken'

interface Taken {
  readonly because: InterceptionEnd
  readonly requests: number
  /** The handshake's error code, when it failed with one. */
  readonly error?: string | undefined
}

interface InterceptorParts {
  readonly leaves: Pick<Leaves, 'context' | 'covers'>
  readonly distrust: DistrustMemory
  readonly clock: Clock
  readonly rules: () => Rules
  readonly log: Logger
}

interface Opening {
  readonly socket: Socket
  /** Bytes that came behind the CONNECT. */
  readonly head: Buffer
  readonly authority: Authority
  readonly client: string
  readonly adopt: Adopt
}

const ESTABLISHED = 'HTTP/1.1 200 Connection Established\r\n\r\n'
/** What a client has been sent before it can check a certificate; no ServerHello with one is shorter. */
const LEAST_FLIGHT = 300

export class Interceptor {
  readonly #parts: InterceptorParts

  constructor(parts: InterceptorParts) {
    this.#parts = parts
  }

  /**
   * Opens the tunnel and settles when its connection has closed. Undefined, with nothing sent, for a host without a certificate
   * and for a client that rejected ours.
   */
  async open(opening: Opening): Promise<Taken | undefined> {
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
      if (!intercepts(other, rules().policy)) {
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
    // The next CONNECT of this client is looked up before it can name a host in a handshake.
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

  /** Undefined when it succeeded. */
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
      // The event tls.Server itself waits for.
      secure.once('secure', () => settle())
    })
  }
}

/** The host that a client names in its handshake (SNI). */
export function hostOfName(name: string): string {
  return name.toLowerCase().replace(/\.$/, '')
}

interface HandshakeFailure {
  /** The error's code; empty when there was none. */
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

/** Says later whether the client ended the connection before we did. */
function watchClient(secure: TLSSocket): () => boolean {
  let left = false
  const note = () => {
    if (!secure.writableEnded) left = true
  }
  secure.once('end', note)
  secure.once('error', note)
  return () => left
}

/** A client that rejected a certificate, for a page. */
export interface Distrust {
  readonly client: string
  readonly host: string
  readonly since: Milliseconds
}

/** A client may ask for any number of hosts; the least recently used is forgotten first. */
const mostRemembered = 10_000

export class DistrustMemory {
  readonly #clock: Clock
  readonly #length: () => Milliseconds
  readonly #known = recentEntries<string, Distrust>(mostRemembered)

  /** `length`: for how long one is remembered; 0 for not at all. */
  constructor(clock: Clock, length: () => Milliseconds) {
    this.#clock = clock
    this.#length = length
  }

  remember(client: string, host: string): void {
    if (this.#length() === 0) return
    this.#known.set(`${client} ${host}`, { client, host, since: this.#clock.now() })
  }

  /** The client has accepted our certificate after all. */
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
