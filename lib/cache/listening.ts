/**
 * Opens the listeners of the configuration, or takes the sockets of the service manager in their place.
 */
import { hour } from '../async/clock.ts'
import { formatAuthority } from '../http/message/target.ts'
import { anyAddress, type ListenAddress, startListening } from '../http/server/listen.ts'
import type { UnderWay } from '../http/server/lull.ts'
import type {
  HttpServerLimits,
  HttpServerOptions,
  KeyAndCertificate,
  TlsOptions,
} from '../http/server/options.ts'
import { HttpServer } from '../http/server/server.ts'
import { defaultHeadLimits } from '../http/wire/request-head.ts'
import { normaliseAddress } from '../ip.ts'
import type { InheritedSocket } from '../systemd.ts'
import type { Config } from './config/config.ts'
import type { Listener } from './operations/sources.ts'
import { isOperationsPath } from './request/own-paths.ts'

/** The most requests under way on one connection: apt sends ten. */
const pipelined = 100
/** The longest time a request without content may take to arrive. */
const requestTime = 60_000
/** The longest time for which a client may wait for this proxy. The time limits for origins are far shorter. */
const longestAnswer = hour

export function serverLimits({ limits, timeouts }: Config): HttpServerLimits {
  return {
    head: limits.head,
    heads: defaultHeadLimits,
    connections: limits.connections,
    pipelined,
    headTime: timeouts.clientHead,
    requestTime: Math.max(requestTime, timeouts.clientHead),
    idle: timeouts.clientIdle,
    taking: timeouts.clientStalled,
    slowest: limits.minimumRate,
    stalled: longestAnswer,
  }
}

/**
 * The places to listen at, without TLS and with it. Sockets of the service manager replace those of the configuration; its sockets
 * with the name `secure` are for TLS.
 */
export function places({ listen, listenSecure }: Config, sockets: readonly InheritedSocket[]) {
  const given = (secure: boolean) => sockets.filter(({ name }) => (name === 'secure') === secure)
  const [plain, secure] = [given(false), given(true)]
  return {
    plain: plain.length > 0 ? plain : listen,
    secure: secure.length > 0 || listenSecure === undefined ? secure : [listenSecure],
  }
}

/** The open listeners and their servers, in the order of the configuration. There are none before `open`. */
export class OpenListeners {
  readonly listeners: Listener[] = []
  readonly #servers: HttpServer[] = []

  get ports(): number[] {
    return this.listeners.map(({ port }) => port)
  }

  /** The number of open connections of clients. */
  get connections(): number {
    return this.#servers.reduce((sum, server) => sum + server.connections, 0)
  }

  /** Opens every listener; those for TLS only when `tls` is given. Throws a Failure with one sentence at the first that does not open. */
  async open(
    { plain, secure }: ReturnType<typeof places>,
    options: HttpServerOptions,
    tls: TlsOptions | undefined,
  ): Promise<void> {
    for (const place of plain) await this.#open(place, options)
    if (tls === undefined) return
    for (const place of secure) await this.#open(place, { ...options, tls })
  }

  async #open(place: ListenAddress | InheritedSocket, options: HttpServerOptions): Promise<void> {
    const server = new HttpServer(options)
    this.#servers.push(server)
    const { address, port } = await startListening(server, place, inUse(place))
    this.listeners.push({
      address: anyAddress(address) ? undefined : (normaliseAddress(address) ?? address),
      port,
      secure: options.tls !== undefined,
    })
  }

  setIdentity(identity: KeyAndCertificate): void {
    for (const server of this.#servers) server.setIdentity(identity)
  }

  /** The requests under way that a stop waits for. It does not wait for the pages, whose live figures never end. */
  *transfers(): Generator<UnderWay> {
    for (const server of this.#servers) {
      for (const { request } of server.underWay()) {
        const { target } = request
        if (target.form !== 'origin' || !isOperationsPath(target.path)) yield request
      }
    }
  }

  /** Makes the last answer on each connection say from now on that the connection ends. */
  announceEnd(): void {
    for (const server of this.#servers) server.announceEnd()
  }

  /** Closes the servers. Resolves when the responses under way have ended, or at the latest when `deadline` fires. */
  async close(deadline: AbortSignal): Promise<void> {
    await Promise.all(this.#servers.map(server => server.close(deadline)))
  }
}

function inUse(place: ListenAddress | InheritedSocket): string {
  const names = 'port' in place ? `; \`sudo ss -ltnp 'sport = :${place.port}'\` names it` : ''
  return `another process listens there${names}; stop it, or choose another port with \`listen\` (or --listen)`
}

/** The status line of the service when all listeners are open. */
export function statusLine(listeners: readonly Listener[], config: Config): string {
  const where = listeners.map(({ address = '*', port }) => formatAuthority({ host: address, port }))
  return `listening on ${where.join(', ')}; storing in ${config.cacheDirectory}`
}
