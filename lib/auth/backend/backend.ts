/**
 * Sends requests and upgrades to the backend with the fields it may see, and returns its responses with the cookies it may set.
 * Knows nothing of logins.
 */

import type { Socket } from 'node:net'
import { isDeepStrictEqual } from 'node:util'
import type { Clock } from '../../async/clock.ts'
import type { Source, Take } from '../../bytes/source.ts'
import { OriginClient } from '../../http/client/client.ts'
import { Fields } from '../../http/message/field.ts'
import type { Request, Response } from '../../http/message/message.ts'
import { type ForwardingOptions, forward, forwardUpgrade } from '../../http/proxy/forward.ts'
import { type ClientView, clientOf, forwardingFields } from '../../http/proxy/forwarded.ts'
import { Allowance } from '../../http/server/gather.ts'
import type { KeyAndCertificate, TakenOver } from '../../http/server/options.ts'
import { AddressSet } from '../../ip.ts'
import { authoritiesIn } from '../../x509/authorities.ts'
import { instanceField, instanceTrail } from '../access/instance-id.ts'
import type { OutcomeFacts } from '../access/outcome.ts'
import { requestIdField } from '../access/own-fields.ts'
import { hostFor, type Place } from '../access/own-origin.ts'
import type { Config } from '../config/config.ts'
import { backendFields, harmlessAnswer, harmlessTrailers } from '../identity/backend-fields.ts'
import type { ReadSession } from '../session/token.ts'
import { readBackendCredential } from './backend-credential.ts'
import { readClientIdentity } from './client-identity.ts'

interface BackendOptions {
  readonly config: Config
  readonly clock: Clock
  readonly instanceId: string
  /** Fires when WebSockets and event streams are to end. */
  readonly closing: AbortSignal
  /** The backend adds the requests of WebSockets and event streams to this set, each as it arrived. */
  readonly endless: WeakSet<object>
}

/** A request that has been let through. */
export interface AdmittedRequest {
  readonly request: Request
  /** The request as it came: `request` may be a copy with other fields or content, which the server does not know. */
  readonly original: Request
  /** Path and query as they go out: the bytes that were judged. */
  readonly place: Place
  /** IP address of the client as far as it can be believed. */
  readonly client: string
  /** The session of the request; undefined when the request passes without one. */
  readonly session: ReadSession | undefined
  /** The fields that tell the application who asks; none without a session. */
  readonly identity: Fields
  /** Whether the request passes because of its path alone, without a session or a token. */
  readonly public: boolean
}

/** The connection of a client that asks for a WebSocket, and what it has sent behind its request. */
export interface Upgrade {
  readonly socket: Socket
  readonly head: Buffer
}

/** The fields that go to the backend for a field block, and the facts they were made of. */
interface Sent {
  readonly identity: Fields
  readonly client: string
  readonly host: string
  readonly fields: Fields
}

/** Bytes of small contents of requests that are received at a time. */
const SMALL_CONTENTS = 64 * 1024 * 1024

export class Backend {
  readonly #options: BackendOptions
  readonly #origin: OriginClient
  readonly #trusted: AddressSet
  readonly #room = new Allowance(SMALL_CONTENTS)
  /**
   * The fields that requests with these very fields are forwarded with, all but the request ID. A connection hands on equal
   * field blocks as one object, so the fields are made once (identity/backend-fields.ts).
   */
  #sent = new WeakMap<Fields, Sent>()
  #credential: Fields
  /** Trailer fields that may be passed on. */
  readonly #trailers: (fields: Fields) => Fields

