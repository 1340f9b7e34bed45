/**
 * Opens listeners: the configured address, or the socket the service manager hands over in its place.
 */
import { Failure, systemCode } from '../errors.ts'
import type { HttpServer, HttpServerLimits } from '../http/server.ts'
import { formatAuthority } from '../http/target.ts'
import type { InheritedSocket } from '../systemd.ts'
import type { Config } from './config.ts'
import type { ListenAddress } from './setting-kinds.ts'

/** Bounds of the public listener. Requests may take any time as long as bytes move; backend.ts and `taking` see to that. */
export function serverLimits({ limits, timeouts }: Config): HttpServerLimits {
  return {
    head: limits.head,
    heads: { fields: limits.fields, target: 65_536, content: Number.POSITIVE_INFINITY },
    connections: limits.connections,
    pipelined: 50,
    headTime: timeouts.clientHead,
    requestTime: 0,
    idle: timeouts.clientIdle,
    stalled: 0,
    taking: timeouts.clientTaking,
  }
}

/** Where a listener is. */
export interface Opened {
  readonly address: string
  readonly port: number
}

/** Starts listening; throws a Failure that says where and why not. */
export async function open(
  server: HttpServer,
  place: ListenAddress | InheritedSocket,
): Promise<Opened> {
  try {
    if ('fd' in place) return await server.listen({ fd: place.fd })
    const { address, port } = place
    return await server.listen(address === undefined ? { port } : { host: address, port })
  } catch (error) {
    throw cannotListen(place, error)
  }
}

function cannotListen(place: ListenAddress | InheritedSocket, cause: unknown): Failure {
  const where =
    'fd' in place
      ? `the socket ${place.name} (descriptor ${place.fd})`
      : formatAuthority({ host: place.address ?? '*', port: place.port })
  const reasons: Readonly<Record<string, string>> = {
    EADDRINUSE: 'the address is in use; every instance needs one of its own',
    EACCES: 'ports below 1024 need a privilege this process does not have',
    EADDRNOTAVAIL: 'this machine does not have the address',
  }
  const reason = reasons[systemCode(cause) ?? '']
  return new Failure(`cannot listen on ${where}${reason === undefined ? '' : `: ${reason}`}`, {
    code: 'LISTEN',
    fault: 'internal',
    publicText: 'The service cannot start.',
    cause,
  })
}
