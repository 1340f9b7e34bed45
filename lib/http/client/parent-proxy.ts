/**
 * The parent proxy: another HTTP proxy between us and every origin. http requests go to it in absolute-form (RFC 9112
 * section 3.2.2), everything else through a tunnel that CONNECT opens (RFC 9110 section 9.3.6).
 */
import { type IncomingMessage, request } from 'node:http'
import type { Socket } from 'node:net'
import { type Authority, formatAuthority } from '../message/target.ts'

export interface Parent extends Authority {
  /** `user:password`, decoded. Never log it. */
  readonly credentials: string | undefined
}

/** The parent answered CONNECT with something other than 2xx. */
export class ConnectRefused extends Error {
  readonly status: number

  constructor(status: number) {
    super(`CONNECT was answered ${status}`)
    this.name = 'ConnectRefused'
    this.status = status
  }
}

/** The value of Proxy-Authorization (RFC 9110 section 11.7.1, Basic of RFC 7617); undefined without credentials. */
export function proxyAuthorization(parent: Parent): string | undefined {
  if (parent.credentials === undefined) return undefined
  return `Basic ${Buffer.from(parent.credentials).toString('base64')}`
}

/**
 * Makes a connection to the parent one to `to`. Throws ConnectRefused, or what broke the connection; the caller destroys the
 * socket then.
 */
export function connectThrough(
  socket: Socket,
  parent: Parent,
  { to, stop }: { readonly to: Authority; readonly stop: AbortSignal },
): Promise<void> {
  const target = formatAuthority(to)
  const authorization = proxyAuthorization(parent)
  return new Promise((resolve, reject) => {
    const outgoing = request({
      createConnection: () => socket,
      method: 'CONNECT',
      path: target,
      headers: [
        ...['Host', target],
        ...(authorization === undefined ? [] : ['Proxy-Authorization', authorization]),
      ],
    })
    stop.addEventListener('abort', () => outgoing.destroy(), { once: true })
    outgoing.on('error', reject)
    outgoing.on('connect', (answer: IncomingMessage, _: Socket, head: Buffer) => {
      const status = answer.statusCode ?? 0
      if (status < 200 || status > 299) return reject(new ConnectRefused(status))
      // A server that speaks first may have been quick.
      if (head.length > 0) socket.unshift(head)
      resolve()
    })
    outgoing.end()
  })
}