  constructor(options: BackendOptions) {
    const { config, clock } = options
    const { stripped } = config.identityFields
    this.#trailers = fields => harmlessTrailers(fields, stripped)
    const { timeouts, limits } = config
    const { connect } = timeouts
    const { backendConnections } = limits
    const passed = Math.ceil(backendConnections / 2)
    this.#options = options
    this.#credential = readBackendCredential(config).fields
    this.#trusted = AddressSet.fromCidrs(config.trustedProxies)
    this.#origin = new OriginClient({
      clock,
      isPublic: () => true,
      verify: config.targetVerify,
      ca: targetAuthorities(config),
      identity: readClientIdentity(config),
      serverName: config.targetServerName,
      deadlines: {
        queue: connect,
        lookup: connect,
        connect,
        tls: connect,
        send: Math.max(60_000, connect),
        fields: timeouts.response,
        content: timeouts.content === 0 ? Number.POSITIVE_INFINITY : timeouts.content,
      },
      limits: {
        perOrigin: backendConnections,
        passed,
        lasting: backendConnections,
        all: 2 * (backendConnections + passed),
        // The pool keeps as many free connections as there may be at once. Closing some and opening others for the next
        // requests would cost more than the requests themselves.
        freePerOrigin: backendConnections,
        free: backendConnections + passed,
        waiting: 10_000,
        head: limits.responseHead,
      },
    })
  }

  /** The client of a request as far as the fields can be believed, and whether a trusted proxy named it. */
  client(request: Pick<Request, 'client' | 'fields'>): ClientView {
    return clientOf(request, this.#trusted)
  }

  /** From now on shows this certificate to a backend that asks for one, in new connections; false when it did so already. */
  show(identity: KeyAndCertificate): boolean {
    return this.#origin.dialler.show(identity)
  }

  /** The field by which the application knows this service; empty without `backendCredential`. */
  get credential(): Fields {
    return this.#credential
  }

  /** From now on sends this credential; false when it did so already. */
  present(credential: Fields): boolean {
    if (isDeepStrictEqual(credential.flat, this.#credential.flat)) return false
    this.#credential = credential
    this.#sent = new WeakMap()
    return true
  }

  /** Whether a peer is one of the proxies in front. */
  trusts(address: string): boolean {
    return this.#trusted.has(address)
  }

  /** Forwards a request, or the opening handshake of a WebSocket. Rejects with an OriginFailure. */
  send(admitted: AdmittedRequest, upgrade?: Upgrade): Promise<Response | TakenOver> {
    if (upgrade !== undefined) return this.#upgrade(admitted, upgrade)
    return forward(admitted.request, this.#forwarding(admitted)).then(response =>
      this.#answered(response, admitted),
    )
  }

  #answered(response: Response, admitted: AdmittedRequest): Response {
    const { session, identity } = admitted
    const fields = response.fields.through(harmlessAnswer)
    const content = withTrailers(this.#endless(response, admitted), this.#trailers)
    const asItCame = fields === response.fields && content === response.content
    const answered = asItCame ? response : { ...response, fields, content }
    if (response.status !== 431 || session === undefined) return answered
    // Request Header Fields Too Large: the reader of the log asks first how much of it is ours.
    const identityBytes = identity.flat.reduce((sum, text) => sum + text.length + 2, 0)
    return { ...answered, facts: { identityBytes } satisfies OutcomeFacts }
  }

  async #upgrade(
    admitted: AdmittedRequest,
    { socket, head }: Upgrade,
  ): Promise<Response | TakenOver> {
    const { config, closing, endless } = this.#options
    endless.add(admitted.original)
    const { tunnel } = config.timeouts
    const answer = await forwardUpgrade(admitted.request, {
      ...this.#forwarding(admitted),
      socket,
      head,
      idle: tunnel === 0 ? Number.POSITIVE_INFINITY : tunnel,
      signal: closing,
      agreed: harmlessAnswer,
    })
    return 'fields' in answer ? this.#answered(answer, admitted) : answer
  }

  counts() {
    return this.#origin.counts()
  }

  close(): Promise<void> {
    return this.#origin.close()
  }

  /** The target of the request and its fields: our own fields first, then those a client may send. */
  #forwarding(admitted: AdmittedRequest): ForwardingOptions {
    const { request, place, client, session, identity, public: isPublic } = admitted
    const { connection } = request
    const { config, clock, instanceId } = this.#options
    const { scheme, host: name, port } = config.target
    const { path, query } = place
    let sent = this.#sent.get(request.fields)
    if (sent?.identity !== identity || sent?.client !== client) {
      const host = hostFor(request, config.domain)
      const own = Fields.of(
        ...this.#credential,
        [instanceField, instanceTrail(request.fields, instanceId)],
        // Clients reach the edge by https: browsers send our cookies over nothing else.
        ...forwardingFields({ client, host, scheme: 'https' }),
      )
      const { basicAuth, stripped } = config.identityFields
      const isKnown = session !== undefined
      const fields = backendFields(request.fields, { identity, isKnown, own, basicAuth, stripped })
      sent = { identity, client, host, fields }
      this.#sent.set(request.fields, sent)
    }
    const { host, fields } = sent
    return {
      origin: this.#origin,
      uri: { scheme, host: name, port, path, query },
      host,
      client,
      // Public requests have a line of their own, so that they cannot take the connections from requests that have a session or
      // a token.
      line: isPublic ? 'passed' : 'shared',
      // The edge sends requests of many users over one connection. Those without a session are of users it cannot tell apart.
      owner: connection && { connection, identity: session?.id },
      fields: fields.followedBy([requestIdField, request.id]),
      trailers: this.#trailers,
      clock,
      room: this.#room,
      contentTime: config.timeouts.clientContent,
    }
  }

  /** Event streams do not end by themselves, so the service ends them in good order when it stops. */
  #endless({ content, fields }: Response, { original }: AdmittedRequest): Response['content'] {
    if (content.kind !== 'stream') return content
    if (!/^text\/event-stream\b/i.test(fields.get('Content-Type') ?? '')) return content
    const { closing, endless } = this.#options
    endless.add(original)
    return { ...content, open: () => until(content.open(), closing) }
  }
}

/** The same content, whose trailers can neither end nor make sessions: servers in front may put them among the fields of the head. */
function withTrailers(
  content: Response['content'],
  harmless: (trailers: Fields) => Fields,
): Response['content'] {
  if (content.kind !== 'stream' || content.trailers === undefined) return content
  const { trailers } = content
  return { ...content, trailers: () => harmless(trailers()) }
}

/** The content, which also ends when `closing` fires. */
function until(source: Source, closing: AbortSignal): Source {
  let waiting: Take | undefined
  const end = () => {
    const take = waiting
    waiting = undefined
    source.close()
    take?.(undefined, undefined)
  }
  closing.addEventListener('abort', end)
  return {
    next(take) {
      if (closing.aborted) return take(undefined, undefined)
      waiting = take
      source.next((error, piece) => {
        waiting = undefined
        take(error, piece)
      })
    },
    close() {
      closing.removeEventListener('abort', end)
      source.close()
    },
  }
}

/**
 * The authorities (PEM) that may have signed the backend's certificate, in addition to the well-known ones. Throws a Failure when
 * their file is of no use.
 */
export function targetAuthorities({ targetCertificates: file }: Config): readonly string[] {
  return authoritiesIn(file, 'proxy.targetCertificates') ?? []
}
