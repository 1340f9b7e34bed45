/**
 * CONNECT: policy, then what the settings say of the host. Without interception that is a connection to the far end, and two
 * sockets joined until both sides have said goodbye.
 */
import type { Clock } from '../async/clock.ts'
import { within } from '../async/deadline.ts'
import { Failure } from '../errors.ts'
import type { Dialler } from '../http/client/dialler.ts'
import type { Response } from '../http/message/message.ts'
import { textResponse } from '../http/message/reply.ts'
import { formatAuthority } from '../http/message/target.ts'
import { openTunnel } from '../http/proxy/tunnel.ts'
import { hasPassed } from '../http/proxy/via.ts'
import type { ConnectHandler } from '../http/server/server.ts'
import { refusalOf, refused } from './answer/errors.ts'
import { firstByteDeadline, slowOrigin } from './fetch/first-byte-deadline.ts'
import type { Https } from './intercept/https.ts'
import { admit } from './policy/policy.ts'
import type { Rules } from './policy/rules.ts'
import { verdictFacts } from './rfc9111/outcome.ts'

export interface TunnelParts {
  readonly rules: () => Rules
  readonly dialler: Dialler
  readonly clock: Clock
  readonly pseudonym: string
  readonly https: Pick<Https, 'mode' | 'open'>
  /** A tunnel stands. */
  readonly onOpen: () => void
  /** Bytes it carried, either way. */
  readonly onBytes: (bytes: number) => void
}

/** Answers CONNECT: 200 and a tunnel or one of its own making, 403 with the rule, or 503 when the far end cannot be reached (apt tries again). */
export function tunnelHandler(parts: TunnelParts): ConnectHandler {
  return async (request, socket, head, adopt) => {
    const { target } = request
    if (request.tunnelEnd !== undefined) {
      return textResponse(400, 'There are no tunnels within a tunnel.', { facts: malformed })
    }
    if (target.form !== 'authority') return textResponse(400, 'CONNECT takes a host and a port.')
    const { authority } = target
    const { policy, config } = parts.rules()
    const admission = admit(
      {
        kind: 'connect',
        scheme: 'https',
        authority,
        client: request.client.address,
        passedBefore: hasPassed(request.fields, parts.pseudonym),
      },
      policy,
    )
    if ('deny' in admission) return refused(request, admission.deny, admission.sentence)
    const origin = formatAuthority(authority)
    const { mode, rule } = parts.https.mode(authority, policy)
    if (mode === 'refuse') {
      const sentence = `A tunnel to ${origin} is refused by \`https.refuse_domains\`; remove ${rule} there to allow it.`
      return refused(request, 'https.refuse_domains', sentence)
    }
    if (mode === 'intercept') {
      const { address: client } = request.client
      const opening = { socket, head, authority, client, adopt }
      const taken = await parts.https.open(opening, () => parts.rules().policy)
      if (taken !== undefined) {
        const { because, requests, error } = taken
        const facts = {
          ...verdictFacts({ outcome: 'intercept', because, origin }),
          requests,
          error,
        }
        return { status: 200, sent: 0, facts }
      }
    }
    try {
      const report = await openTunnel({
        client: socket,
        head,
        clock: parts.clock,
        idle: config.timeouts.tunnel,
        signal: request.signal,
        dial: async signal => {
          const limit = {
            clock: parts.clock,
            after: firstByteDeadline,
            signal,
            late: () => slowOrigin(origin),
            aborted: () => slowOrigin(origin),
          }
          const { trusted } = admission
          const { transport } = await within(limit, stop =>
            parts.dialler.dial({ authority, use: 'tunnel', trusted, signal: stop }),
          )
          parts.onOpen()
          return transport
        },
        onBytes: (_direction, count) => parts.onBytes(count),
      })
      const { up, down, because } = report
      return {
        status: 200,
        sent: down,
        facts: { ...verdictFacts({ outcome: 'tunnel', because, origin }), received: up },
      }
    } catch (error) {
      const refusal = refusalOf(error)
      if (refusal !== undefined) return refused(request, refusal.deny, refusal.sentence)
      return unreachable(origin, error)
    }
  }
}

const malformed = { outcome: 'refused', because: 'malformed' }

function unreachable(origin: string, error: unknown): Response {
  if (!(error instanceof Failure) || error.fault === 'internal') throw error
  return textResponse(503, `${error.publicText} (${origin}, ${error.code})`, {
    facts: verdictFacts({ outcome: 'failed', because: error.code, origin }),
  })
}
