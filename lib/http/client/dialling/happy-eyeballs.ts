/**
 * One connection to one of several addresses, RFC 8305 section 5: the families take turns, an attempt starts when the one before has failed
 * or taken 250 ms, no attempt is given up while others are tried, and the first to connect wins.
 *
 * Node's own `autoSelectFamily` is not used: it drops an attempt when it starts the next, so a distant address is lost to an unreachable
 * one. Only addresses are dialled here, never names, so the connection goes to a checked address.
 */
import { isIPv6 } from 'node:net'
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import type { DialledConnection, Transport } from '../connection.ts'

/** RFC 8305 section 5: "Connection Attempt Delay" */
const ATTEMPT_DELAY: Milliseconds = 250

/** Connects to one of the addresses; `stop` ends all attempts. Rejects with the error of the only attempt, or an AggregateError of all. */
export function connectFirst(
  addresses: readonly string[],
  {
    connect,
    clock,
    stop,
  }: { connect: (address: string) => Transport; clock: Clock; stop: AbortSignal },
): Promise<DialledConnection> {
  const order = interleaved(addresses)
  const attempts = new Set<Transport>()
  const errors: Error[] = []
  let next = 0
  let cancelTimer = () => {}
  return new Promise((resolve, reject) => {
    const finish = (winner?: Transport) => {
      cancelTimer()
      stop.removeEventListener('abort', onStop)
      next = order.length
      for (const transport of attempts) if (transport !== winner) transport.destroy()
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
      const transport = connect(address)
      attempts.add(transport)
      const broke = (error: Error) => {
        if (!attempts.delete(transport)) return
        errors.push(error)
        if (next < order.length) return attempt()
        if (attempts.size > 0) return
        finish()
        reject(errors.length === 1 ? error : new AggregateError(errors))
      }
      transport.socket.on('error', broke)
      transport.socket.once('connect', () => {
        if (!attempts.has(transport)) return
        // With the listener the connection would keep the memory of all attempts while it lasts.
        transport.socket.off('error', broke)
        finish(transport)
        resolve({ transport, address })
      })
      if (next < order.length) cancelTimer = clock.after(ATTEMPT_DELAY, attempt)
    }
    stop.addEventListener('abort', onStop)
    if (stop.aborted) onStop()
    else attempt()
  })
}

/** RFC 8305 section 4: the families alternate, beginning with that of the first address. The order within each family stays. */
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
