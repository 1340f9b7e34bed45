/**
 * A request for an origin, the message it becomes on the wire, and the response. Only this file writes Host, framing (RFC 9112 section 6)
 * and the fields of one hop (RFC 9110 section 7.6.1).
 */
import type { Milliseconds } from '../../async/clock.ts'
import type { Lifetime } from '../../async/lifetime.ts'
import type { Source } from '../../bytes/source.ts'
import { Fields } from '../message/field.ts'
import { type Content, lengthOf, noContent, type SendInterim } from '../message/message.ts'
import { formatAuthority, formatUri, pathAndQuery, type TargetUri } from '../message/target.ts'
import { requestHead } from '../wire/framing.ts'
import type { ResponseHead } from '../wire/response-head.ts'
import type { DialledConnection } from './connection.ts'
import { type DialDeadlines, type Parent, proxyAuthorization } from './dialling/parents.ts'
import { OriginFailure } from './errors.ts'

export interface OriginDeadlines extends DialDeadlines {
  /** Time for a connection to become free when the origin has as many as it may. */
  readonly queue: Milliseconds
  /** Time for the origin to take each piece of the request. */
  readonly send: Milliseconds
  /** Time from the request's last byte to the end of the response head, interim responses included. */
  readonly fields: Milliseconds
  /** The longest silence within the content while it is read. */
  readonly content: Milliseconds
}

/** A group of connections to an origin. A request of one line never uses a connection of the other. */
export type ConnectionLine = 'shared' | 'passed'

export interface OriginRequest {
  readonly method: string
  /** The target. Its userinfo is not sent. */
  readonly uri: TargetUri
  /** End-to-end fields. The client writes Host, Connection, framing and the fields of one hop, and leaves out any given ones. */
  readonly fields: Fields
  readonly content?: Content
  /**
   * Our credentials for the origin, the value of Authorization, which replaces a field of that name. The request fails where a parent proxy
   * could read them.
   */
  readonly authorization?: string | undefined
  /** Ends the request in any phase, its content included. */
  readonly signal?: AbortSignal | undefined
  /** Does the same without the cost of a signal: the request ends when this lifetime ends. */
  readonly within?: Lifetime | undefined
  /** Whether the host is listed by name and may be at any address. Any other host may be at public addresses only. */
  readonly trusted: boolean
  /**
   * The line whose connections it uses; undefined: `shared`. A client that slowly reads a response `passed` to it alone keeps its
   * connection for as long, and must not take it from others. The same holds for clients of a gateway without a session.
   */
  readonly line?: ConnectionLine
  /** Whether it needs a new connection, because each connection to the name may lead to another server. */
  readonly fresh?: boolean | undefined
  /** IP address of the client that asks, so that clients take turns at connections. Requests without one count as those of one client. */
  readonly client?: string | undefined
  /** The owner of a connection that authentication binds. Without an owner the connection is closed after the response. */
  readonly owner?: ConnectionOwner | undefined
  readonly deadlines?: Partial<OriginDeadlines> | undefined
  /**
   * Called when the head is later than `deadlines.fields` and there is no other way to the origin. Answers for how much longer the request
   * waits; 0 ends it, as without this function.
   */
  readonly onLate?: ((late: LateRequest) => Milliseconds) | undefined
  /**
   * The silence after which the same request is also sent to another address of the name, and the first head counts; undefined: it never is.
   * Only GET and HEAD are sent twice.
   */
  readonly nextAddressAfter?: Milliseconds | undefined
  /** Host field when it differs from the host of the URI: a gateway passes on the one it received. */
  readonly host?: string | undefined
  /** Whether the caller uses trailer fields of the response (RFC 9110 section 10.1.4). */
  readonly trailers?: boolean
  /** The longest wait for 100 (Continue), after which the content is sent. Undefined: it is sent at once, without Expect. */
  readonly awaitContinue?: Milliseconds | undefined
  readonly onInterim?: SendInterim | undefined
}

/** A request whose head is late. */
export interface LateRequest {
  /** Whether its connection had carried an earlier request. */
  readonly reused: boolean
  /** Whether its origin may have no other connection now. */
  readonly alone: boolean
  /** Whether other requests wait for a connection to its origin. */
  readonly awaited: boolean
  cancel(cause?: unknown): void
}

