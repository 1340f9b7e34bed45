/**
 * Answers CONNECT with a tunnel, an intercepted tunnel or a refusal. The policy and the settings of `https` decide. A refusal by a rule
 * is a 403 that names it. When the far end cannot be reached, the answer is 503, so that apt tries again.
 */
import type { Socket } from 'node:net'
import type { Clock } from '../../async/clock.ts'
import { withDeadline } from '../../async/deadline.ts'
import { Failure } from '../../errors.ts'
import type { DialledConnection } from '../../http/client/connection.ts'
import type { Dialler } from '../../http/client/dialling/dialler.ts'
import { longSilence } from '../../http/client/dialling/silent-addresses.ts'
import type { Request, Response } from '../../http/message/message.ts'
import { textResponse } from '../../http/message/reply.ts'
import { type Authority, formatAuthority } from '../../http/message/target.ts'
import { appendVia, runsInCircle, viaChain } from '../../http/message/via.ts'
import { openTunnel, type TunnelOptions } from '../../http/proxy/tunnel.ts'
import type { Adopt, ConnectHandler } from '../../http/server/options.ts'
import { clientPatience, slowOrigin } from '../fetch/failures.ts'
import { admitTunnel, parentOf, type Rules } from '../policy/policy.ts'
import { buildNamedByProxyUser } from '../request/destination.ts'
import { effectiveTarget } from '../request/request-target.ts'
import type { OutcomeFacts } from '../rfc9111/outcome.ts'
import {
  parentPhrase,
  reasonPhrase,
  refusalOf,
  refusedResponse,
  tooManyConnectionsResponse,
  tunnelOffline,
} from './errors.ts'

interface ConnectParts {
  readonly rules: () => Rules
  readonly dialler: Dialler
  readonly clock: Clock
  readonly pseudonym: string
  /** Intercepts a tunnel; undefined when nothing here can. */
  readonly interceptTunnel: InterceptTunnel | undefined
  /** The steps that may answer instead of a tunnel that is carried through unread. */
  readonly refuseTunnel: readonly RefuseTunnel[]
  readonly onOpen: () => void
  /** Called with each number of bytes that a tunnel carries, in either direction. */
  readonly onBytes: (bytes: number) => void
}

/** A tunnel that is to be intercepted. */
export interface TunnelOpening {
  readonly socket: Socket
  /** The bytes that the client sent after its request. */
  readonly head: Buffer
  readonly authority: Authority
  /** The address of the client. */
  readonly client: string
  readonly adopt: Adopt
}

/** The end of an intercepted tunnel, in one word, and the number of its requests. */
export interface InterceptedTunnel {
  readonly because: string
  readonly requests: number
}

/** Intercepts a tunnel, and resolves when it has ended. Resolves to undefined, and sends nothing, when it is to be carried through unread. */
export type InterceptTunnel = (opening: TunnelOpening) => Promise<InterceptedTunnel | undefined>

/** The answer instead of a tunnel to this origin that is carried through unread. The client has named a build by `label`. */
export type RefuseTunnel = (tunnel: {
  readonly label: string | undefined
  readonly origin: string
}) => Response | undefined

export function connectHandler(parts: ConnectParts): ConnectHandler {
  return async (request, socket, head, adopt) => {
    const { policy, config } = parts.rules()

    // 1. Does the request ask for a tunnel? CONNECT takes only an authority, and there is no tunnel within a tunnel.
    const asked = effectiveTarget(request, policy.own)
    if (asked.kind !== 'connect') {
      const sentence = asked.kind === 'refuse' ? asked.sentence : 'CONNECT takes a host and a port.'
      const facts = { outcome: 'refused', because: 'malformed' }
      return textResponse(400, sentence, { facts })
    }
    const { authority } = asked

    // 2. May this client have a tunnel to this target?
    const inCircle = runsInCircle(request.fields, parts.pseudonym)
    const admission = admitTunnel(authority, policy, { client: request.client.address, inCircle })
    if ('deny' in admission) return refusedResponse(request, admission)
    if ((await request.clientPlace?.admits()) === false) {
      return tooManyConnectionsResponse(request, config.limits.perClient.connections)
    }

    // 3. Is the tunnel intercepted, or carried through unread?
    const origin = formatAuthority(authority)
    const label = buildNamedByProxyUser(request.fields)
    if (admission.mode === 'intercept') {
      const within: Adopt = (secure, end) =>
        adopt(secure, label === undefined ? end : { ...end, label })
      const opening = { socket, head, authority, client: request.client.address, adopt: within }
      const taken = await parts.interceptTunnel?.(opening)
      if (taken !== undefined) {
        const facts = { outcome: 'intercept', origin, ...taken } satisfies OutcomeFacts
        return { status: 200, sent: 0, facts }
      }
    }
    for (const refuse of parts.refuseTunnel) {
      const response = refuse({ label, origin })
      if (response !== undefined) return response
    }
    if (parts.rules().config.offline) {
      const facts = { outcome: 'failed', because: 'offline', origin } satisfies OutcomeFacts
      const reason = reasonPhrase(tunnelOffline)
      return { ...textResponse(504, tunnelOffline, { facts }), reason }
    }
    const near = { client: socket, head }
    return tunnel(request, near, { authority, trusted: admission.trusted }, parts)
  }
}

/** Connects to the far end, and joins the two connections until both sides have ended. */
async function tunnel(
  request: Request,
  near: Pick<TunnelOptions, 'client' | 'head'>,
  { authority, trusted }: { readonly authority: Authority; readonly trusted: boolean },
  { rules, dialler, clock, pseudonym, onOpen, onBytes }: ConnectParts,
): ReturnType<ConnectHandler> {
  const origin = formatAuthority(authority)
  const late = () => slowOrigin(origin)
  const begun = clock.elapsed()
  let far: DialledConnection | undefined
  const via = viaChain(appendVia(request.fields, request.version, pseudonym))
  try {
    const { up, down, because } = await openTunnel({
      ...near,
      clock,
      idle: rules().config.timeouts.tunnel,
      signal: request.lifetime.signal,
      pace: request.clientPlace?.pace,
      dial: async signal => {
        const after = clientPatience(rules().config.timeouts)
        const limit = { clock, after, signal, late, aborted: late }
        far = await withDeadline(limit, stop =>
          dialler.dial({ authority, use: 'tunnel', trusted, via, signal: stop }),
        )
        onOpen()
        return far.transport
      },
      onBytes,
    })
    // A client that closes a tunnel out of which nothing came has waited for the far end: apt does so after 30 seconds.
    if (far !== undefined && parentOf(authority, rules().policy) === undefined) {
      if (down > 0) dialler.silent.heard(far)
      else if (up > 0 && clock.elapsed() - begun >= longSilence) dialler.silent.note(far, origin)
    }
    const facts = { outcome: 'tunnel', because, origin, received: up } satisfies OutcomeFacts
    return { status: 200, sent: down, facts }
  } catch (error) {
    const refusal = refusalOf(error)
    if (refusal !== undefined) return refusedResponse(request, refusal)
    if (!(error instanceof Failure) || error.fault === 'internal') throw error
    const facts = { outcome: 'failed', because: error.code, origin } satisfies OutcomeFacts
    const parent = parentPhrase(error, parentOf(authority, rules().policy))
    return textResponse(503, `${error.publicText} (${origin}, ${parent}${error.code})`, { facts })
  }
}
