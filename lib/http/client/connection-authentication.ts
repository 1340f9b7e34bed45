/**
 * Which credentials and challenges authenticate a connection, and whom such a connection belongs to. Pure.
 *
 * # Facts
 * - NTLM, Negotiate (RFC 4559), Kerberos and CredSSP authenticate a connection, against RFC 9110 section 11: what is asked on it
 *   afterwards is answered for the user who shook hands there. Nothing in those later requests shows it.
 * - A handshake takes two or three requests on one connection: a 401 with a token in WWW-Authenticate asks for the next of them.
 * - A client that has shaken hands sends its further requests over the same connection of its own, without credentials.
 * - A proxy in front of us sends requests of many users over one connection.
 */
import type { Lifetime } from '../../async/lifetime.ts'
import type { Fields } from '../message/field.ts'

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

/** Whether credentials (RFC 9110 section 11.4) authenticate the connection they are sent on. */
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
