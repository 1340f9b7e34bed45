/**
 * Sends a request of `authproxy doctor`, or looks at a certificate, within a deadline and a bound. Owns the connections.
 */
import { type ConnectionOptions, connect } from 'node:tls'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { withDeadline } from '../../async/deadline.ts'
import { iterate, type Source } from '../../bytes/source.ts'
import { explainError } from '../../errors.ts'
import { OriginClient, type OriginRequest, type OriginResponse } from '../../http/client/client.ts'
import { contextTrusting } from '../../http/client/dialling/dialler.ts'
import type { Lookup } from '../../http/client/dialling/name-lookup.ts'
import { type Parent, singleParent } from '../../http/client/dialling/parents.ts'
import { OriginFailure, type OriginPhase } from '../../http/client/errors.ts'
import type { Fields } from '../../http/message/field.ts'
import { formatAuthority, isIpLiteral } from '../../http/message/target.ts'
import type { KeyAndCertificate } from '../../http/server/options.ts'

/** The ways in which reaching a server can differ from the default. */
export interface Reach {
  /** Certificates (PEM) of authorities that are trusted in addition to the well-known ones. */
  readonly ca?: readonly string[]
  /** False accepts any certificate. */
  readonly verify?: boolean
  /** The proxy in front of the server. */
  readonly parent?: Parent | undefined
  /** The certificate for servers that ask for one. */
  readonly identity?: KeyAndCertificate | undefined
  /** The name in TLS, where it differs from the host of the URI. */
  readonly serverName?: string | undefined
  /** Bytes that connections begin with. */
  readonly introduction?: Buffer
}

export interface Question extends Pick<OriginRequest, 'uri' | 'fields' | 'host' | 'content'> {
  readonly method?: 'GET' | 'HEAD' | 'POST'
  readonly upgrade?: boolean
}

export interface AnsweredRequest {
  readonly ok: true
  readonly status: number
  readonly fields: Fields
  /** The part of the content that was read. */
  readonly content: string
  /** The moments before and after the exchange, by the clock of this machine. */
  readonly askedAt: Milliseconds
  readonly answeredAt: Milliseconds
}

export interface UnansweredRequest {
  readonly ok: false
  /** The phase that failed; undefined when it is not known. */
  readonly phase: OriginPhase | undefined
  readonly why: string
}

export type Outcome = AnsweredRequest | UnansweredRequest

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

/** The client for a reach; `closeClients` ends it. */
export function originClient(from: Machine, reach: Reach = usual): OriginClient {
  const own = clients.get(from) ?? new Map<Reach, OriginClient>()
  clients.set(from, own)
  const known = own.get(reach)
  if (known !== undefined) return known
  const { clock, lookup, ca, verify = true, parent } = { ...from, ...reach }
  const { introduction, identity, serverName } = reach
  const client = new OriginClient({
    clock,
    isPublic: () => true,
    verify,
    parents: parent && singleParent(parent),
    limits: { head: LONGEST },
    introduction,
    identity,
    serverName,
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
  const askedAt = from.clock.now()
  try {
    return await withDeadline(limit, async signal => {
      const { status, fields, content } = await send(originClient(from, reach), question, signal)
      const answeredAt = from.clock.now()
      return { ok: true, status, fields, content: await textOf(content), askedAt, answeredAt }
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
  throw new Error('the server opened a WebSocket instead of this instance')
}

async function textOf(content: Source): Promise<string> {
  let text = ''
  for await (const block of iterate(content)) {
    text += block.toString('latin1')
    if (text.length > LONGEST) break
  }
  return text
}

export interface SeenCertificate {
  readonly ends: Milliseconds
  /** The reason why the certificate would be refused, as a code of OpenSSL or Node; undefined when it would be accepted. */
  readonly problem: string | undefined
}

/** The certificate a server shows for `host`, or why there is none. */
export function seeCertificate(server: {
  readonly address: string
  readonly port: number
  readonly host: string
  /** Certificates (PEM) of authorities that are trusted in addition to the well-known ones. */
  readonly ca?: readonly string[] | undefined
}): Promise<SeenCertificate | string> {
  const { address, port, host, ca = [] } = server
  const options: ConnectionOptions = {
    host: address,
    port,
    ALPNProtocols: ['http/1.1'],
    rejectUnauthorized: false,
    ...(isIpLiteral(host) ? {} : { servername: host }),
    ...(ca.length === 0 ? {} : { secureContext: contextTrusting(ca) }),
    timeout: DEADLINE,
  }
  return new Promise(settle => {
    const socket = connect(options, () => {
      const { valid_to: ends } = socket.getPeerCertificate()
      const { authorized, authorizationError } = socket
      socket.destroy()
      // Node types it as an Error, but it is always a text: a code, or a message without one.
      const problem = authorized ? undefined : String(authorizationError)
      settle(ends === undefined ? 'it shows no certificate' : { ends: Date.parse(ends), problem })
    })
    socket.once('error', error => settle(explainError(error)))
    socket.once('timeout', () => {
      socket.destroy()
      settle(`no TLS handshake within ${DEADLINE / 1000} s`)
    })
  })
}
