/**
 * How far the bytes of a connection have moved: whether a client that seems to stand still reads slowly, or not at all.
 *
 * # Facts
 * - `Socket.bytesWritten` and `writableLength` count whole writes. A write can be 1 MiB, and a client that reads 20 KB/s needs 52 s
 *   for it. The handle below the socket knows the rest of a write that the kernel has not taken (`writeQueueSize`); Node's own timer
 *   for sockets looks there as well.
 * - TLS has a handle of its own above that of TCP; the one of TCP counts.
 * - The kernel takes more only when a third of its send buffer is free. The buffer grows to 4 MiB, so a client that reads 20 KB/s
 *   makes room once a minute. What the client has confirmed moves far sooner. Only the kernel knows it: it stands in /proc/net/tcp,
 *   which lists every connection, so that is read only before a connection is cut. Elsewhere than on Linux it is unknown.
 */
import { readFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import type { Milliseconds } from '../../async/clock.ts'

/** How far the bytes of a connection have moved. The times are of the monotonic clock. */
export interface MovedBytes {
  /** Bytes that had left when the client last took as many as it must within `taking`, or nothing waited for it. */
  readonly taken: number
  readonly takenSince: Milliseconds
  /** Bytes that have moved either way, and since when there have been no more. */
  readonly all: number
  readonly allSince: Milliseconds
  /** Bytes that the client had confirmed when the kernel was first asked after `takenSince`, and last; undefined: it was not asked. */
  readonly confirmed: { readonly first: number; readonly last: number } | undefined
  /** Since when bytes have moved or waited without a break, and how many had been taken before. */
  readonly began: { readonly at: Milliseconds; readonly taken: number }
  /** Whether the client has read so much since then that it may pause for `longestPause` times its limit. */
  readonly fastBefore: boolean
}

/** Of a connection that was not looked at yet, or not while a handler had it. */
export const notLooked: MovedBytes = {
  taken: -1,
  takenSince: 0,
  all: -1,
  allSince: 0,
  confirmed: undefined,
  began: { at: 0, taken: 0 },
  fastBefore: false,
}

/**
 * Bytes a second that a client has to take of what waits for it unless told. Slower ones are cut like those that take nothing: each
 * holds a connection and memory. A modem takes three times as much.
 */
const usualSlowest = 1024
/**
 * A client that was told to read slowly may read some megabytes at once and then nothing for minutes (`curl --limit-rate`). So a client
 * that has read so many bytes a second on average may pause longer, for so many times the limit. What the kernel at its end takes
 * before any reader is there (128 KiB) pays for a few seconds. A longer pause gives an attacker nothing: who wants to hold a connection does
 * so for less by reading 1 KiB a second.
 */
const fastOnAverage = 16 * 1024
export const longestPause = 6

/** The bytes of a connection at a moment. */
interface Bytes {
  readonly taken: number
  readonly read: number
  /** Whether more waits to be taken. */
  readonly waits: boolean
}

interface When {
  readonly now: Milliseconds
  /** In which the client has to take `least` bytes. */
  readonly taking: Milliseconds
  /** Bytes a second that it has to take. */
  readonly slowest?: number | undefined
}

/** How far the bytes have moved now, by what the kernel has taken. */
export function movedSince(
  before: MovedBytes,
  { taken, read, waits }: Bytes,
  when: When,
): MovedBytes {
  const { now } = when
  const all = taken + read
  const allSince = all === before.all ? before.allSince : now
  const goesOn = before.taken < 0 || !waits || taken - before.taken >= least(when)
  if (!goesOn) return { ...before, all, allSince }
  // What the kernel holds of a response is not confirmed when the last of it has been taken: only a look that finds nothing new ends it.
  const [first, rests] = [before.taken < 0, !waits && allSince !== now]
  const began = first ? { at: now, taken: 0 } : rests ? { at: now, taken } : before.began
  return { taken, takenSince: now, all, allSince, confirmed: undefined, began, fastBefore: false }
}

/** The same, by the bytes that the client has confirmed. */
export function confirmedSince(before: MovedBytes, confirmed: number, when: When): MovedBytes {
  const { now, slowest = usualSlowest } = when
  const { first, last } = before.confirmed ?? { first: confirmed, last: confirmed }
  const allSince = confirmed > last ? now : before.allSince
  const { at, taken } = before.began
  const fast = Math.max(fastOnAverage, slowest)
  const fastBefore = confirmed - taken >= ((now - at) / 1000) * fast
  const moving = { ...before, allSince, fastBefore }
  return confirmed - first < least(when)
    ? { ...moving, confirmed: { first, last: confirmed } }
    : { ...moving, takenSince: now, confirmed: { first: confirmed, last: confirmed } }
}

/** Bytes that a client has to take within `taking`, and at least one. */
function least({ taking, slowest = usualSlowest }: When): number {
  return Math.max(1, Math.floor((taking / 1000) * slowest))
}

/** What Node keeps of a socket and does not document. */
interface Handle {
  readonly bytesWritten?: number
  readonly writeQueueSize?: number
  readonly _parent?: Handle | null
}

/** Bytes that the kernel has taken of what was written, since the connection was opened. */
export function bytesTaken(socket: Socket): number {
  const { _handle: handle } = socket as unknown as { readonly _handle: Handle | null }
  const { bytesWritten, writeQueueSize } = handle?._parent ?? handle ?? {}
  return bytesWritten === undefined || writeQueueSize === undefined
    ? socket.bytesWritten - socket.writableLength
    : bytesWritten - writeQueueSize
}

/** Bytes that the kernel holds of each connection until the client confirms them, by `connectionPorts`. */
export type UnconfirmedBytes = ReadonlyMap<string, number>

/** The two ports of a connection, as a key. Connections that share both ports at different addresses are left out of `UnconfirmedBytes`. */
export function connectionPorts({ localPort = 0, remotePort = 0 }: Socket): string {
  return `${localPort} ${remotePort}`
}

/** Reads what the kernel holds of the connections of this machine; empty where it does not tell. */
export function readUnconfirmed(): UnconfirmedBytes {
  const found = new Map<string, number>()
  const twice = new Set<string>()
  for (const file of ['/proc/self/net/tcp', '/proc/self/net/tcp6']) {
    for (const [, local = '', remote = '', queue = ''] of textOf(file).matchAll(established)) {
      const key = `${Number.parseInt(local, 16)} ${Number.parseInt(remote, 16)}`
      if (found.has(key)) twice.add(key)
      found.set(key, Number.parseInt(queue, 16))
    }
  }
  for (const key of twice) found.delete(key)
  return found
}

/** `  12: 0100007F:0C46 0100007F:D1B2 01 0000A0F0:00000000 …`: number, both ends, state (01 is established), both queues. */
const established = /^ *\d+: [0-9A-F]+:([0-9A-F]{4}) [0-9A-F]+:([0-9A-F]{4}) 01 ([0-9A-F]{8}):/gm

function textOf(file: string): string {
  try {
    return readFileSync(file, 'latin1')
  } catch {
    return ''
  }
}
