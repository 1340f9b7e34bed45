/**
 * The doctor's way to others: one request and its answer, with a deadline and a bound, or why there was none. Owns its
 * connections. Answers are judged elsewhere.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { within } from '../../async/deadline.ts'
import { iterate, type Source } from '../../bytes/source.ts'
import { explainError } from '../../errors.ts'
import { OriginClient, type OriginResponse } from '../../http/client/client.ts'
import { OriginFailure, type OriginPhase } from '../../http/client/errors.ts'
import type { Lookup } from '../../http/client/name-lookup.ts'
import type { Fields } from '../../http/message/field.ts'
import type { Content } from '../../http/message/message.ts'
import { formatAuthority, type TargetUri } from '../../http/message/target.ts'

export interface AskerOptions {
  readonly clock: Clock
  /** The resolver; the system's unless told. */
  readonly lookup?: Lookup | undefined
  /** Certificates (PEM) of authorities that are trusted besides the well-known ones. */
  readonly ca?: readonly string[] | undefined
  /** False takes any certificate: where certificates are judged apart, and nothing that is sent is a secret. */
  readonly verify: boolean
}

export interface Question {
  readonly uri: TargetUri
  readonly fields: Fields
  readonly method?: 'GET' | 'HEAD' | 'POST'
  /** The Host field, when it is not that of the URI. */
  readonly host?: string
  readonly content?: Content
  /** Asks for a WebSocket. */
  readonly upgrade?: boolean
}

export interface Answered {
  readonly ok: true
  readonly status: number
  readonly fields: Fields
  /** As far as it was read. */
  readonly content: string
  /** Moments before and after, by the clock of this machine. */
  readonly asked: Milliseconds
  readonly answered: Milliseconds
}

export interface Unanswered {
  readonly ok: false
  /** On which part of the way it failed; undefined when that is not known. */
  readonly phase: OriginPhase | undefined
  readonly why: string
}

export type Outcome = Answered | Unanswered

/** Asks one question. Never throws. */
export type Ask = (question: Question) => Promise<Outcome>

const DEADLINE: Milliseconds = 10_000
const LONGEST = 256 * 1024

export class Asker {
  readonly #clock: Clock
  readonly #origin: OriginClient

  constructor({ clock, lookup, ca, verify }: AskerOptions) {
    this.#clock = clock
    this.#origin = new OriginClient({
      clock,
      isPublic: () => true,
      verify,
      ...(lookup === undefined ? {} : { lookup }),
      ...(ca === undefined ? {} : { ca }),
      limits: { head: LONGEST },
    })
  }

  /** For what asks by itself. */
  get origin(): OriginClient {
    return this.#origin
  }

  readonly ask: Ask = async question => {
    const asked = this.#clock.now()
    const origin = formatAuthority(question.uri)
    const limit = {
      clock: this.#clock,
      after: DEADLINE,
      signal: new AbortController().signal,
      late: () => new Error(`${origin} did not answer within ${DEADLINE / 1000} s`),
      aborted: () => new Error('given up'),
    }
    try {
      return await within(limit, async signal => {
        const { status, fields, content } = await this.#send(question, signal)
        const answered = this.#clock.now()
        return {
          ok: true,
          status,
          fields,
          content: await textOf(content),
          asked,
          answered,
        } as const
      })
    } catch (error) {
      const phase = error instanceof OriginFailure ? error.phase : undefined
      return { ok: false, phase, why: explainError(error) }
    }
  }

  close(): Promise<void> {
    return this.#origin.close()
  }

  async #send(question: Question, signal: AbortSignal): Promise<OriginResponse> {
    const { uri, fields, method = 'GET', host, content, upgrade = false } = question
    const asked = {
      ...{ method, uri, fields, signal, trusted: true },
      ...(host === undefined ? {} : { host }),
      ...(content === undefined ? {} : { content }),
    }
    if (!upgrade) return this.#origin.request(asked)
    const answer = await this.#origin.upgrade(asked)
    if ('status' in answer) return answer
    answer.transport.destroy()
    throw new Error('it changed the protocol, though nobody behind it was asked')
  }
}

async function textOf(content: Source): Promise<string> {
  let text = ''
  for await (const block of iterate(content)) {
    text += block.toString('latin1')
    if (text.length > LONGEST) break
  }
  return text
}
