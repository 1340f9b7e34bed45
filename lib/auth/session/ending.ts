/**
 * Ends WebSockets, event streams and long transfers when the reason for letting them through ends: when their session reaches its
 * absolute end, is logged out or revoked by any process, or its key is removed; when their passthrough token expires; and when a
 * reload changes the rules. The idle timeout ends none of them: a session is in use while its transfers are under way.
 *
 * Once a second it checks the exchanges that have lasted longer than a second, so that ordinary requests cost nothing.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { repeat } from '../../async/repeat.ts'
import type { Request } from '../../http/message/message.ts'
import type { Logger } from '../../log/log.ts'
import type { CutReason } from '../access/outcome.ts'
import type { ReadSession } from './token.ts'

const INTERVAL: Milliseconds = 1000
/** The checks after a change of the rules. For the first one, a request judged just before a reload may be too young. */
const LOOKS_AFTER_CHANGE = 2

/** The holder of exchanges that passed without a session: what let them through lasts until this moment. */
export interface OpenHolder {
  readonly until: Milliseconds
}

/** The holder of exchanges that passed without a session, and without a token that expires. */
export const passedWithoutSession: OpenHolder = { until: Number.POSITIVE_INFINITY }

declare module '../../http/message/message.ts' {
  interface Holders {
    session: ReadSession
    open: OpenHolder
  }
}

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
  readonly whyEnded: (session: ReadSession, request: Request) => CutReason | undefined
  /** Whether the rules now in force let a request through with its session. */
  readonly passes: (request: Request, session: ReadSession | undefined) => boolean
  /** Takes the reason why an exchange was cut, for its line in the log. */
  readonly noteCut: (request: Request, because: CutReason) => void
  readonly clock: Clock
  readonly log: Logger
}

/**
 * Cuts exchanges that are no longer allowed, from now on. `rulesChanged` judges all of them by the rules again, `lookNow`
 * checks at once, and `stop` ends the checks.
 */
export function endWithSessions(of: Questions) {
  const { lasting, whyEnded, passes, noteCut, clock, log } = of
  const look = (again: boolean) => {
    const now = clock.elapsed()
    for (const { request, cut } of lasting()) {
      const { holder } = request
      if (holder === undefined) continue
      const session = 'until' in holder ? undefined : holder
      const whyOver = () =>
        'until' in holder ? whyTokenEnded(holder, clock) : whyEnded(holder, request)
      const ended = now - request.begun >= INTERVAL ? whyOver() : undefined
      const because = ended ?? (again && !passes(request, session) ? 'rules' : undefined)
      if (because === undefined) continue
      const what = session === undefined ? 'what let it through' : 'its session'
      log.info(`ended with ${what}`, { id: request.id, session: session?.id, because })
      noteCut(request, because)
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

function whyTokenEnded({ until }: OpenHolder, clock: Clock): 'token-expired' | undefined {
  return until <= clock.now() ? 'token-expired' : undefined
}
