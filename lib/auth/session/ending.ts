/**
 * Ends WebSockets, event streams and long transfers with the session that let them through: when it lapses, at its logout, when
 * it is revoked by any process, and when its key is gone.
 *
 * Once a second it looks at what has lasted longer than that, so that ordinary requests cost nothing.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { repeat } from '../../async/repeat.ts'
import type { Request } from '../../http/message/message.ts'
import type { Logger } from '../../log/log.ts'
import type { ReadSession } from './token.ts'

const INTERVAL: Milliseconds = 1000

/** An exchange that has begun and not ended. */
export interface Lasting {
  /** `begun` is by the monotonic clock. */
  readonly request: Pick<Request, 'id' | 'holder'> & { readonly begun: Milliseconds }
  readonly cut: () => void
}

/** Cuts exchanges whose session has ended, from now on; the returned function stops that. */
export function endWithSessions(of: {
  readonly lasting: () => Iterable<Lasting>
  /** Why the session of an exchange has ended; undefined while it holds. */
  readonly whyEnded: (session: ReadSession) => string | undefined
  readonly clock: Clock
  readonly log: Logger
}): () => void {
  const { lasting, whyEnded, clock, log } = of
  return repeat(clock, INTERVAL, async () => {
    const now = clock.elapsed()
    for (const { request, cut } of lasting()) {
      const { holder: session } = request
      if (now - request.begun < INTERVAL || !isSession(session)) continue
      const because = whyEnded(session)
      if (because === undefined) continue
      log.info('ended with its session', { id: request.id, session: session.id, because })
      cut()
    }
  })
}

function isSession(holder: object | undefined): holder is ReadSession {
  return holder !== undefined && 'lapses' in holder && 'kid' in holder
}
