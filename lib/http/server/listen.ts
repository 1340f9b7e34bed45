/**
 * Opens a listener, at an address or on a socket of the service manager, or says in one sentence why it cannot.
 */
import type { AddressInfo } from 'node:net'
import { explainError, Failure, systemCode } from '../../errors.ts'
import type { InheritedSocket } from '../../systemd.ts'
import { formatAuthority } from '../message/target.ts'
import type { HttpServer } from './server.ts'

/** Where to listen; without an address on all the machine has. */
export interface ListenAddress {
  readonly address: string | undefined
  readonly port: number
}

/** Starts listening. Throws a Failure that says where and why not; `inUse` is what to do when another process listens there. */
export async function startListening(
  server: HttpServer,
  place: ListenAddress | InheritedSocket,
  inUse: string,
): Promise<AddressInfo> {
  try {
    if ('fd' in place) return await server.listen({ fd: place.fd })
    const { address, port } = place
    return await server.listen(address === undefined ? { port } : { host: address, port })
  } catch (cause) {
    throw cannotListen(cause, place, inUse)
  }
}

/** Where a listener could not be opened, and why. */
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
