/**
 * Answers the probes of `authproxy doctor` with what arrived, on any path and before any other decision.
 * Only a sealed question (probe.ts) gets such an answer. A request with a wrong one is treated as if it had none.
 */
import type { Clock } from '../../async/clock.ts'
import { Fields } from '../../http/message/field.ts'
import type { Request, Response } from '../../http/message/message.ts'
import { textResponse } from '../../http/message/reply.ts'
import { pathAndQuery } from '../../http/message/target.ts'
import { asksForWebSocket } from '../../http/message/upgrade.ts'
import { packageVersion } from '../../package.ts'
import { hasLooped } from '../access/instance-id.ts'
import type { Backend } from '../backend.ts'
import type { Config } from '../config/config.ts'
import type { KeyRing } from '../keys/key-ring.ts'
import { fingerprint, probeField, readQuestion, sealAnswer } from './probe.ts'

export interface ProbeParts {
  readonly rules: () => { readonly config: Config; readonly backend: Backend }
  readonly keys: Pick<KeyRing, 'sealing'>
  readonly instanceId: string
  /** Settings that wait for a restart. */
  readonly waiting: () => readonly string[]
  readonly clock: Clock
  readonly random: (size: number) => Buffer
}

/** The answer to a probe; undefined for every other request. */
export type AnswerProbe = (request: Request) => Response | undefined

/** Characters of a field that an answer repeats. */
const MOST = 500
/** Bytes of one padding field: less than browsers accept of one cookie. */
const LINE = 4000

export function probeAnswerer(parts: ProbeParts): AnswerProbe {
  const { rules, instanceId, waiting, clock, random } = parts
  return request => {
    const { fields, method } = request
    const value = fields.get(probeField)
    if (value === undefined) return undefined
    const keys = parts.keys.sealing()
    const question = readQuestion(value, clock.now(), keys)
    if (question === undefined) return undefined
    const { config, backend } = rules()
    const field = (name: string) => (fields.get(name) ?? '').slice(0, MOST)
    const answer = {
      nonce: question.nonce,
      instance: instanceId,
      version: packageVersion(),
      config: fingerprint(config),
      waiting: waiting(),
      method,
      target: targetOf(request).slice(0, MOST),
      host: field('Host'),
      forwardedProto: field('X-Forwarded-Proto'),
      forwardedFor: field('X-Forwarded-For'),
      peer: request.client.address,
      trusted: backend.client(request).trusted,
      cookies: fields.all('Cookie').reduce((sum, line) => sum + line.length, 0),
      upgrade: asksForWebSocket(request),
      looped: hasLooped(fields, instanceId),
    }
    return textResponse(200, sealAnswer(answer, { keys, random }), {
      fields: Fields.of(['Cache-Control', 'no-store'], ...padding(question.padding)),
      facts: { outcome: 'probe' },
    })
  }
}

function targetOf({ target }: Request): string {
  if (target.form === 'origin') return pathAndQuery(target)
  return target.form === 'absolute' ? pathAndQuery(target.uri) : '*'
}

function padding(bytes: number): ReadonlyArray<readonly [string, string]> {
  const lines: Array<readonly [string, string]> = []
  for (let left = bytes; left > 0; left -= LINE) {
    lines.push(['X-Authproxy-Padding', 'x'.repeat(Math.min(left, LINE))])
  }
  return lines
}
