/**
 * The client that asks origins, as the configuration wants it.
 */
import type { Clock } from '../clock.ts'
import { OriginClient } from '../http/origin.ts'
import { isPublicAddress } from '../ip.ts'
import type { Config } from './config.ts'

export function originClient(config: Config, clock: Clock): OriginClient {
  const { connect, fields, content } = config.timeouts
  return new OriginClient({
    clock,
    isPublic: isPublicAddress,
    parent: config.parentProxy,
    deadlines: { lookup: connect, connect, tls: connect, parent: connect, fields, content },
    limits: { perOrigin: config.limits.originConnections },
  })
}
