/**
 * Probes: what `authproxy doctor` asks along every way that may lead to this instance, and what the instance says arrived.
 * Pure but for the random bytes of sealing.
 *
 * Both are sealed with a key of the dynamic file (saml/seal.ts). So nobody asks who cannot read that file; what stands in
 * between, edge or backend, can neither read an answer nor make one; and a question that somebody repeats brings an answer
 * only the file's reader can open. To everybody else such a request is one like any other.
 *
 * # Format, version 1
 * Question, the field X-Authproxy-Probe: { "v": 1, "nonce", "until" (milliseconds since the epoch), "padding" (bytes) }
 * Answer, the content of a response with status 200: { "v": 1, "nonce", … } as in ProbeAnswer.
 */
import { createHash } from 'node:crypto'
import type { Milliseconds } from '../../async/clock.ts'
import type { Config } from '../config/config.ts'
import type { SealingKey } from '../saml/contract.ts'
import { seal, unseal } from '../saml/seal.ts'

/** The field a question stands in. Like every field of this prefix it never reaches a backend (identity-fields.ts). */
export const probeField = 'X-Authproxy-Probe'

/** A question is good for so long. */
const LIFETIME: Milliseconds = 60_000
/** Bytes of a question, and of an answer, beyond which nobody looks. */
const LONGEST_QUESTION = 1024
const LONGEST_ANSWER = 65_536
/** Bytes an answer can be asked to have in its head. */
const MOST_PADDING = 32_768

export interface ProbeQuestion {
  readonly nonce: string
  /** Bytes of fields the answer is to have, so that an edge shows what it takes of a response. */
  readonly padding: number
}

/** What arrived, and where. */
export interface ProbeAnswer {
  readonly nonce: string
  /** The name of the instance in X-Authproxy-Instance-ID. */
  readonly instance: string
  readonly version: string
  /** Fingerprint of the configuration in force. */
  readonly config: string
  /** Settings that wait for a restart. */
  readonly waiting: readonly string[]
  readonly method: string
  /** Path and query as they came. */
  readonly target: string
  readonly host: string
  /** As they came; empty when they did not. */
  readonly forwardedProto: string
  readonly forwardedFor: string
  /** Address of the peer, and whether proxy.trustedProxies lets it speak for others. */
  readonly peer: string
  readonly trusted: boolean
  /** Bytes of Cookie fields. */
  readonly cookies: number
  /** Whether it asked for a WebSocket. */
  readonly upgrade: boolean
  /** Whether it carried the name of this instance: it has been here before. */
  readonly looped: boolean
}

export interface ProbeKeys {
  readonly keys: readonly SealingKey[]
  readonly random: (size: number) => Buffer
}

const QUESTION = 'doctor-question'
const ANSWER = 'doctor-answer'

/** A question for one use, as a field value. */
export function sealQuestion(
  { nonce, padding }: ProbeQuestion,
  now: Milliseconds,
  { keys, random }: ProbeKeys,
): string {
  return sealed({ v: 1, nonce, padding, until: now + LIFETIME }, QUESTION, keys, random)
}

/** The question in a field; undefined for whatever is none, or not any more. */
export function readQuestion(
  value: string,
  now: Milliseconds,
  keys: readonly SealingKey[],
): ProbeQuestion | undefined {
  if (value.length > LONGEST_QUESTION) return undefined
  const found = opened(value, QUESTION, keys)
  const { nonce, padding, until } = found ?? {}
  if (typeof nonce !== 'string' || nonce.length > 64) return undefined
  if (typeof until !== 'number' || !(until > now && until <= now + LIFETIME)) return undefined
  if (typeof padding !== 'number' || !(padding >= 0 && padding <= MOST_PADDING)) return undefined
  return { nonce, padding }
}

/** An answer, as content. */
export function sealAnswer(answer: ProbeAnswer, { keys, random }: ProbeKeys): string {
  return sealed({ v: 1, ...answer }, ANSWER, keys, random)
}

/** The answer to the question with this nonce; undefined when it is none, or another one's. */
export function readAnswer(
  content: string,
  nonce: string,
  keys: readonly SealingKey[],
): ProbeAnswer | undefined {
  if (content.length > LONGEST_ANSWER) return undefined
  const found = opened(content.trim(), ANSWER, keys)
  if (found === undefined || found['nonce'] !== nonce) return undefined
  const { waiting } = found
  const text = (name: string) => (typeof found[name] === 'string' ? found[name] : '')
  return {
    nonce,
    instance: text('instance'),
    version: text('version'),
    config: text('config'),
    waiting: Array.isArray(waiting) ? waiting.map(String) : [],
    method: text('method'),
    target: text('target'),
    host: text('host'),
    forwardedProto: text('forwardedProto'),
    forwardedFor: text('forwardedFor'),
    peer: text('peer'),
    trusted: found['trusted'] === true,
    cookies: typeof found['cookies'] === 'number' ? found['cookies'] : 0,
    upgrade: found['upgrade'] === true,
    looped: found['looped'] === true,
  }
}

/** Tells one configuration from another. Told to nobody but in sealed answers. */
export function fingerprint(config: Config): string {
  return createHash('sha256').update(JSON.stringify(config)).digest('base64url').slice(0, 22)
}

type Values = Readonly<Record<string, unknown>>

function sealed(
  values: Values,
  purpose: string,
  keys: readonly SealingKey[],
  random: (size: number) => Buffer,
): string {
  return seal(Buffer.from(JSON.stringify(values)), purpose, keys, random)
}

/** Only holders of a key have written it; another version of the program may have. */
function opened(text: string, purpose: string, keys: readonly SealingKey[]): Values | undefined {
  const plain = unseal(text, purpose, keys)
  if (plain === undefined) return undefined
  const found: unknown = JSON.parse(plain.toString())
  if (typeof found !== 'object' || found === null) return undefined
  const values: Values = { ...found }
  return values['v'] === 1 ? values : undefined
}
