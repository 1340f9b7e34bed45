/**
 * How far the bytes of a connection have moved. It tells a client that reads slowly from one that does not read at all.
 *
 * # Facts
 * - `Socket.bytesWritten` and `writableLength` count whole writes. A write can be 1 MiB, and a client that reads 20 KB/s needs 52 s for it.
 *   The handle below the socket knows how much of a write the kernel has not taken (`writeQueueSize`); Node's own timer for sockets reads
 *   it as well.
 * - A TLS socket has a handle of its own above the handle of TCP. Only the handle of TCP counts these bytes.
 * - The kernel takes more only when a third of its send buffer is free. The buffer grows to 4 MiB, so a client that reads 20 KB/s makes
 *   room once a minute. The bytes that the client has confirmed move far sooner. Only the kernel knows them, in /proc/net/tcp, which lists
 *   every connection; so it is read only before a connection is cut. Other systems than Linux do not tell.
 */
import { readFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import type { Milliseconds } from '../../async/clock.ts'
import { attempt } from '../../errors.ts'

/** How far the bytes of a connection have moved. The times are of the monotonic clock. */
export interface MovedBytes {
  /** Bytes that had left when the client last took as many as it must within `taking`, or when no byte waited for it. */
  readonly taken: number
  readonly takenSince: Milliseconds
  /** Bytes that have moved in either direction, and the time since which none has. */
  readonly all: number
  readonly allSince: Milliseconds
  /** Bytes that the client had confirmed when the kernel was first asked after `takenSince`, and when last; undefined: it was not asked. */
  readonly confirmed: { readonly first: number; readonly last: number } | undefined
  /** The time since which bytes have moved or waited without a break, and how many had been taken before it. */
  readonly began: { readonly at: Milliseconds; readonly taken: number }
  /** Whether the client has read so much since `began` that it may pause for `longestPause` times its limit. */
  readonly fastBefore: boolean
}

/** The state of a connection before the first look, and after a handler had it. */
export const unobservedMovement: MovedBytes = {
  taken: -1,
  takenSince: 0,
  all: -1,
  allSince: 0,
  confirmed: undefined,
  began: { at: 0, taken: 0 },
  fastBefore: false,
}

/**
 * The default for the bytes a second that a client has to take. A slower client is cut like one that takes nothing: it holds a connection
 * and memory. A modem takes three times as much.
 */
const defaultSlowestRate = 1024
/**
 * A client that limits its rate may read some megabytes at once and then nothing for minutes (`curl --limit-rate`). So a client that has
 * read so many bytes a second on average may pause longer, for `longestPause` times the limit. The kernel of the client takes 128 KiB
 * before any program reads, which pays for a few seconds. A longer pause gives an attacker nothing: an attacker holds a connection at less
 * cost by reading 1 KiB a second.
 */
const fastOnAverage = 16 * 1024
export const longestPause = 6

interface Bytes {
  readonly taken: number
  readonly read: number
  /** Whether more bytes wait for the client. */
  readonly waits: boolean
}

interface When {
  readonly now: Milliseconds
  /** The time in which the client has to take `least` bytes. */
  readonly taking: Milliseconds
  /** Bytes a second that the client has to take. */
  readonly slowest?: number | undefined
}

/** The movement up to now, by the bytes that the kernel has taken. */
export function movementSince(
  before: MovedBytes,
  { taken, read, waits }: Bytes,
  when: When,
): MovedBytes {
  const { now } = when
  const all = taken + read
  const allSince = all === before.all ? before.allSince : now
  const goesOn = before.taken < 0 || !waits || taken - before.taken >= least(when)
  if (!goesOn) return { ...before, all, allSince }
  // When the kernel has taken the last byte of a response, the client may not have confirmed it. So a break begins only when a look finds
  // no byte moved.
  const [first, rests] = [before.taken < 0, !waits && allSince !== now]
  const began = first ? { at: now, taken: 0 } : rests ? { at: now, taken } : before.began
  return { taken, takenSince: now, all, allSince, confirmed: undefined, began, fastBefore: false }
}

/** The movement up to now, by the bytes that the client has confirmed. */
export function confirmedMovement(before: MovedBytes, confirmed: number, when: When): MovedBytes {
  const { now, slowest = defaultSlowestRate } = when
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
function least({ taking, slowest = defaultSlowestRate }: When): number {
  return Math.max(1, Math.floor((taking / 1000) * slowest))
}

/** Undocumented members of a Node socket. */
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

/** Bytes of each connection that the kernel holds until the client confirms them, by `connectionPorts`. */
export type UnconfirmedBytes = ReadonlyMap<string, number>

/** A key made of both ports of a connection. `UnconfirmedBytes` leaves out connections that share both ports at different addresses. */
export function connectionPorts({ localPort = 0, remotePort = 0 }: Socket): string {
  return `${localPort} ${remotePort}`
}

/** Reads how many bytes the kernel holds of each connection of this machine; empty where the system does not tell. */
export function readUnconfirmed(): UnconfirmedBytes {
  const found = new Map<string, number>()
  const twice = new Set<string>()
  for (const file of ['/proc/self/net/tcp', '/proc/self/net/tcp6']) {
    const text = attempt(() => readFileSync(file, 'latin1')) ?? ''
    for (const [, local = '', remote = '', queue = ''] of text.matchAll(established)) {
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
