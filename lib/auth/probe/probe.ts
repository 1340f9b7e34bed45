/**
 * The probes of `authproxy doctor`: a question in a request, and an answer that reports what arrived. The service answers them
 * on any path and before any other decision.
 *
 * Both are sealed with a key of the dynamic file (keys/seal.ts). So only a user who can read that file can ask, and only that
 * user can read the answer: the edge and the backend can neither read nor make one, and an attacker who repeats a question
 * gets an answer that only a reader of the file can open. A request with a wrong question is treated as if it had none.
 *
 * Below `probePath` a question may also stand in the query. An edge that asks for checks leads requests for that path here by the way of the
 * application, whose lines may drop the field; the answer says which fields arrive at the end of it, and what the check was
 * (forward-auth/probed-checks.ts).
 *
 * # Format, version 1
 * Question, the field X-Authproxy-Probe or the query's `authproxy-probe`: { "v": 1, "nonce", "until" (milliseconds since the epoch), "padding"
 * (bytes), "about" (the nonce of another question, whose check is asked for), "fails" (whether the check of this one is to fail), "redirects" (whether the
 * answer is to lead nginx elsewhere), "status" (of the answer) }
 * Answer, the content of a response with that status, 200 by default: { "v": 1, "nonce", … } as in ProbeAnswer.
 */

import { createHash } from 'node:crypto'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { Fields } from '../../http/message/field.ts'
import { asksForWebSocket } from '../../http/message/hop-by-hop.ts'
import type { Request, Response } from '../../http/message/message.ts'
import { textResponse } from '../../http/message/reply.ts'
import { originForm, pathAndQuery } from '../../http/message/target.ts'
import { isRecord, type JsonObject } from '../../json.ts'
import { packageVersion } from '../../package.ts'
import { hasLooped } from '../access/instance-id.ts'
import type { OutcomeFacts } from '../access/outcome.ts'
import { ownField } from '../access/own-fields.ts'
import type { Backend } from '../backend/backend.ts'
import type { Config } from '../config/config.ts'
import type { SealingKey } from '../keys/dynamic-config.ts'
import type { KeyRing } from '../keys/key-ring.ts'
import { seal, unseal } from '../keys/seal.ts'
import type { SamlService } from '../login/service.ts'
import { unreadText } from '../session/identity.ts'

/** The field a question stands in. Like every field of this prefix it never reaches a backend (identity/backend-fields.ts). */
export const probeField = ownField('Probe')

/** Requests below this path take the way of the application through an edge that asks for checks, and end here. */
export const probePath = '/__authproxy/probe'

/** Octets that two servers may read differently; the application has to receive them unchanged. */
export const oddPath = '/doctor/a%2Fb/%C3%A4;v=1//c'

/** The path to which a probe that asks for it is led, in the words that an application has for nginx. */
export const redirectedPath = `${probePath}/redirected`

/** The member of a query in which a question stands. */
export const probeMember = 'authproxy-probe'

/** A question is valid for so long. */
const LIFETIME: Milliseconds = 60_000
/** Longest question and answer that are opened, in characters. */
const LONGEST_QUESTION = 1024
const LONGEST_ANSWER = 262_144
/** Bytes a question can ask the answer to have in its head. */
const MOST_PADDING = 32_768
/** Characters of a field that an answer repeats. */
const MOST = 500
/** Fields that an answer repeats, and characters of each. */
const MOST_FIELDS = 200
const LONGEST_FIELD = 200
/** The statuses an answer may have: those of pages that a login and its refusals need. */
export const probedStatuses: readonly number[] = [401, 403, 502]
/** Bytes of one padding field: less than browsers accept of one cookie. */
const LINE = 4000

export interface ProbeQuestion {
  readonly nonce: string
  /** Bytes of fields the answer is to have, so that the edge shows how large a response head may be. */
  readonly padding: number
  /** The question whose check is asked for; by default this question itself. */
  readonly about?: string | undefined
  /** Whether the check of this probe has to fail, which shows how the edge answers then. */
  readonly fails?: boolean | undefined
  /** Whether the answer is to name another path in X-Accel-Redirect, which shows whether the edge serves that path. */
  readonly redirects?: boolean | undefined
  /** The status the answer is to have, so that the edge shows whether it replaces pages of errors. */
  readonly status?: number | undefined
}

const text = (found: unknown) => (typeof found === 'string' ? found : '')
const texts = (found: unknown): readonly string[] => (Array.isArray(found) ? found.map(String) : [])
const flag = (found: unknown) => found === true
const amount = (found: unknown) => (typeof found === 'number' ? found : 0)

/**
 * The readers of the fields of an answer. Another version of the program may have written the answer, so each field is checked.
 */
