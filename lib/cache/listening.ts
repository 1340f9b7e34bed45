/**
 * Opens the listeners of the configuration, or uses the sockets of the service manager instead.
 */

import { formatAuthority } from '../http/message/target.ts'
import { type ListenAddress, startListening } from '../http/server/listen.ts'
import type { HttpServerLimits, HttpServerOptions, TlsOptions } from '../http/server/options.ts'
import { HttpServer } from '../http/server/server.ts'
import { defaultHeadLimits } from '../http/wire/request-rules.ts'
import { normaliseAddress } from '../ip.ts'
import { anyAddress } from '../socket-unit.ts'
import type { InheritedSocket } from '../systemd.ts'
import type { Config } from './config/config.ts'
import type { Listener } from './operations/sources.ts'

/** The most requests under way on one connection: apt sends ten. */
const pipelined = 100
/** The longest time a request without content may take to arrive. */
const requestTime = 60_000

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
    stalled: timeouts.clientStalled,
  }
}

/**
 * Where to listen, plainly and for TLS: at the sockets of the service manager, of which those with the name `secure` are for TLS,
 * else where the configuration says.
 */
export function places({ listen, listenSecure }: Config, sockets: readonly InheritedSocket[]) {
  const given = (secure: boolean) => sockets.filter(({ name }) => (name === 'secure') === secure)
  const [plain, secure] = [given(false), given(true)]
  return {
    plain: plain.length > 0 ? plain : listen,
    secure: secure.length > 0 || listenSecure === undefined ? secure : [listenSecure],
  }
}

/** What listening opens: a server and what is known of it, in the order of the configuration. */
interface Opened {
  readonly servers: HttpServer[]
  readonly listeners: Listener[]
}

/**
 * Opens every listener, filling `opened` as it goes; those for TLS when there is `tls`. Throws a Failure with one sentence at
 * the first that does not open.
 */
export async function listen(
  { plain, secure, tls }: ReturnType<typeof places> & { readonly tls: TlsOptions | undefined },
  options: HttpServerOptions,
  opened: Opened,
): Promise<void> {
  for (const place of plain) await openListener(place, options, opened)
  if (tls === undefined) return
  for (const place of secure) await openListener(place, { ...options, tls }, opened)
}

async function openListener(
  place: ListenAddress | InheritedSocket,
  options: HttpServerOptions,
  { servers, listeners }: Opened,
): Promise<void> {
  const server = new HttpServer(options)
  servers.push(server)
  const { address, port } = await startListening(server, place, inUse(place))
  listeners.push({
    address: anyAddress(address) ? undefined : (normaliseAddress(address) ?? address),
    port,
    secure: options.tls !== undefined,
  })
}

function inUse(place: ListenAddress | InheritedSocket): string {
  const names = 'port' in place ? `; \`sudo ss -ltnp 'sport = :${place.port}'\` names it` : ''
  return `another process listens there${names}; stop it, or choose another port with \`listen\` (or --listen)`
}

/** The status line when all of them are open. */
export function statusLine(listeners: readonly Listener[], config: Config): string {
  const where = listeners.map(({ address = '*', port }) => formatAuthority({ host: address, port }))
  return `listening on ${where.join(', ')}; storing in ${config.cacheDirectory}`
}
