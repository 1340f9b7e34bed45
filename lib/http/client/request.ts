/**
 * A request for an origin, the message it becomes on the wire, and the response: Host, framing (RFC 9112 section 6) and the
 * fields of one hop (RFC 9110 section 7.6.1) are written here and nowhere else.
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
import type { DialDeadlines } from './dialling/dialler.ts'
import { type Parent, proxyAuthorization } from './dialling/parents.ts'
import { OriginFailure } from './errors.ts'

export interface OriginDeadlines extends DialDeadlines {
  /** For a connection to become free when the origin has as many as it may. */
  readonly queue: Milliseconds
  /** For the origin to take each piece of the request. */
  readonly send: Milliseconds
  /** From the request's last byte to the end of the response head, interim responses included. */
  readonly fields: Milliseconds
  /** The longest silence within the content, while we are reading. */
  readonly content: Milliseconds
}

/** Which of the connections to an origin; those of one line are never used by the other. */
export type ConnectionLine = 'shared' | 'passed'

export interface OriginRequest {
  readonly method: string
  /** Its userinfo is not sent. */
  readonly uri: TargetUri
  /** End-to-end fields. Host, Connection, framing and the fields of one hop are written here; any given are left out. */
  readonly fields: Fields
  readonly content?: Content
  /**
   * Credentials of ours for the origin alone, the value of Authorization. The request fails where a parent proxy could read them. They take
   * the place of a field of that name.
   */
  readonly authorization?: string | undefined
  /** Ends the request in whatever phase it is, its content included. */
  readonly signal?: AbortSignal | undefined
  /** The same without the cost of a signal: its end is the request's end. */
  readonly within?: Lifetime | undefined
  /** Whether the host is listed by name and may be at any address, or only at public ones. */
  readonly trusted: boolean
  /**
   * Whose connections it uses: the shared ones unless told. A client that reads slowly what is `passed` to it alone keeps its
   * connection for as long, and must not keep it from the others. Nor may strangers, of whom a gateway knows no session.
   */
  readonly line?: ConnectionLine
  /** Whether only a new connection will do: behind the name of an origin each may lead to another server. */
  readonly fresh?: boolean | undefined
  /** IP address of the client that asks, so that clients take turns at connections; undefined: all are one. */
  readonly client?: string | undefined
  /** Whom a connection belongs to that authentication binds; without one it is closed after the response. */
  readonly owner?: ConnectionOwner | undefined
  readonly deadlines?: Partial<OriginDeadlines> | undefined
  /** Host field, when it is to differ from the host of the URI: a gateway hands on the one it was asked for. */
  readonly host?: string | undefined
  /** Whether trailer fields of the response are of use (RFC 9110 section 10.1.4). */
  readonly trailers?: boolean
  /** The longest wait for 100 (Continue) before the content is sent all the same; undefined: it is sent at once, without Expect. */
  readonly awaitContinue?: Milliseconds | undefined
  readonly onInterim?: SendInterim | undefined
}

/** The content of a response. */
export interface OriginSource extends Source {
  /** All of it, when it came with the head and is small, but not nothing; asking for it reads it. */
  whole?(): Buffer | undefined
}

/** The head as it came, fields of the connection included, and the content to come. */
export interface OriginResponse extends ResponseHead {
  /** Bytes of content to come, 0 for HEAD, 204 and 304; undefined when only the end will tell. */
  readonly length: number | undefined
  /** Read it to its end or close it: until then the connection may be taken. Breaks off with an OriginFailure. */
  readonly content: OriginSource
  /** Trailer fields, once the content has been read to its end. */
  readonly trailers: (() => Fields) | undefined
  /** IP address of the origin, or of the parent proxy. */
  readonly address: string
  /** Host and port of the parent proxy by which it came; undefined when it came directly. */
  readonly parent: string | undefined
  /** Whether it came over a connection that an earlier request had used. */
  readonly reused: boolean
}

/** A connection whose protocol the origin has changed (101); bytes behind the response are the first to be read from it. */
export interface OriginSwitched extends DialledConnection {
  /** Fields of the 101 response. */
  readonly fields: Fields
}