const answerFields = {
  nonce: text,
  /** The name of the instance in X-Authproxy-Instance-ID. */
  instance: text,
  version: text,
  /** Fingerprint of the configuration in force. */
  config: text,
  /** Settings that wait for a restart. */
  waiting: texts,
  /** Entity ID of the identity provider in use, and the fingerprints of its signing keys; empty from a version that did not tell. */
  idp: text,
  idpKeys: texts,
  /** Attributes of the last login that nothing read, with what they are like. */
  unreadAttributes: texts,
  method: text,
  /** Path and query as they arrived. */
  target: text,
  /** The fields as they arrived; empty when they were absent. */
  host: text,
  forwardedProto: text,
  forwardedFor: text,
  /** Address of the peer, and whether proxy.trustedProxies has it. */
  peer: text,
  trusted: flag,
  /** Bytes of Cookie fields. */
  cookies: amount,
  /** How many cookies a server sees in them; 0 from a version that did not count. */
  cookiePairs: amount,
  /** Whether it asked for a WebSocket. */
  upgrade: flag,
  /** Whether the request carried the name of this instance, which means that it has passed this instance before. */
  looped: flag,
  /** The fields that name a user or describe the way of the request, as `Name: value`. */
  telling: texts,
  /** The check of the edge; undefined when there was none. */
  check: (found: unknown) =>
    isRecord(found) ? (readBy(checkFields, found) as SeenCheck) : undefined,
}

const checkFields = {
  /** The problem of the check; empty when it could be read. */
  problem: text,
  /** The request the check was about; empty when the check could not be read. */
  method: text,
  target: text,
  host: text,
  client: text,
  /** The field for which a request that is no probe is refused: one that could be taken for an identity. */
  claim: text,
  cookiePairs: amount,
  upgrade: flag,
  status: amount,
}

/** A check of an edge: the request it was about, and its answer. */
export type SeenCheck = {
  readonly [K in keyof typeof checkFields]: ReturnType<(typeof checkFields)[K]>
}

export type ProbeAnswer = {
  readonly [K in keyof typeof answerFields]: ReturnType<(typeof answerFields)[K]>
}

/** The members that have a reader, each read by its own. */
function readBy(readers: Readonly<Record<string, (found: unknown) => unknown>>, from: JsonObject) {
  return Object.fromEntries(Object.entries(readers).map(([name, read]) => [name, read(from[name])]))
}

interface ProbeKeys {
  readonly keys: readonly SealingKey[]
  readonly random: (size: number) => Buffer
}

type Purpose = 'doctor-question' | 'doctor-answer'

/** A question for one use, as a field value. */
export function sealQuestion(question: ProbeQuestion, now: Milliseconds, by: ProbeKeys): string {
  return sealed({ ...question, until: now + LIFETIME }, 'doctor-question', by)
}

/** The question in a field; undefined when it is not one, or no longer valid. */
export function readQuestion(
  value: string,
  now: Milliseconds,
  keys: readonly SealingKey[],
): ProbeQuestion | undefined {
  if (value.length > LONGEST_QUESTION) return undefined
  const { nonce, padding, until, about, fails, redirects, status } =
    opened(value, 'doctor-question', keys) ?? {}
  if (typeof nonce !== 'string' || nonce.length > 64) return undefined
  if (typeof until !== 'number' || !(until > now && until <= now + LIFETIME)) return undefined
  if (typeof padding !== 'number' || !(padding >= 0 && padding <= MOST_PADDING)) return undefined
  if (about !== undefined && (typeof about !== 'string' || about.length > 64)) return undefined
  const asked = probedStatuses.find(each => each === status)
  return {
    nonce,
    padding,
    ...(about === undefined ? {} : { about }),
    ...(fails === true ? { fails } : {}),
    ...(redirects === true ? { redirects } : {}),
    ...(asked && { status: asked }),
  }
}

/** The question of a request: in the field, or for `probePath` in the query. Undefined when there is no valid one. */
export function questionIn(
  fields: Fields,
  { path, query }: { readonly path: string; readonly query?: string | undefined },
  { clock, keys }: Pick<ProbeParts, 'clock' | 'keys'>,
): ProbeQuestion | undefined {
  let value = fields.get(probeField) || undefined
  if (value === undefined && query !== undefined && path.startsWith(probePath)) {
    value = new URLSearchParams(query).get(probeMember) ?? undefined
  }
  return value === undefined ? undefined : readQuestion(value, clock.now(), keys.sealingKeys())
}

/** An answer, as content. */
export function sealAnswer(answer: ProbeAnswer, by: ProbeKeys): string {
  const { check, ...others } = answer
  return sealed({ ...others, ...(check && { check: { ...check } }) }, 'doctor-answer', by)
}

/** The answer to the question with this nonce; undefined when it is not one, or that of another question. */
export function readAnswer(
  content: string,
  nonce: string,
  keys: readonly SealingKey[],
): ProbeAnswer | undefined {
  if (content.length > LONGEST_ANSWER) return undefined
  const found = opened(content.trim(), 'doctor-answer', keys)
  if (found === undefined || found['nonce'] !== nonce) return undefined
  return readBy(answerFields, found) as ProbeAnswer
}