export interface OriginSource extends Source {
  /** All bytes, once, if the content came with the head, is small and is not empty. */
  whole?(): Buffer | undefined
}

/** The head as it came, fields of the connection included, and the content to come. */
export interface OriginResponse extends ResponseHead {
  /** Bytes of content to come, 0 for HEAD, 204 and 304; undefined when only the end shows the length. */
  readonly length: number | undefined
  /** The caller reads it to its end or closes it: until then it may hold the connection. Reading fails with an OriginFailure. */
  readonly content: OriginSource
  /** Trailer fields, once the content has been read to its end. */
  readonly trailers: (() => Fields) | undefined
  /** IP address of the origin, or of the parent proxy. */
  readonly address: string
  /** Host and port of the parent proxy that passed it on; undefined when it came directly. */
  readonly parent: string | undefined
  /** Whether it came over a connection that an earlier request had used. */
  readonly reused: boolean
}

/** A connection whose protocol the origin has changed (101). Bytes after the response are the first to be read from it. */
export interface OriginSwitched extends Pick<DialledConnection, 'transport' | 'address'> {
  /** Fields of the 101 response. */
  readonly fields: Fields
}

/** A request as it goes on the wire. */
export interface WireRequest extends Pick<OriginRequest, 'method' | 'awaitContinue' | 'onInterim'> {
  /** Request line and fields, latin1. */
  readonly head: string
  readonly content: Content
  /** Whether it asks for a change of protocol (101). Without this a change is an error. */
  readonly upgrade: boolean
  /** Whether it has credentials that authenticate the connection, for the origin or for the parent proxy. */
  readonly binds: boolean
}

/** The message for the next hop. `upgrade` asks for WebSocket. Throws a TypeError for a message that cannot be written. */
export function wireRequestOf(
  asked: OriginRequest,
  via: Parent | undefined,
  upgrade: boolean,
): WireRequest {
  const { method, uri, content = noContent, awaitContinue, onInterim } = asked
  const parent = uri.scheme === 'http' ? via : undefined
  if (parent !== undefined && asked.authorization !== undefined) {
    throw new OriginFailure('ORIGIN_CREDENTIALS_READABLE', formatAuthority(uri), {})
  }
  const host = hostField(asked.host ?? formatAuthority(uri, uri.scheme))
  const given = asked.fields.where(isTheirs)
  const theirs =
    asked.authorization === undefined
      ? given
      : given.without('Authorization').plus('Authorization', asked.authorization)
  const target = parent === undefined ? pathAndQuery(uri) : formatUri(uri)
  const head = requestHead(method, target, host, theirs, ownFields(asked, parent, upgrade))
  const binds =
    bindsConnection(theirs.get('Authorization')) ||
    (parent !== undefined && bindsConnection(proxyAuthorization(parent)))
  return { method, head, content, awaitContinue, onInterim, upgrade, binds }
}

/** Most requests have the same host as the previous one. */
function hostField(host: string): Fields {
  if (host !== last.host) last = { host, fields: Fields.lasting(['Host', host]) }
  return last.fields
}

let last = { host: 'localhost', fields: Fields.lasting(['Host', 'localhost']) }

/** The fields of framing and of the connection. */
function ownFields(asked: OriginRequest, parent: Parent | undefined, upgrade: boolean): Fields {
  const { method, content = noContent, awaitContinue } = asked
  const flat: string[] = framing(method, content)
  const authorization = parent === undefined ? undefined : proxyAuthorization(parent)
  if (authorization !== undefined) flat.push('Proxy-Authorization', authorization)
  if (awaitContinue !== undefined) flat.push('Expect', '100-continue')
  if (flat.length === 0 && !asked.trailers && !upgrade) return KEEP_ALIVE
  if (asked.trailers) flat.push('TE', 'trailers')
  if (upgrade) flat.push('Upgrade', 'websocket')
  const option = upgrade ? 'Upgrade' : 'keep-alive'
  flat.push('Connection', asked.trailers ? `${option}, TE` : option)
  return Fields.fromFlat(flat)
}