/** A request as it goes on the wire. */
export interface WireRequest extends Pick<OriginRequest, 'method' | 'awaitContinue' | 'onInterim'> {
  /** Request line and fields, latin1. */
  readonly head: string
  readonly content: Content
  /** Whether a change of protocol (101) is asked for; it is an error otherwise. */
  readonly upgrade: boolean
  /** Whether it has credentials that authenticate the connection, for the origin or for the parent proxy. */
  readonly binds: boolean
}

/** The message as the next hop is to get it; `upgrade` asks for WebSocket. Throws a TypeError for what cannot be written. */
export function onWire(
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

/** Most requests have the host of the one before. */
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

/** What most requests have. */
const KEEP_ALIVE = Fields.lasting(['Connection', 'keep-alive'])

function isTheirs(name: string): boolean {
  return name.length > LONGEST_OURS || !OURS.has(name.toLowerCase())
}

/** Fields of one hop, of framing, and those we write ourselves. Expect is ours to write when we wait. */
const OURS: ReadonlySet<string> = new Set([
  ...['host', 'connection', 'keep-alive', 'proxy-connection', 'proxy-authorization', 'te'],
  ...['transfer-encoding', 'trailer', 'upgrade', 'content-length', 'expect'],
])

/** Copies in lower case of a megabyte of names take milliseconds. */
const LONGEST_OURS = Math.max(...[...OURS].map(name => name.length))

/** RFC 9112 section 6; methods that define content for requests say so when there is none (RFC 9110 section 8.6). */
function framing(method: string, content: Content): string[] {
  const length = lengthOf(content)
  if (length === undefined) return ['Transfer-Encoding', 'chunked']
  const implied = content.kind === 'none' && !['POST', 'PUT', 'PATCH'].includes(method)
  return implied ? [] : ['Content-Length', String(length)]
}

/** Whom a bound connection belongs to. */
export interface ConnectionOwner {
  /** The client's connection, which ends when that is closed. */
  readonly connection: Lifetime
  /** Who asks on it, the same text for the same user alone; undefined when that is not known. */
  readonly identity: string | undefined
}

/**
 * Schemes that authenticate the connection: of IIS and SharePoint NTLM, Negotiate and its relatives (Nego2, MS-N2HT), of WinRM Kerberos and
 * CredSSP besides. HAProxy, too, takes all that begin with Nego or NTLM. Basic, Digest, Bearer and the like are looked at in each request.
 */
const SCHEME = '(?:(?:nego|ntlm)[a-z0-9]*|kerberos|credssp)'
const SCHEMES = new RegExp(`(?:^|[\\s,])${SCHEME}(?=$|[\\s,])`, 'i')

/**
 * Which credentials and challenges authenticate a connection, and whom such a connection belongs to. Pure.
 *
 * # Facts
 * - NTLM, Negotiate (RFC 4559), Kerberos and CredSSP authenticate a connection, against RFC 9110 section 11: what is asked on it
 *   afterwards is answered for the user who shook hands there. Nothing in those later requests shows it.
 * - A handshake takes two or three requests on one connection: a 401 with a token in WWW-Authenticate asks for the next of them.
 * - A client that has shaken hands sends its further requests over the same connection of its own, without credentials.
 * - A proxy in front of us sends requests of many users over one connection.
 *
 * Whether credentials (RFC 9110 section 11.4) authenticate the connection they are sent on.
 */
export function bindsConnection(credentials: string | undefined): boolean {
  return credentials !== undefined && SCHEMES.test(credentials)
}

/**
 * Whether credentials are a step of a handshake, and nothing besides: the server looks at who asks anew. Of `Basic YQ==, Negotiate` it
 * may read the first alone, and answer for the user it knows the connection by.
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
    // The server says that it knows the user by the connection from now on, whatever the scheme was called (MS-N2HT section 3.2.5).
    /^\s*true\s*$/i.test(fields.get('Persistent-Auth') ?? '')
  )
}

/** Whether a response asks for the next step of a handshake: it has a token of such a scheme. */
export function continuesHandshake(status: number, fields: Fields): boolean {
  return status === 401 && HANDSHAKE.test(fields.get('WWW-Authenticate') ?? '')
}

const HANDSHAKE = new RegExp(`(?:^|[\\s,])${SCHEME} +[A-Za-z0-9+/_-]+=*(?=$|[\\s,])`, 'i')
