/**
 * Ends WebSockets, event streams and long transfers with what let them through: their session, when it lapses, at its logout, when
 * it is revoked by any process, and when its key is gone; the rules, when a reload has changed them.
 *
 * Once a second it looks at what has lasted longer than that, so that ordinary requests cost nothing.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { repeat } from '../../async/repeat.ts'
import type { Request } from '../../http/message/message.ts'
import type { Logger } from '../../log/log.ts'
import type { ReadSession } from './token.ts'

const INTERVAL: Milliseconds = 1000
/** Requests that were judged just before a reload may begin to last just after the first look. */
const LOOKS_AFTER_CHANGE = 2

/** The holder of what has been let through without a session. */
export const passedWithoutSession = {}

/** An exchange that has begun and not ended. */
export interface Lasting {
  /** `begun` is by the monotonic clock. */
  readonly request: Request & { readonly begun: Milliseconds }
  readonly cut: () => void
}

/** What is asked of an exchange that lasts. */
interface Questions {
  readonly lasting: () => Iterable<Lasting>
  /** Why the session of an exchange has ended; undefined while it holds. */
  readonly whyEnded: (session: ReadSession, request: Request) => string | undefined
  /** Whether the rules of now let a request through, with the session it has. */
  readonly passes: (request: Request, session: ReadSession | undefined) => boolean
  readonly clock: Clock
  readonly log: Logger
}

/**
 * Cuts exchanges that are no longer allowed, from now on. `rulesChanged` has all of them judged by the rules again; `lookNow` looks
 * before the second is over, and `stop` ends the looking.
 */
export function endWithSessions(of: Questions): {
  readonly rulesChanged: () => void
  readonly lookNow: () => void
  readonly stop: () => void
} {
  const { lasting, whyEnded, passes, clock, log } = of
  let looks = 0
  const stop = repeat(clock, INTERVAL, async () => {
    const again = looks > 0
    looks = Math.max(0, looks - 1)
    look(again)
  })
  const look = (again: boolean) => {
    const now = clock.elapsed()
    for (const { request, cut } of lasting()) {
      const { holder } = request
      const session = isSession(holder) ? holder : undefined
      if (holder === undefined) continue
      const lasts = session !== undefined && now - request.begun >= INTERVAL
      const ended = lasts ? whyEnded(session, request) : undefined
      const because = ended ?? (again && !passes(request, session) ? 'rules' : undefined)
      if (because === undefined) continue
      log.info('ended with its session', { id: request.id, session: session?.id, because })
      cut()
    }
  }
  return {
    stop,
    lookNow: () => look(false),
    rulesChanged: () => {
      looks = LOOKS_AFTER_CHANGE
    },
  }
}

function isSession(holder: object | undefined): holder is ReadSession {
  return holder !== undefined && 'lapses' in holder && 'kid' in holder
}
