/**
 * What passes, and what the application gets of the client with it: made once, for requests, upgrades and the checks of an edge. The gateway
 * applies it (pipeline.ts), a check answers it (forward-auth/check-answer.ts).
 */
import type { Milliseconds } from '../../async/clock.ts'
import type { Response } from '../../http/message/message.ts'
import type { PassReason } from '../access/outcome.ts'
import type { ReadSession } from '../session/token.ts'
import { type DeniedRequest, refusedSocket } from './denials.ts'
import type { Passing } from './gate.ts'

export interface Admission {
  readonly because: PassReason
  /** The session whose identity the application gets; undefined when the request passes without one. */
  readonly session: ReadSession | undefined
  /** The path or the token that lets the request pass without a session. */
  readonly passthrough?: string | undefined
  /** The moment at which the token ends that lets the request pass; undefined when it never ends, and for all others. */
  readonly until?: Milliseconds | undefined
  /** The cookies that the application gets: its own, or none. */
  readonly cookies: 'application' | 'none'
  /** A field of the client that must not reach the application. The gateway removes it; a check that has it is refused. */
  readonly refuses?: 'Authorization'
}

/** The admission by a verdict, or the answer to an upgrade that a page of another origin asks for with a session. */
export function admit(
  verdict: Passing,
  asked: DeniedRequest,
): Admission | { readonly refusal: Response } {
  switch (verdict.verdict) {
    case 'authenticated': {
      const refusal = refusedSocket(asked)
      if (refusal !== undefined) return { refusal }
      return { because: 'session', session: verdict.session, cookies: 'application' }
    }
    case 'passthrough': {
      const { name: passthrough, expires: until } = verdict
      const because = `passthrough-${verdict.because}` as const
      return { because, session: undefined, passthrough, until, cookies: 'application' }
    }
    case 'anyone':
      return { because: 'anyone', session: undefined, cookies: 'application' }
    case 'preflight':
      // A browser sends neither with a preflight, so a program has sent them.
      return {
        because: 'preflight',
        session: undefined,
        cookies: 'none',
        refuses: 'Authorization',
      }
  }
}
