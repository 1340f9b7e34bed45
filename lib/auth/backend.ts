/**
 * The way to the backend: requests and upgrades with exactly the fields it may see, and its responses with exactly the
 * cookies it may set. Knows nothing of logins.
 */

import { readFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import type { Clock, Milliseconds } from '../async/clock.ts'
import { End } from '../async/race.ts'
import { iterate, sourceOf } from '../bytes/source.ts'
import { Failure } from '../errors.ts'
import { OriginClient } from '../http/client/origin.ts'
import { setCookieName, withoutCookies } from '../http/message/cookie.ts'
import { Fields, sameName } from '../http/message/field.ts'
import type { Request, Response } from '../http/message/message.ts'
import { forward, forwardUpgrade } from '../http/proxy/forward.ts'
import {
  type ClientView,
  clientOf,
  forwardingFields,
  withoutForwarding,
} from '../http/proxy/forwarded.ts'
import type { TakenOver } from '../http/server/options.ts'
import { AddressSet } from '../ip.ts'
import { instanceField, instanceTrail } from './access/instance-id.ts'
import { hostFor } from './access/own-host.ts'
import type { Config } from './config/config.ts'
import {
  harmlessTrailers,
  type IdentityLines,
  identityLines,
  withIdentity,
} from './identity/identity-fields.ts'
import type { IdentityTokens } from './identity/identity-token.ts'
import type { Session } from './saml/contract.ts'
import { isOwnCookie } from './session/cookie.ts'

export interface BackendOptions {
  readonly config: Config
  readonly clock: Clock
  readonly instanceId: string
  /** Makes the signed identity; undefined: none is sent. */
  readonly tokens: IdentityTokens | undefined
  /** Fires when WebSockets and event streams are to end. */
  readonly closing: AbortSignal
}

/** A request that has been let through. */
export interface Admitted {
  readonly request: Request
  /** Path and query as they go out: the bytes that were judged. */
  readonly path: string
  readonly query: string | undefined
  /** Undefined: nobody in particular. */
  readonly session: Session | undefined
}

/** Longer than any timer of Node can be; a wait of 0 in the configuration means for ever. */
const FOR_EVER: Milliseconds = 2_000_000_000

export class Backend {
  readonly #options: BackendOptions
  readonly #origin: OriginClient
  readonly #trusted: AddressSet
  /** Fields of a session, made once a signed identity: sessions are one object for as long as their token is remembered. */
  readonly #lines = new WeakMap<Session, IdentityLines & { readonly token: string | undefined }>()

  constructor(options: BackendOptions) {
    const { config, clock } = options
    const { timeouts, limits } = config
    this.#options = options
    this.#trusted = AddressSet.fromCidrs(config.trustedProxies)
    this.#origin = new OriginClient({
      clock,
      isPublic: () => true,
      verify: config.targetVerify,
      ca: targetAuthorities(config),
      deadlines: {
        queue: timeouts.connect,
        lookup: timeouts.connect,
        connect: timeouts.connect,
        tls: timeouts.connect,
        send: Math.max(60_000, timeouts.connect),
        fields: timeouts.response,
        content: timeouts.content === 0 ? FOR_EVER : timeouts.content,
      },
      limits: {
        perOrigin: limits.backendConnections,
        freePerOrigin: Math.min(128, limits.backendConnections),
        free: Math.min(128, limits.backendConnections),
        waiting: 10_000,
        head: limits.responseHead,
      },
    })
  }

  /** IP address of the client as far as it can be believed. */
  clientAddress(request: Pick<Request, 'client' | 'fields'>): string {
    return this.client(request).address
  }

  /** The same, and whether it was told by somebody who may speak for others. */
  client(request: Pick<Request, 'client' | 'fields'>): ClientView {
    return clientOf(request, this.#trusted)
  }

  /** Forwards a request. Throws an OriginFailure. */
  async handle(admitted: Admitted): Promise<Response> {
    const response = await forward(admitted.request, await this.#forwarding(admitted))
    const { session } = admitted
    // Request Header Fields Too Large: what of it is ours is the first question of whoever reads the log.
    const facts =
      response.status === 431 && session !== undefined
        ? { facts: { identityBytes: sizeOf(await this.#linesOf(session)) } }
        : {}
    return this.#endless(withoutOwnCookies({ ...response, ...facts }))
  }

  /** Forwards the opening handshake of a WebSocket. Throws an OriginFailure. */
  async upgrade(admitted: Admitted, socket: Socket, head: Buffer): Promise<Response | TakenOver> {
    const { config, closing } = this.#options
    const { tunnel } = config.timeouts
    const answer = await forwardUpgrade(admitted.request, {
      ...(await this.#forwarding(admitted)),
      socket,
      head,
      idle: tunnel === 0 ? FOR_EVER : tunnel,
      signal: closing,
      agreed: harmlessAnswer,
    })
    return 'fields' in answer ? withoutOwnCookies(answer) : answer
  }

  counts() {
    return this.#origin.counts()
  }

  close(): Promise<void> {
    return this.#origin.close()
  }

  async #forwarding({ request, path, query, session }: Admitted) {
    const { config, clock } = this.#options
    const { scheme, host, port } = config.target
    return {
      origin: this.#origin,
      uri: query === undefined ? { scheme, host, port, path } : { scheme, host, port, path, query },
      host: hostFor(request, config.domain),
      fields: await this.#fieldsFor(request, session),
      trailers: harmlessTrailers,
      clock,
      contentTime: config.timeouts.clientContent,
    }
  }

  /** What the backend is told, in the order that is the argument: ours first, then what a client may say. */
  async #fieldsFor(request: Request, session: Session | undefined): Promise<Fields> {
    const { config, instanceId } = this.#options
    const address = this.clientAddress(request)
    const own = Fields.fromFlat([
      ...[instanceField, instanceTrail(request.fields, instanceId)],
      ...['X-Authproxy-Request-ID', request.id],
      // The edge speaks https to the world, or no cookie of ours would ever arrive.
      ...forwardingFields({
        client: address,
        host: hostFor(request, config.domain),
        scheme: 'https',
      }).flat,
    ])
    const client = withoutCookies(withoutForwarding(request.fields), isOwnCookie)
    const identity = session === undefined ? undefined : await this.#linesOf(session)
    return withIdentity(client, identity, {
      fields: own,
      basicAuth: config.identityFields.basicAuth,
    })
  }

  async #linesOf(session: Session): Promise<IdentityLines> {
    const { config, tokens } = this.#options
    const token = await tokens?.of(session)
    const known = this.#lines.get(session)
    if (known !== undefined && known.token === token) return known
    const lines = { ...identityLines(session, config.identityFields, token), token }
    this.#lines.set(session, lines)
    return lines
  }

  /** Event streams never end by themselves: at the end of ours they do, in good order. */
  #endless(response: Response): Response {
    const { content } = response
    const type = response.fields.get('Content-Type') ?? ''
    if (content.kind !== 'stream' || !/^text\/event-stream\b/i.test(type)) return response
    const { closing } = this.#options
    return {
      ...response,
      content: {
        ...content,
        open: () => sourceOf(signal => until(iterate(content.open(), signal), closing)),
      },
    }
  }
}

function sizeOf({ fields }: IdentityLines): number {
  return fields.flat.reduce((sum, text) => sum + text.length + 2, 0)
}

async function* until(blocks: AsyncIterable<Buffer>, closing: AbortSignal): AsyncGenerator<Buffer> {
  const iterator = blocks[Symbol.asyncIterator]()
  const closed = new End()
  closing.addEventListener('abort', closed.come)
  if (closing.aborted) closed.come()
  try {
    for (;;) {
      const step = await closed.before(iterator.next())
      if (step === undefined || step.done) return
      yield step.value
    }
  } finally {
    closing.removeEventListener('abort', closed.come)
    await iterator.return?.()
  }
}

function withoutOwnCookies(response: Response): Response {
  return { ...response, fields: harmlessAnswer(response.fields) }
}

/** A backend cannot end, or make, sessions of ours. */
function harmlessAnswer(fields: Fields): Fields {
  if (!fields.has('Set-Cookie')) return fields
  const flat: string[] = []
  for (const [name, value] of fields) {
    if (!sameName(name, 'Set-Cookie') || !isOwnCookie(setCookieName(value))) flat.push(name, value)
  }
  return Fields.fromFlat(flat)
}

/** Authorities of the backend's certificate (PEM), besides the well-known ones. Throws a Failure when their file is of no use. */
export function targetAuthorities({ targetCertificates: file }: Config): readonly string[] {
  if (file === undefined) return []
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (cause) {
    throw noAuthorities(`cannot read proxy.targetCertificates ${file}`, cause)
  }
  // What is none would be passed over in silence, and every request fail.
  if (!/-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----/.test(text)) {
    throw noAuthorities(`proxy.targetCertificates ${file} holds no certificate in PEM`, undefined)
  }
  return [text]
}

function noAuthorities(message: string, cause: unknown): Failure {
  const publicText = 'The service cannot start.'
  return new Failure(message, { code: 'TARGET_CERTIFICATES', fault: 'internal', publicText, cause })
}
