/**
 * Asks along a way and reads what this instance says arrived, if it was this instance.
 */
import type { Clock } from '../../async/clock.ts'
import { Fields } from '../../http/message/field.ts'
import type { Ask, Outcome, Question } from './ask.ts'
import { type ProbeAnswer, type ProbeKeys, probeField, readAnswer, sealQuestion } from './probe.ts'

/** A question, its answer, and what this instance said when it was the one that answered. */
export interface Probed {
  readonly outcome: Outcome
  readonly answer: ProbeAnswer | undefined
}

export interface Way extends Question {
  /** Bytes of fields the answer is to have. */
  readonly padding?: number
}

/** Sends a probe. Never throws. */
export type Probe = (way: Way) => Promise<Probed>

/** Makes probes that are sent by `ask`. Without keys there is nobody to ask: the question goes out bare. */
export function prober(ask: Ask, clock: Clock, sealing: ProbeKeys): Probe {
  const { keys, random } = sealing
  return async ({ padding = 0, ...question }) => {
    const nonce = random(16).toString('hex')
    const now = clock.now()
    const value = keys.length === 0 ? undefined : sealQuestion({ nonce, padding }, now, sealing)
    const fields = Fields.of(
      ['Accept', '*/*'],
      ['User-Agent', 'authproxy-doctor'],
      ['Cache-Control', 'no-cache'],
      [probeField, value],
      ...question.fields,
    )
    const outcome = await ask({ ...question, fields })
    const answer = outcome.ok ? readAnswer(outcome.content, nonce, keys) : undefined
    return { outcome, answer }
  }
}
