/**
 * Answers requests that the rules under `access` refuse: with a page for a person, with JSON for a program.
 */

import type { Request, Response } from '../../http/message/message.ts'
import { type AccessRefusal, neededText, placeOfRule } from '../access/rules.ts'
import type { OutcomeFacts } from '../outcome.ts'
import type { FailurePage } from './failure-page.ts'

/** The answer to a request that the rules refuse. It never leads to the login by itself: that would be a loop. */
export function accessRefused(
  request: Request,
  refusal: {
    readonly access: AccessRefusal
    /** The signed-in user; undefined when there is none. */
    readonly user: string | undefined
    /** Whether the page names whom the rule lets in. */
    readonly tell: boolean
    /** Address of a login as another user. */
    readonly other: string
  },
  failurePage: FailurePage,
): Response {
  const { access, user, tell, other } = refusal
  const { rule, because } = access
  const ambiguous = access.verdict === 'ambiguous'
  const about = { rule: rule?.number, line: rule?.line }
  const needed = tell && rule !== undefined && !ambiguous ? neededText(rule.allow) : []
  const signedIn = user === undefined ? 'access_closed' : 'access_refused'
  const answered = failurePage({
    request,
    code: ambiguous ? 'access_ambiguous' : signedIn,
    words: { user: user ?? '', other },
    needed,
    message: ambiguous ? undefined : rule?.message,
    json: {
      error: ambiguous ? 'ambiguous_address' : 'access_denied',
      rule: rule?.number ?? null,
      ...(needed.length > 0 ? { needed } : {}),
    },
    facts: { user, decided: placeOfRule(rule), path: rule?.path.written, why: because },
  })
  // These facts are for the log, and they name the rule.
  const decided: OutcomeFacts = { outcome: 'refused', because: 'access', why: because, ...about }
  const facts = { ...answered.facts, ...decided }
  return { ...answered, facts: user === undefined ? facts : { ...facts, user } }
}
