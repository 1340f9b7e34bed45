/**
 * Seals and opens the probes of `authproxy doctor`, a question in a request and an answer that says what arrived.
 *
 * Both are sealed with a key of the dynamic file (keys/seal.ts). So only a user who can read that file can ask, and only that
 * user can read the answer: the edge and the backend can neither read nor make one, and an attacker who repeats a question
 * gets an answer that only a reader of the file can open. Every other request is answered as if there were no probes.
 *
 * # Format, version 1
 * Question, the field X-Authproxy-Probe: { "v": 1, "nonce", "until" (milliseconds since the epoch), "padding" (bytes) }
 * Answer, the content of a response with status 200: { "v": 1, "nonce", … } as in ProbeAnswer.
 */
import { createHash } from 'node:crypto'
import type { Milliseconds } from '../../async/clock.ts'
import type { Config } from '../config/config.ts'
import type { SealingKey } from '../keys/dynamic-config.ts'
import { seal, unseal } from '../keys/seal.ts'

/** The field a question stands in. Like every field of this prefix it never reaches a backend (identity/backend-fields.ts). */
export const probeField = 'X-Authproxy-Probe'

/** A question is valid for so long. */
const LIFETIME: Milliseconds = 60_000
/** Longest question and answer that are opened, in characters. */
const LONGEST_QUESTION = 1024
const LONGEST_ANSWER = 65_536
/** Bytes a question can ask the answer to have in its head. */
const MOST_PADDING = 32_768

export interface ProbeQuestion {
  readonly nonce: string
  /** Bytes of fields the answer is to have, so that the edge shows how large a response head may be. */
  readonly padding: number
}

const text = (found: unknown) => (typeof found === 'string' ? found : '')
const texts = (found: unknown): readonly string[] => (Array.isArray(found) ? found.map(String) : [])
const flag = (found: unknown) => found === true
const amount = (found: unknown) => (typeof found === 'number' ? found : 0)

/** What arrived, and where: the readers of an answer, which another version of the program may have written. */
const answerFields = {
  nonce: text,
  /** The name of the instance in X-Authproxy-Instance-ID. */
  instance: text,
  version: text,
  /** Fingerprint of the configuration in force. */
  config: text,
  /** Settings that wait for a restart. */
  waiting: texts,
  method: text,
  /** Path and query as they came. */
  target: text,
  /** As they came; empty when they did not. */
  host: text,
  forwardedProto: text,
  forwardedFor: text,
  /** Address of the peer, and whether proxy.trustedProxies has it. */
  peer: text,
  trusted: flag,
  /** Bytes of Cookie fields. */
  cookies: amount,
  /** Whether it asked for a WebSocket. */
  upgrade: flag,
  /** Whether it carried the name of this instance: it has passed it before. */
  looped: flag,
}

export type ProbeAnswer = {
  readonly [K in keyof typeof answerFields]: ReturnType<(typeof answerFields)[K]>
}

export interface ProbeKeys {
  readonly keys: readonly SealingKey[]
  readonly random: (size: number) => Buffer
}

type Values = Readonly<Record<string, unknown>>
type Purpose = 'doctor-question' | 'doctor-answer'

/** A question for one use, as a field value. */
export function sealQuestion(question: ProbeQuestion, now: Milliseconds, by: ProbeKeys): string {
  return sealed({ ...question, until: now + LIFETIME }, 'doctor-question', by)
}

/** The question in a field; undefined when it is none, or no longer valid. */
export function readQuestion(
  value: string,
  now: Milliseconds,
  keys: readonly SealingKey[],
): ProbeQuestion | undefined {
  if (value.length > LONGEST_QUESTION) return undefined
  const { nonce, padding, until } = opened(value, 'doctor-question', keys) ?? {}
  if (typeof nonce !== 'string' || nonce.length > 64) return undefined
  if (typeof until !== 'number' || !(until > now && until <= now + LIFETIME)) return undefined
  if (typeof padding !== 'number' || !(padding >= 0 && padding <= MOST_PADDING)) return undefined
  return { nonce, padding }
}

/** An answer, as content. */
export function sealAnswer(answer: ProbeAnswer, by: ProbeKeys): string {
  return sealed({ ...answer }, 'doctor-answer', by)
}

/** The answer to the question with this nonce; undefined when it is none, or that of another question. */
export function readAnswer(
  content: string,
  nonce: string,
  keys: readonly SealingKey[],
): ProbeAnswer | undefined {
  if (content.length > LONGEST_ANSWER) return undefined
  const found = opened(content.trim(), 'doctor-answer', keys)
  if (found === undefined || found['nonce'] !== nonce) return undefined
  const read = Object.entries(answerFields).map(([name, reader]) => [name, reader(found[name])])
  // Every field has been read by its own reader.
  return Object.fromEntries(read) as ProbeAnswer
}

/** Tells one configuration from another. Only sealed answers carry it. */
export function fingerprint(config: Config): string {
  return createHash('sha256').update(JSON.stringify(config)).digest('base64url').slice(0, 22)
}

function sealed(values: Values, purpose: Purpose, { keys, random }: ProbeKeys): string {
  return seal(Buffer.from(JSON.stringify({ v: 1, ...values })), purpose, keys, random)
}

/** The values a holder of a key has sealed. */
function opened(value: string, purpose: Purpose, keys: readonly SealingKey[]): Values | undefined {
  const plain = unseal(value, purpose, keys)
  if (plain === undefined) return undefined
  const found: unknown = JSON.parse(plain.toString())
  if (typeof found !== 'object' || found === null) return undefined
  const values: Values = { ...found }
  return values['v'] === 1 ? values : undefined
}
