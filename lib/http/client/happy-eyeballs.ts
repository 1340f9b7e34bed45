/**
 * One connection out of several addresses, RFC 8305 section 5: the families take turns, an attempt starts when the one before
 * has failed or taken 250 ms, none is given up while others are tried, and the first to connect wins.
 *
 * Node's own `autoSelectFamily` is not used: it drops an attempt when it starts the next, so a distant address is lost to an
 * unreachable one. Only addresses are dialled here, never names: what was checked is what is connected to.
 */
import { connect, isIPv6, type Socket } from 'node:net'
import type { Clock, Milliseconds } from '../../async/clock.ts'

/** RFC 8305 section 5: "Connection Attempt Delay" */
const ATTEMPT_DELAY: Milliseconds = 250
/** How much of the content may wait in memory per connection; Node 22's own default. */
const HIGH_WATER_MARK = 65_536
/** When the kernel begins to ask a silent peer whether it is still there. */
const KEEP_ALIVE_DELAY: Milliseconds = 60_000

export interface Connected {
  readonly socket: Socket
  readonly address: string
}

/**
 * Connects to one of the addresses. `stop` ends all attempts; what connects after it is destroyed. Throws the error of the
 * only attempt, or an AggregateError of all.
 */
export function connectFirst(
  addresses: readonly string[],
  port: number,
  { clock, stop }: { readonly clock: Clock; readonly stop: AbortSignal },
): Promise<Connected> {
  const order = interleaved(addresses)
  const attempts = new Set<Socket>()
  const errors: Error[] = []
  let next = 0
  let cancelTimer = () => {}
  return new Promise((resolve, reject) => {
    const finish = (winner?: Socket) => {
      cancelTimer()
      stop.removeEventListener('abort', onStop)
      next = order.length
      for (const socket of attempts) if (socket !== winner) socket.destroy()
      attempts.clear()
    }
    const onStop = () => {
      finish()
      reject(stop.reason)
    }
    const attempt = () => {
      cancelTimer()
      const address = order[next]
      if (address === undefined) return
      next += 1
      const socket = connect({ ...SOCKET, host: address, port })
      attempts.add(socket)
      socket.on('error', error => {
        if (!attempts.delete(socket)) return
        errors.push(error)
        if (next < order.length) return attempt()
        if (attempts.size > 0) return
        finish()
        reject(errors.length === 1 ? error : new AggregateError(errors))
      })
      socket.once('connect', () => {
        if (!attempts.has(socket)) return
        finish(socket)
        resolve({ socket, address })
      })
      if (next < order.length) cancelTimer = clock.after(ATTEMPT_DELAY, attempt)
    }
    stop.addEventListener('abort', onStop)
    if (stop.aborted) onStop()
    else attempt()
  })
}

const SOCKET = {
  noDelay: true,
  keepAlive: true,
  keepAliveInitialDelay: KEEP_ALIVE_DELAY,
  highWaterMark: HIGH_WATER_MARK,
}

/** RFC 8305 section 4: the families alternate, beginning with that of the first address; the order within each stays. */
function interleaved(addresses: readonly string[]): readonly string[] {
  const first = isIPv6(addresses[0] ?? '')
  const own = addresses.filter(address => isIPv6(address) === first)
  const other = addresses.filter(address => isIPv6(address) !== first)
  const order: string[] = []
  for (let i = 0; i < Math.max(own.length, other.length); i += 1) {
    for (const address of [own[i], other[i]]) if (address !== undefined) order.push(address)
  }
  return order
}
