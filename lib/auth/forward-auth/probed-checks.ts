/**
 * Remembers the checks of an edge that carry a question of `authproxy doctor` (probe/probe.ts), so that the doctor can ask what they were.
 *
 * Such a check is decided like any other and gives no access. A check for `probePath` is the exception: it passes, with the
 * same word in every identity field, and the edge sends its request to the gateway listener, which answers it.
 */
import { asksForWebSocket } from '../../http/message/hop-by-hop.ts'
import type { Request, Response } from '../../http/message/message.ts'
import { pathAndQuery } from '../../http/message/target.ts'
import { recentEntries } from '../../recent.ts'
import {
  cookiePairsOf,
  oddPath,
  type ProbeParts,
  type ProbeQuestion,
  probePath,
  questionIn,
  type SeenCheck,
} from '../probe/probe.ts'
import type { AskedAbout, CheckProblem } from './read-check.ts'

/** The value of every identity field of a probe. */
export const probedIdentity = 'authproxy-doctor'

/** Checks that are remembered. One examination makes some twenty. */
const MOST = 100
/** Characters of a value that is remembered. */
const LONGEST = 500

export class ProbedChecks {
  readonly #seen = recentEntries<string, SeenCheck>(MOST)
  readonly #parts: Pick<ProbeParts, 'clock' | 'keys'>

  constructor(parts: Pick<ProbeParts, 'clock' | 'keys'>) {
    this.#parts = parts
  }

  /** The question that a check carries; undefined for every other check. */
  questionIn(check: Request, asked: AskedAbout | CheckProblem): ProbeQuestion | undefined {
    return questionIn(check.fields, 'code' in asked ? { path: '' } : asked.place, this.#parts)
  }

  /** Remembers a check with a question, and how it was answered. */
  remember(
    nonce: string,
    check: Request,
    {
      asked,
      answer,
      claim = '',
    }: {
      readonly asked: AskedAbout | CheckProblem
      readonly answer: Response
      readonly claim: string | undefined
    },
  ): void {
    const cookiePairs = cookiePairsOf(check.fields)
    const about =
      'code' in asked
        ? { problem: asked.sentence, method: '', target: '', host: '', client: '' }
        : {
            problem: '',
            method: asked.request.method.slice(0, LONGEST),
            target: pathAndQuery(asked.place).slice(0, LONGEST),
            host: asked.host.slice(0, LONGEST),
            client: asked.client,
          }
    const upgrade = asksForWebSocket(check) || check.fields.has('Sec-WebSocket-Key')
    this.#seen.set(nonce, { ...about, claim, cookiePairs, upgrade, status: answer.status })
  }

  /** The check for the question with this nonce, if it is still known. */
  of(nonce: string): SeenCheck | undefined {
    return this.#seen.get(nonce)
  }
}

/**
 * Whether a path leads a probe to the end of the way of the application: two paths alone, for an edge that resolves dots would lead others
 * elsewhere.
 */
export function isProbePath(path: string): boolean {
  return path === probePath || path === probePath + oddPath
}
