/**
 * What passes, and what the application gets of the client with it: made once, for requests, upgrades and the checks of an edge. The gateway
 * applies it (pipeline.ts), a check answers it (forward-auth/check-answer.ts).
 */
import type { Milliseconds } from '../../async/clock.ts'
import { continueWhenReady } from '../../async/ready.ts'
import { type Fields, sameName } from '../../http/message/field.ts'
import type { Response } from '../../http/message/message.ts'
import type { PassReason } from '../access/outcome.ts'
import type { WatchedDecision } from '../access/rules.ts'
import { type ReadSession, tokenText } from '../session/token.ts'
import { type DeniedRequest, refusedSocket } from './denials.ts'
import type { Passing } from './gate.ts'

export interface Admission {
  readonly because: PassReason
  readonly session: ReadSession | undefined
  /** The token of a person by which a program asks, for the log. */
  readonly program?: string | undefined
  /** The fields that tell the application who asks. Those of a client never do. */
  readonly identity: Fields
  /** The path or the token that lets the request pass without a session. */
  readonly passthrough?: string | undefined
  /** The moment at which the token ends that lets the request pass; undefined when it never ends, and for all others. */
  readonly until?: Milliseconds | undefined
  /** What a watched rule would have done to the request. */
  readonly would?: WatchedDecision | undefined
  /** The cookies that the application gets: its own, or none. */
  readonly cookies: 'application' | 'none'
  /** A field of the client that must not reach the application. The gateway removes it; a check that has it is refused. */
  readonly refuses?: 'Authorization'
}

type Admitted = Admission | { readonly refusal: Response }

/**
 * The admission by a verdict, or the answer to an upgrade that a page of another origin asks for with a session. `identityOf` makes the
 * fields of a session in the form that the front needs, and those of no session.
 */
export function admit(
  verdict: Passing,
  asked: DeniedRequest,
  identityOf: (session: ReadSession | undefined) => Fields | Promise<Fields>,
): Admitted | Promise<Admitted> {
  const session = verdict.verdict === 'authenticated' ? verdict.session : undefined
  const refusal = session && refusedSocket(asked)
  if (refusal !== undefined) return { refusal }
  return continueWhenReady(identityOf(session), (identity): Admission => {
    switch (verdict.verdict) {
      case 'authenticated': {
        const { would } = verdict
        const program = tokenText(session)
        const because = program === undefined ? 'session' : 'token'
        return { because, session, program, identity, would, cookies: 'application' }
      }
      case 'passthrough': {
        const { name: passthrough, expires: until } = verdict
        const because = `passthrough-${verdict.because}` as const
        return { because, session, identity, passthrough, until, cookies: 'application' }
      }
      case 'anyone':
        return { because: 'anyone', session, identity, cookies: 'application' }
      case 'preflight':
        // A browser sends neither with a preflight, so a program has sent them.
        return {
          because: 'preflight',
          session,
          identity,
          cookies: 'none',
          refuses: 'Authorization',
        }
    }
  })
}

/** The fields of a client as the application gets them by an admission. */
export function admittedFields({ cookies, refuses }: Admission, client: Fields): Fields {
  if (cookies === 'application' && refuses === undefined) return client
  return client.where(name => {
    return !(
      (cookies === 'none' && sameName(name, 'Cookie')) ||
      (refuses !== undefined && sameName(name, refuses))
    )
  })
}
