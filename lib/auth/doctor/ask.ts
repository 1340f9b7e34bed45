/**
 * Sends a request of `authproxy doctor`, within a deadline and a bound. Owns the connections.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { within } from '../../async/deadline.ts'
import { iterate, type Source } from '../../bytes/source.ts'
import { explainError } from '../../errors.ts'
import { OriginClient, type OriginRequest, type OriginResponse } from '../../http/client/client.ts'
import type { Lookup } from '../../http/client/dialling/name-lookup.ts'
import { OriginFailure, type OriginPhase } from '../../http/client/errors.ts'
import type { Fields } from '../../http/message/field.ts'
import { formatAuthority } from '../../http/message/target.ts'

/** How a server is reached, where that differs from the others. */
export interface Reach {
  /** Certificates (PEM) of authorities that are trusted besides the well-known ones. */
  readonly ca?: readonly string[]
  /** False accepts any certificate. */
  readonly verify?: boolean
}

export interface Question extends Pick<OriginRequest, 'uri' | 'fields' | 'host' | 'content'> {
  readonly method?: 'GET' | 'HEAD' | 'POST'
  /** Asks for a WebSocket. */
  readonly upgrade?: boolean
}

export interface Answered {
  readonly ok: true
  readonly status: number
  readonly fields: Fields
  /** As much of it as was read. */
  readonly content: string
  /** Moments before and after, by the clock of this machine. */
  readonly asked: Milliseconds
  readonly answered: Milliseconds
}

export interface Unanswered {
  readonly ok: false
  /** The phase that failed; undefined when it is not known. */
  readonly phase: OriginPhase | undefined
  readonly why: string
}

export type Outcome = Answered | Unanswered

interface Machine {
  readonly clock: Clock
  readonly lookup?: Lookup
  readonly ca?: readonly string[]
}

const DEADLINE: Milliseconds = 10_000
const LONGEST = 256 * 1024

/** The clients of an examination. Each has to read every well-known authority, so there is one for each reach. */
const clients = new WeakMap<Machine, Map<Reach, OriginClient>>()
const usual: Reach = {}

/** The client that reaches servers so; `closeClients` ends it. */
export function clientOf(from: Machine, reach: Reach = usual): OriginClient {
  const own = clients.get(from) ?? new Map<Reach, OriginClient>()
  clients.set(from, own)
  const known = own.get(reach)
  if (known !== undefined) return known
  const { clock, lookup, ca, verify = true } = { ...from, ...reach }
  const client = new OriginClient({
    ...{ clock, isPublic: () => true, verify, limits: { head: LONGEST } },
    ...(lookup === undefined ? {} : { lookup }),
    ...(ca === undefined ? {} : { ca }),
  })
  own.set(reach, client)
  return client
}

export async function closeClients(from: Machine): Promise<void> {
  await Promise.all([...(clients.get(from)?.values() ?? [])].map(client => client.close()))
}

/** Asks one question. Never throws. */
export async function ask(from: Machine, question: Question, reach?: Reach): Promise<Outcome> {
  const origin = formatAuthority(question.uri)
  const limit = {
    clock: from.clock,
    after: DEADLINE,
    signal: new AbortController().signal,
    late: () => new Error(`${origin} did not answer within ${DEADLINE / 1000} s`),
    aborted: () => new Error('the examination ended'),
  }
  const asked = from.clock.now()
  try {
    return await within(limit, async signal => {
      const { status, fields, content } = await send(clientOf(from, reach), question, signal)
      const answered = from.clock.now()
      return { ok: true, status, fields, content: await textOf(content), asked, answered }
    })
  } catch (error) {
    const phase = error instanceof OriginFailure ? error.phase : undefined
    return { ok: false, phase, why: explainError(error) }
  }
}

async function send(
  client: OriginClient,
  { method = 'GET', upgrade = false, ...question }: Question,
  signal: AbortSignal,
): Promise<OriginResponse> {
  const asked = { ...question, method, signal, trusted: true }
  if (!upgrade) return client.request(asked)
  const answer = await client.upgrade(asked)
  if ('content' in answer) return answer
  answer.transport.destroy()
  throw new Error('the server opened a WebSocket in place of this instance')
}

async function textOf(content: Source): Promise<string> {
  let text = ''
  for await (const block of iterate(content)) {
    text += block.toString('latin1')
    if (text.length > LONGEST) break
  }
  return text
}