/** The fields of most requests. */
const KEEP_ALIVE = Fields.lasting(['Connection', 'keep-alive'])

function isTheirs(name: string): boolean {
  return name.length > LONGEST_OURS || !OURS.has(name.toLowerCase())
}

/** Fields of one hop, of framing, and others that this file writes. It writes Expect when it waits for 100 (Continue). */
const OURS: ReadonlySet<string> = new Set([
  ...['host', 'connection', 'keep-alive', 'proxy-connection', 'proxy-authorization', 'te'],
  ...['transfer-encoding', 'trailer', 'upgrade', 'content-length', 'expect'],
])

/** The longest of these names. Lower-case copies of a megabyte of names would take milliseconds. */
const LONGEST_OURS = Math.max(...[...OURS].map(name => name.length))

/** RFC 9112 section 6. Methods that define content for requests announce a length of 0 when there is none (RFC 9110 section 8.6). */
function framing(method: string, content: Content): string[] {
  const length = lengthOf(content)
  if (length === undefined) return ['Transfer-Encoding', 'chunked']
  const implied = content.kind === 'none' && !['POST', 'PUT', 'PATCH'].includes(method)
  return implied ? [] : ['Content-Length', String(length)]
}

export interface ConnectionOwner {
  /** The client's connection, which ends when it closes. */
  readonly connection: Lifetime
  /** The user of the connection: equal texts for the same user only; undefined when the user is unknown. */
  readonly identity: string | undefined
}

/**
 * Schemes that authenticate the connection. IIS and SharePoint have NTLM, Negotiate and its relatives (Nego2, MS-N2HT); WinRM also has
 * Kerberos and CredSSP. HAProxy, too, takes all schemes that begin with Nego or NTLM. Servers check Basic, Digest, Bearer and the like in
 * each request.
 */
const SCHEME = '(?:(?:nego|ntlm)[a-z0-9]*|kerberos|credssp)'
const SCHEMES = new RegExp(`(?:^|[\\s,])${SCHEME}(?=$|[\\s,])`, 'i')

/**
 * Whether credentials (RFC 9110 section 11.4) authenticate the connection on which they are sent.
 *
 * # Facts
 * - NTLM, Negotiate (RFC 4559), Kerberos and CredSSP authenticate a connection, against RFC 9110 section 11: the server answers later
 *   requests on it for the user whose handshake it was. Those requests do not show it.
 * - A handshake takes two or three requests on one connection: a 401 with a token in WWW-Authenticate asks for the next of them.
 * - After a handshake a client sends its further requests over the same connection, without credentials.
 * - A proxy in front of us sends requests of many users over one connection.
 */
export function bindsConnection(credentials: string | undefined): boolean {
  return credentials !== undefined && SCHEMES.test(credentials)
}

/**
 * Whether credentials are a step of a handshake and nothing more, so that the server checks the user again. Of `Basic YQ==, Negotiate` it
 * may read only the first, and answer for the user of the connection.
 */
export function isHandshakeStep(credentials: string | undefined): boolean {
  return credentials !== undefined && STEP.test(credentials)
}

const STEP = new RegExp(`^${SCHEME} +[A-Za-z0-9+/_-]+=*$`, 'i')

/** Whether a response says that its connection is, or can be, authenticated (RFC 9110 sections 11.6.1 and 11.7.1). */
export function offersBinding(fields: Fields): boolean {
  return (
    bindsConnection(fields.get('WWW-Authenticate')) ||
    bindsConnection(fields.get('Proxy-Authenticate')) ||
    // With this the server says that it knows the user by the connection from now on, whatever the name of the scheme (MS-N2HT section
    // 3.2.5).
    /^\s*true\s*$/i.test(fields.get('Persistent-Auth') ?? '')
  )
}

/** Whether a response asks for the next step of a handshake: it has a token of such a scheme. */
export function continuesHandshake(status: number, fields: Fields): boolean {
  return status === 401 && HANDSHAKE.test(fields.get('WWW-Authenticate') ?? '')
}

const HANDSHAKE = new RegExp(`(?:^|[\\s,])${SCHEME} +[A-Za-z0-9+/_-]+=*(?=$|[\\s,])`, 'i')
