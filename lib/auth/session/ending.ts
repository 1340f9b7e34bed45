/**
 * Ends WebSockets, event streams and long transfers when the reason for letting them through ends: when their session lapses,
 * is logged out or revoked by any process, or its key is removed; and when a reload changes the rules.
 *
 * Once a second it checks the exchanges that have lasted longer than a second, so that ordinary requests cost nothing.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { repeat } from '../../async/repeat.ts'
import type { Request } from '../../http/message/message.ts'
import type { Logger } from '../../log/log.ts'
import type { ReadSession } from './token.ts'

const INTERVAL: Milliseconds = 1000
/** The checks after a change of the rules. For the first one, a request judged just before a reload may be too young. */
const LOOKS_AFTER_CHANGE = 2

/** The holder of exchanges that passed without a session. */
export const passedWithoutSession = {}

/** An exchange that has begun and not ended. */
interface LastingExchange {
  /** `begun` is by the monotonic clock. */
  readonly request: Request & { readonly begun: Milliseconds }
  readonly cut: () => void
}

/** The questions about a long exchange. */
interface Questions {
  readonly lasting: () => Iterable<LastingExchange>
  /** The reason why the session of an exchange has ended; undefined while it is valid. */
  readonly whyEnded: (session: ReadSession, request: Request) => string | undefined
  /** Whether the rules now in force let a request through with its session. */
  readonly passes: (request: Request, session: ReadSession | undefined) => boolean
  readonly clock: Clock
  readonly log: Logger
}

/**
 * Cuts exchanges that are no longer allowed, from now on. `rulesChanged` judges all of them by the rules again, `lookNow`
 * checks at once, and `stop` ends the checks.
 */
export function endWithSessions(of: Questions) {
  const { lasting, whyEnded, passes, clock, log } = of
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
  let looks = 0
  const stop = repeat(clock, INTERVAL, async () => {
    const again = looks > 0
    looks = Math.max(0, looks - 1)
    look(again)
  })
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
