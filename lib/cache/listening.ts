/**
 * Opens the listeners of the configuration, or uses the sockets of the service manager instead.
 */

import { formatAuthority } from '../http/message/target.ts'
import { type ListenAddress, startListening } from '../http/server/listen.ts'
import type { HttpServerLimits, HttpServerOptions, TlsOptions } from '../http/server/options.ts'
import { HttpServer } from '../http/server/server.ts'
import { defaultHeadLimits } from '../http/wire/request-rules.ts'
import { normaliseAddress } from '../ip.ts'
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

/** The addresses as a drop-in of a socket unit, systemd.socket(5). It takes the place of the addresses the unit has. */
export function socketUnit({ listen }: Pick<Config, 'listen'>): string {
  const places = listen.map(({ address, port }) =>
    address === undefined ? `${port}` : formatAuthority({ host: address, port }),
  )
  // The unit starts before the network is up, when an address of this machine may not be there yet.
  const lines = ['ListenStream=', ...places.map(place => `ListenStream=${place}`), 'FreeBind=yes']
  return `[Socket]\n${lines.join('\n')}\n`
}

/** What to do where the sockets of the service manager are not where the configuration says; undefined where they agree. */
export function otherSockets(
  { listen }: Pick<Config, 'listen'>,
  sockets: readonly InheritedSocket[],
  listeners: readonly Listener[],
): string | undefined {
  if (!sockets.some(({ name }) => name !== 'secure')) return undefined
  const text = (
    places: readonly { readonly address?: string | undefined; readonly port: number }[],
  ) =>
    places
      .map(({ address = '*', port }) =>
        formatAuthority({ host: anyAddress(address) ? '*' : address, port }),
      )
      .sort()
      .join(', ')
  const given = text(listeners.filter(({ secure }) => !secure))
  const wanted = text(listen)
  if (given === wanted) return undefined
  return `systemd listens on ${given}, and the configuration says ${wanted}: run \`systemctl daemon-reload && systemctl restart cachesvc.socket cachesvc.service\``
}

function anyAddress(address: string): boolean {
  return address === '::' || address === '0.0.0.0'
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
