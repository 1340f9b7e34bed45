/**
 * The PROXY protocol, version 2 (HAProxy, proxy-protocol.txt, section 2.2): the first bytes of a connection, in which a load balancer names
 * the client it has accepted. Version 1, in text, is refused.
 *
 * # Facts
 * - Both sides must agree whether a connection begins with the protocol; a receiver must not guess (section 2). If it were optional, a
 *   client whose bytes the balancer passes on unchanged could name itself. So a trusted peer without the protocol is refused, and any other
 *   peer with it.
 * - Command LOCAL marks a connection of the balancer itself, such as a health check. Then the balancer's own address counts.
 * - Further facts about the connection may follow the addresses (TLV, section 2.2). The reader skips them.
 */
import type { Socket } from 'node:net'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { GatheredBytes } from '../../bytes/gathered.ts'
import { normaliseAddress } from '../../ip.ts'
import type { Peer } from '../message/message.ts'
import { leaveReads, takeReads } from './connections.ts'

/** The time from the start of the connection to the end of these bytes. A balancer sends them at once, and one packet may be lost. */
const TIME: Milliseconds = 5000
/** The most bytes of addresses and further facts. */
const LARGEST = 4096

const SIGNATURE = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1')
const FIXED = 16
const TCP4 = 0x11
const TCP6 = 0x21

/** The introduction of a connection of the balancer itself. */
export const localIntroduction: Buffer = Buffer.concat([SIGNATURE, Buffer.from([0x20, 0, 0, 0])])

type Introduction =
  /** `client` is undefined for a connection of the balancer itself. The client's own bytes begin at `end`. */
  | { readonly client: Peer | undefined; readonly end: number }
  | { readonly problem: string }
  | 'incomplete'

/** Reads the first bytes of a connection. The answer is not 'incomplete' when they are wrong already. */
export function readIntroduction(bytes: Buffer): Introduction {
  const begin = bytes.subarray(0, SIGNATURE.length)
  if (!begin.equals(SIGNATURE.subarray(0, begin.length))) {
    const isText = bytes.toString('latin1', 0, 6) === 'PROXY '
    return {
      problem: isText
        ? 'the peer sends version 1 of the PROXY protocol, and only version 2 is accepted'
        : 'a trusted proxy does not begin with the PROXY protocol',
    }
  }
  const [versionAndCommand, family] = bytes.subarray(SIGNATURE.length)
  if (versionAndCommand === undefined || family === undefined) return 'incomplete'
  const isLocal = versionAndCommand === 0x20
  if (!isLocal && versionAndCommand !== 0x21) {
    return { problem: 'an unknown version or command of the PROXY protocol' }
  }
  if (!isLocal && family !== TCP4 && family !== TCP6) {
    return { problem: 'the PROXY protocol names no TCP address of the client' }
  }
  if (bytes.length < FIXED) return 'incomplete'
  const length = bytes.readUInt16BE(14)
  const least = isLocal ? 0 : family === TCP4 ? 12 : 36
  if (length < least || length > LARGEST) {
    return { problem: `${length} bytes of addresses in the PROXY protocol` }
  }
  const end = FIXED + length
  if (bytes.length < end) return 'incomplete'
  if (isLocal) return { client: undefined, end }
  const size = family === TCP4 ? 4 : 16
  const address = addressIn(bytes.subarray(FIXED, FIXED + size))
  const port = bytes.readUInt16BE(FIXED + 2 * size)
  return { client: { address, port }, end }
}

function addressIn(bytes: Buffer): string {
  if (bytes.length === 4) return bytes.join('.')
  const groups = bytes.toString('hex').match(/.{4}/g) ?? []
  return normaliseAddress(groups.join(':')) ?? ''
}

/**
 * Waits for the first bytes of a connection that has just been accepted. It calls `introduced` with the client and the bytes read after the
 * introduction, or `refused` with a reason. It calls neither when the connection ends first.
 */
export function awaitIntroduction(
  socket: Socket,
  by: {
    readonly clock: Clock
    readonly introduced: (client: Peer | undefined, rest: Buffer) => void
    readonly refused: (problem: string) => void
  },
): void {
  const gathered = new GatheredBytes()
  const end = () => void socket.destroy()
  const leave = () => {
    cancel()
    leaveReads(socket, take)
    socket.off('end', end).off('error', end).off('close', leave)
  }
  const refuse = (problem: string) => {
    leave()
    socket.on('error', end)
    by.refused(problem)
    socket.destroy()
  }
  const take = (block: Buffer): boolean => {
    const bytes = gathered.add(block)
    const introduction = readIntroduction(bytes)
    if (introduction === 'incomplete') return false
    if ('problem' in introduction) refuse(introduction.problem)
    else {
      leave()
      by.introduced(introduction.client, Buffer.from(bytes.subarray(introduction.end)))
    }
    return false
  }
  const cancel = by.clock.after(TIME, () =>
    refuse(`a trusted proxy did not end the PROXY protocol within ${TIME / 1000} s`),
  )
  socket.on('end', end).on('error', end).on('close', leave)
  takeReads(socket, take)
}
