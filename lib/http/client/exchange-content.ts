/**
 * The content of a request onto the wire to an origin: after 100 (Continue) where that is asked for, block by block under the
 * receiver's pressure, with trailer fields where the framing has room for them.
 */

import type { ClientRequest } from 'node:http'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { End } from '../../async/race.ts'
import { iterate } from '../../bytes/source.ts'
import type { WireRequest } from '../wire/wire-request.ts'

export interface Sending {
  readonly clock: Clock
  readonly signal: AbortSignal
  /** The origin is to take something now. */
  readonly writing: () => void
  /** Whoever provides the content is to say something now; that wait is theirs. */
  readonly waiting: () => void
}

/** Writes the content, a block after the other has left. Throws what the content's source throws; returns when the origin has gone. */
export async function sendContent(
  outgoing: ClientRequest,
  { content, awaitContinue }: WireRequest,
  sending: Sending,
): Promise<void> {
  const closed = new End()
  outgoing.once('close', closed.come)
  sending.writing()
  if (content.kind === 'none') return void outgoing.end()
  if (content.kind === 'bytes') return void outgoing.end(content.bytes)
  if (awaitContinue !== undefined && !(await toldToContinue(outgoing, awaitContinue, sending)))
    return
  const { length } = content
  const blocks = iterate(content.open(), sending.signal)
  let sent = 0
  try {
    for (;;) {
      sending.waiting()
      const step = await closed.before(blocks.next())
      if (step === undefined) return
      if (step.done) break
      sent += step.value.length
      if (length !== undefined && sent > length) throw new Error('content is longer than announced')
      sending.writing()
      await closed.before(written(outgoing, step.value))
    }
  } finally {
    await blocks.return?.()
  }
  if (length !== undefined && sent < length) throw new Error('content is shorter than announced')
  sending.writing()
  // Without chunks there is no place for trailer fields (RFC 9112 section 7.1.2).
  if (content.trailers !== undefined && outgoing.chunkedEncoding) {
    outgoing.addTrailers(
      [...content.trailers()].map(([name, value]): [string, string] => [name, value]),
    )
  }
  outgoing.end()
}

/** RFC 9110 section 10.1.1. False when the response is there already, or nobody is: the content is not wanted. */
function toldToContinue(
  outgoing: ClientRequest,
  after: Milliseconds,
  { clock }: Sending,
): Promise<boolean> {
  outgoing.flushHeaders()
  return new Promise(resolve => {
    const cancelTimer = clock.after(after, () => resolve(true))
    const tell = (go: boolean) => {
      cancelTimer()
      resolve(go)
    }
    outgoing.once('continue', () => tell(true))
    outgoing.once('response', () => tell(false))
    outgoing.once('close', () => tell(false))
  })
}

function written(outgoing: ClientRequest, block: Buffer): Promise<void> {
  return new Promise(resolve => {
    // An error is told by 'error' and 'close'.
    outgoing.write(block, () => resolve())
  })
}
