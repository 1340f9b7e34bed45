/**
 * Opens the listeners: those of the configuration, or the sockets the service manager hands over in their place.
 */

import { formatAuthority } from '../http/message/target.ts'
import { type ListenAddress, startListening } from '../http/server/listen.ts'
import type { TlsOptions } from '../http/server/node-server.ts'
import { HttpServer, type HttpServerLimits, type HttpServerOptions } from '../http/server/server.ts'
import { defaultHeadLimits } from '../http/wire/request-rules.ts'
import { normaliseAddress } from '../ip.ts'
import type { InheritedSocket } from '../systemd.ts'
import type { Config } from './config/config.ts'
import type { Listener } from './operations/sources.ts'

/** What listening opens: a server and what is known of it, in the order of the configuration. */
export interface Opened {
  readonly servers: HttpServer[]
  readonly listeners: Listener[]
}

/** A pipeline longer than this is no client of archives: apt sends ten. */
const pipelined = 100
/** A request without content has arrived long before. */
const requestTime = 60_000

export function serverLimits(config: Config): HttpServerLimits {
  const { limits, timeouts } = config
  return {
    head: limits.head,
    heads: defaultHeadLimits,
    connections: limits.connections,
    pipelined,
    headTime: timeouts.clientHead,
    requestTime: Math.max(requestTime, timeouts.clientHead),
    idle: timeouts.clientIdle,
    stalled: timeouts.clientStalled,
  }
}

/** What is to be listened on, and how. */
export interface ListenFrom {
  readonly config: Config
  readonly sockets: readonly InheritedSocket[]
  /** For listeners that clients speak TLS to. */
  readonly tls: TlsOptions | undefined
}

/** Whether a socket the service manager hands over is one for TLS: that is what its name says. */
function isSecureSocket({ name }: InheritedSocket): boolean {
  return name === 'secure'
}

/** Whether these settings and sockets make a listener that clients speak TLS to. */
export function listensSecurely({ config, sockets }: Omit<ListenFrom, 'tls'>): boolean {
  return config.listenSecure !== undefined || sockets.some(isSecureSocket)
}

/** Opens every listener, filling `opened` as it goes. Throws a Failure with one sentence at the first that does not open. */
export async function listen(
  from: ListenFrom,
  options: HttpServerOptions,
  opened: Opened,
): Promise<void> {
  const { config, sockets, tls } = from
  const plain = sockets.filter(socket => !isSecureSocket(socket))
  for (const place of plain.length > 0 ? plain : config.listen) {
    await openListener(place, options, opened)
  }
  if (tls === undefined) return
  const secure = sockets.filter(isSecureSocket)
  const own = config.listenSecure === undefined ? [] : [config.listenSecure]
  for (const place of secure.length > 0 ? secure : own) {
    await openListener(place, { ...options, tls }, opened)
  }
}

const inUse = 'another process listens there; stop it, or choose another port with --listen'

async function openListener(
  place: ListenAddress | InheritedSocket,
  options: HttpServerOptions,
  opened: Opened,
): Promise<void> {
  const server = new HttpServer(options)
  opened.servers.push(server)
  const { address, port } = await startListening(server, place, inUse)
  const any = address === '::' || address === '0.0.0.0'
  opened.listeners.push({
    address: any ? undefined : (normaliseAddress(address) ?? address),
    port,
    secure: options.tls !== undefined,
  })
}

/** What is said when all of them are open. */
export function statusLine(listeners: readonly Listener[], config: Config): string {
  const where = listeners.map(({ address, port }) =>
    formatAuthority({ host: address ?? '*', port }),
  )
  return `listening on ${where.join(', ')}; storing in ${config.cacheDirectory}`
}
