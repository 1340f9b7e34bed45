/**
 * The parent proxy: another HTTP proxy between us and every origin. http requests go to it in absolute-form (RFC 9112
 * section 3.2.2), everything else through a tunnel that CONNECT opens (RFC 9110 section 9.3.6).
 */
import { scratch } from '../../../bytes/landing.ts'
import { Fields } from '../../message/field.ts'
import { type Authority, formatAuthority } from '../../message/target.ts'
import { requestHead } from '../../wire/framing.ts'
import { ResponseHeadReader } from '../../wire/response-head.ts'
import type { Transport } from '../connection.ts'

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

/** What is taken of the parent's answer. */
const answerLimits = { bytes: 65_536, lines: 1000 }

/** Makes a connection to the parent one to `to`. Throws ConnectRefused or what broke it; the caller destroys it then. */
export function connectThrough(
  transport: Transport,
  parent: Parent,
  {
    to,
    via,
    stop,
  }: {
    readonly to: Authority
    readonly via: string | undefined
    readonly stop: AbortSignal
  },
): Promise<void> {
  const target = formatAuthority(to)
  const authorization = proxyAuthorization(parent)
  // Parents that name each other find out by Via.
  const fields = Fields.of(['Host', target], ['Proxy-Authorization', authorization], ['Via', via])
  const heads = new ResponseHeadReader(answerLimits)
  return new Promise((resolve, reject) => {
    const settle = (failure?: unknown): false => {
      transport.handTo(undefined)
      if (failure === undefined) resolve()
      else reject(failure)
      return false
    }
    transport.handTo({
      room: scratch,
      read(count) {
        let bytes = scratch().subarray(0, count)
        while (bytes.length > 0) {
          const reading = heads.read(bytes)
          if (reading === 'incomplete') return true
          if ('problem' in reading) return settle(new Error(reading.problem))
          bytes = bytes.subarray(reading.used)
          const { status } = reading.head
          if (status >= 200 && status <= 299) {
            settle()
            // A server that speaks first may have been quick.
            transport.give(bytes)
            return false
          }
          if (status >= 200 || status === 101) return settle(new ConnectRefused(status))
        }
        return true
      },
      ended: () => settle(new Error('the parent closed the connection instead of answering')),
      closed: error => settle(error ?? new Error('the connection to the parent has closed')),
    })
    stop.addEventListener('abort', () => settle(stop.reason), { once: true })
    transport.socket.write(requestHead('CONNECT', target, fields), 'latin1')
    transport.resume()
  })
}
