/**
 * Opens a listener, at an address or on a socket of the service manager, or says in one sentence why it cannot.
 */
import type { AddressInfo } from 'node:net'
import { explainError, Failure, systemCode } from '../../errors.ts'
import type { InheritedSocket } from '../../systemd.ts'
import { formatAuthority } from '../message/target.ts'
import type { HttpServer } from './server.ts'

/** An address to listen on; without `address` the server listens on all addresses of the machine. */
export interface ListenAddress {
  readonly address: string | undefined
  readonly port: number
}

/** A socket in the file system (unix(7)). */
export interface SocketPath {
  readonly path: string
}

/** Starts listening. Throws a Failure that names the place and the reason. `inUse` is the advice for a port that another process uses. */
export async function startListening(
  server: HttpServer,
  place: ListenAddress | InheritedSocket,
  inUse: string,
): Promise<AddressInfo> {
  try {
    const where = 'fd' in place ? { fd: place.fd } : { host: place.address, port: place.port }
    const address = await server.listen(where)
    if (address === undefined) throw new Error('not a TCP listener')
    return address
  } catch (cause) {
    throw cannotListen(cause, place, inUse)
  }
}

/** The Failure that says where a listener could not be opened, and why. */
export function cannotListen(
  cause: unknown,
  place: ListenAddress | InheritedSocket,
  inUse: string,
): Failure {
  const where =
    'fd' in place
      ? `the socket ${place.name} (descriptor ${place.fd})`
      : formatAuthority({ host: place.address ?? '*', port: place.port })
  const reasons: Readonly<Record<string, string>> = {
    EADDRINUSE: inUse,
    EACCES: 'ports below 1024 need a privilege this process does not have',
    EADDRNOTAVAIL: 'this machine does not have the address',
  }
  const reason = reasons[systemCode(cause) ?? ''] ?? explainError(cause)
  return new Failure(`cannot listen on ${where}: ${reason}`, { code: 'LISTEN', cause })
}

/** The addresses as a drop-in of a socket unit of systemd, systemd.socket(5). The drop-in replaces the addresses of the unit. */
export function socketUnit(listen: ReadonlyArray<ListenAddress | SocketPath>): string {
  const places = listen.map(place => {
    // systemd replaces specifiers, which begin with `%`.
    if ('path' in place) return place.path.replaceAll('%', '%%')
    const { address, port } = place
    return address === undefined ? `${port}` : formatAuthority({ host: address, port })
  })
  const lines = ['ListenStream=', ...places.map(place => `ListenStream=${place}`)]
  // The unit starts before the network is up, when the machine may not have the address yet.
  if (listen.some(place => 'port' in place)) lines.push('FreeBind=yes')
  return `[Socket]\n${lines.join('\n')}\n`
}

/**
 * The advice when systemd listens elsewhere than the configuration says; undefined when both agree. `unit`, and `socket` that listens for
 * it, are names without a suffix.
 */
export function otherSockets(
  given: ReadonlyArray<ListenAddress | SocketPath>,
  wanted: ReadonlyArray<ListenAddress | SocketPath>,
  unit: string,
  socket = unit,
): string | undefined {
  const [here, there] = [placesText(given), placesText(wanted)]
  if (here === there) return undefined
  return `systemd listens on ${here}, and the configuration says ${there}: run \`systemctl daemon-reload && systemctl restart ${socket}.socket ${unit}.service\``
}

function placesText(places: ReadonlyArray<ListenAddress | SocketPath>): string {
  return places
    .map(place => {
      if ('path' in place) return `unix:${place.path}`
      const { address = '*', port } = place
      return formatAuthority({ host: anyAddress(address) ? '*' : address, port })
    })
    .sort()
    .join(', ')
}

/** Whether an address stands for all addresses of the machine. */
export function anyAddress(address: string): boolean {
  return address === '::' || address === '0.0.0.0'
}