export interface ProbeParts {
  readonly rules: () => {
    readonly config: Config
    readonly backend: Backend
    readonly waiting: readonly string[]
  }
  readonly keys: Pick<KeyRing, 'sealingKeys'>
  readonly saml: Pick<SamlService, 'idp' | 'unreadAttributes'>
  readonly instanceId: string
  /** The check of an edge for the question with this nonce. */
  readonly checkOf: (nonce: string) => SeenCheck | undefined
  readonly clock: Clock
  readonly random: (size: number) => Buffer
}

/** The answer to a probe; undefined for every other request. */
export type AnswerProbe = (request: Request) => Response | undefined

/** Answers the probes a service gets. */
export function probeAnswerer(parts: ProbeParts): AnswerProbe {
  const { rules, saml, instanceId, random } = parts
  return request => {
    const { fields, method } = request
    const place = originForm(request.target)
    const question = questionIn(fields, place, parts)
    if (question === undefined) return undefined
    const { config, backend, waiting } = rules()
    const field = (name: string) => (fields.get(name) ?? '').slice(0, MOST)
    const answer = {
      nonce: question.nonce,
      instance: instanceId,
      version: packageVersion(),
      config: fingerprint(config),
      waiting,
      idp: saml.idp()?.entityId ?? '',
      idpKeys: saml.idp()?.keys.map(key => key.fingerprint) ?? [],
      unreadAttributes: saml.unreadAttributes().map(each => unreadText([each])),
      method,
      target: pathAndQuery(place).slice(0, MOST),
      host: field('Host'),
      forwardedProto: field('X-Forwarded-Proto'),
      forwardedFor: field('X-Forwarded-For'),
      peer: request.client.address,
      trusted: backend.client(request).trusted,
      cookies: fields.all('Cookie').reduce((sum, line) => sum + line.length, 0),
      cookiePairs: cookiePairsOf(fields),
      upgrade: asksForWebSocket(request),
      looped: hasLooped(fields, instanceId),
      telling: tellingFields(fields, config),
      check: parts.checkOf(question.about ?? question.nonce),
    }
    const keys = parts.keys.sealingKeys()
    return textResponse(question.status ?? 200, sealAnswer(answer, { keys, random }), {
      fields: Fields.of(
        ['Cache-Control', 'no-store'],
        ['X-Accel-Redirect', redirectOf(question, place)],
        ...padding(question.padding),
      ),
      facts: { outcome: 'probe' } satisfies OutcomeFacts,
    })
  }
}

/** The path to which the answer leads nginx, with the same question; undefined for other probes, and for those that were led there. */
function redirectOf(
  { redirects }: ProbeQuestion,
  { path, query }: { readonly path: string; readonly query?: string | undefined },
): string | undefined {
  const leads = redirects === true && path !== redirectedPath
  return leads ? `${redirectedPath}?${query ?? ''}` : undefined
}

/** The number of cookies that a server sees in the fields. */
export function cookiePairsOf(fields: Fields): number {
  return fields.all('Cookie').reduce((sum, line) => sum + line.split(';').length, 0)
}

/** The fields in which an application could read the user, or the way of the request. */
function tellingFields(fields: Fields, { identityFields }: Config): readonly string[] {
  const { stripped } = identityFields
  const telling = [...fields].filter(([name]) => stripped.of(name) !== undefined)
  return telling.slice(0, MOST_FIELDS).map(line => line.join(': ').slice(0, LONGEST_FIELD))
}

function padding(bytes: number): ReadonlyArray<readonly [string, string]> {
  const lines: Array<readonly [string, string]> = []
  for (let left = bytes; left > 0; left -= LINE) {
    lines.push([ownField('Padding'), 'x'.repeat(Math.min(left, LINE))])
  }
  return lines
}

/** The fingerprint of a configuration. Only sealed answers carry it. */
export function fingerprint(config: Config): string {
  return createHash('sha256')
    .update(JSON.stringify(config, written))
    .digest('base64url')
    .slice(0, 22)
}

/**
 * Replaces a Map or Set by a list and an expression by its text, because JSON would write each as an empty object. The rules of
 * `access` have such values.
 */
function written(_name: string, value: unknown): unknown {
  if (value instanceof Map || value instanceof Set) return [...value]
  return value instanceof RegExp ? value.source : value
}

function sealed(values: JsonObject, purpose: Purpose, { keys, random }: ProbeKeys): string {
  return seal(Buffer.from(JSON.stringify({ v: 1, ...values })), purpose, keys, random)
}

/** The members of a sealed text; undefined when none of the keys opens it. */
function opened(
  value: string,
  purpose: Purpose,
  keys: readonly SealingKey[],
): JsonObject | undefined {
  const plain = unseal(value, purpose, keys)
  if (plain === undefined) return undefined
  const found: unknown = JSON.parse(plain.toString())
  return isRecord(found) && found['v'] === 1 ? found : undefined
}
