/**
 * Intercepts a tunnel: speaks TLS with a certificate of ours, and has the requests in it answered as any other.
 *
 * Which host the certificate is for: the one the client names in its handshake (SNI), else that of the CONNECT. A name that is
 * not the CONNECT's has to be admitted as if a CONNECT named it; otherwise the handshake fails. The requests within have to
 * name that host.
 *
 * A client that does not accept the certificate sends an alert, or closes the connection without one: in the handshake, or
 * after it without a request, as programs do that check the certificate only then (wget). It is remembered, and tunnelled next
 * time.
 */
import type { Socket } from 'node:net'
import { type SecureContext, TLSSocket } from 'node:tls'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { systemCode } from '../../errors.ts'
import type { Authority } from '../../http/message/target.ts'
import { tlsRules } from '../../http/server/node-server.ts'
import type { Adopt } from '../../http/server/options.ts'
import type { Logger } from '../../log/log.ts'
import type { DistrustMemory } from './distrust.ts'
import type { Leaves } from './leaf.ts'

/**
 * - intercepted: requests came through
 * - distrusted: the client did not accept the certificate, or left without a request
 * - broken: the client did not speak TLS as we do, named a host it may not reach, or took too long
 */
type InterceptionEnd = 'intercepted' | 'distrusted' | 'broken'

export interface Taken {
  readonly because: InterceptionEnd
  readonly requests: number
  /** The handshake's error code, when it failed with one. */
  readonly error?: string | undefined
}

interface InterceptorParts {
  readonly leaves: Pick<Leaves, 'context' | 'covers'>
  readonly distrust: DistrustMemory
  readonly clock: Clock
  /** For the handshake. */
  readonly deadline: () => Milliseconds
  readonly log: Logger
}

export interface Opening {
  readonly socket: Socket
  /** Bytes that came behind the CONNECT. */
  readonly head: Buffer
  /** The host and port of the CONNECT. */
  readonly authority: Authority
  /** The client's IP address. */
  readonly client: string
  /** Whether the client may reach this host, named in its handshake, through an intercepted tunnel. */
  readonly admits: (authority: Authority) => boolean
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
    const { leaves, distrust, log } = this.#parts
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
      const host = name.toLowerCase().replace(/\.$/, '')
      if (host === authority.host) return context
      const other = { host, port: authority.port }
      if (!opening.admits(other)) throw new Error(`${host} may not be reached through this tunnel`)
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
    const { host } = end
    if (failure !== undefined) {
      const silent = failure.left && socket.bytesWritten - sentBefore >= LEAST_FLIGHT && !refused
      secure.destroy()
      socket.destroy()
      const rejected = REJECTIONS.has(failure.code) || silent
      if (rejected) this.#remember(client, host)
      const error = failure.code === '' ? undefined : failure.code
      return { because: rejected ? 'distrusted' : 'broken', requests: 0, error }
    }
    const requests = await adopt(secure, end)
    if (requests > 0) {
      distrust.forget(client, host)
      return { because: 'intercepted', requests }
    }
    if (!left()) return { because: 'broken', requests }
    this.#remember(client, host)
    return { because: 'distrusted', requests }
  }

  #remember(client: string, host: string): void {
    this.#parts.distrust.remember(client, host)
    this.#parts.log.warn('a client does not accept our certificate', {
      client,
      host,
      advice: 'install /_cachesvc/cachesvc.crt there; tunnelled unread for https.remember_distrust',
    })
  }

  /** Undefined when it succeeded. */
  #handshake(secure: TLSSocket): Promise<HandshakeFailure | undefined> {
    const { clock, deadline } = this.#parts
    return new Promise(resolve => {
      let error: unknown
      let left = false
      const settle = (failure?: HandshakeFailure) => {
        cancel()
        resolve(failure)
      }
      const cancel = clock.after(deadline(), () => settle({ code: 'TIMEOUT', left: false }))
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
