/**
 * Opens listeners: the configured address, or the socket the service manager hands over in its place.
 */
import { type ListenAddress, type ListensAt, startListening } from '../http/server/listen.ts'
import type { HttpServer, HttpServerLimits } from '../http/server/server.ts'
import type { InheritedSocket } from '../systemd.ts'
import type { Config } from './config/config.ts'

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

/** Starts listening; throws a Failure that says where and why not. */
export function open(
  server: HttpServer,
  place: ListenAddress | InheritedSocket,
): Promise<ListensAt> {
  return startListening(server, place, 'the address is in use; every instance needs one of its own')
}
