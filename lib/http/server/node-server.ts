/**
 * Makes Node's HTTP server, for plain connections or TLS, with our limits.
 */
import { createServer, type Server } from 'node:http'
import { createServer as createSecureServer, type Server as SecureServer } from 'node:https'
import type { SecureContext } from 'node:tls'
import type { Milliseconds } from '../../async/clock.ts'

/** A certificate with its key, PEM; after the certificate may follow those between it and its root. */
export interface KeyAndCertificate {
  readonly key: string
  readonly cert: string
}

/** What a listener for TLS needs. */
export interface TlsOptions {
  /** For clients that name no host, and for hosts `contextFor` has nothing for. */
  readonly identity: KeyAndCertificate
  /** What answers for the host a client names (SNI). Undefined: `identity` does. */
  readonly contextFor: (host: string) => Promise<SecureContext | undefined>
}

export interface NodeServerOptions {
  /** Bytes of a request head. */
  readonly head: number
  readonly headTime: Milliseconds
  readonly requestTime: Milliseconds
  readonly idle: Milliseconds
  readonly connections: number
  readonly stalled: Milliseconds
}

/** TLS 1.2 or newer, HTTP/1.1 alone. */
export const tlsRules = { minVersion: 'TLSv1.2', ALPNProtocols: ['http/1.1'] } as const

/** What to answer when Node's parser refuses a head with this code. */
export function headProblem(code: string): { readonly status: number; readonly sentence: string } {
  const [status, sentence] = headProblems[code] ?? [
    400,
    'This is not an HTTP request that can be understood.',
  ]
  return { status, sentence }
}

const headProblems: Readonly<Record<string, readonly [status: number, sentence: string]>> = {
  HPE_HEADER_OVERFLOW: [431, 'The fields of this request are larger than this server takes.'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'The request did not arrive in time.'],
  HPE_INVALID_METHOD: [501, 'This method is not known here.'],
}

export function nodeServer(limits: NodeServerOptions, tls?: TlsOptions): Server | SecureServer {
  const options = {
    maxHeaderSize: limits.head,
    headersTimeout: limits.headTime,
    requestTimeout: limits.requestTime,
    keepAliveTimeout: limits.idle,
    connectionsCheckingInterval: Math.min(5000, limits.headTime),
    noDelay: true,
    requireHostHeader: false,
    insecureHTTPParser: false,
  }
  const server =
    tls === undefined
      ? createServer(options)
      : createSecureServer({
          ...options,
          ...tls.identity,
          ...tlsRules,
          ALPNProtocols: [...tlsRules.ALPNProtocols],
          handshakeTimeout: limits.headTime,
          SNICallback: (host, done) => {
            tls.contextFor(host).then(context => done(null, context), done)
          },
        })
  server.maxHeadersCount = 0
  server.maxConnections = limits.connections
  server.timeout = limits.stalled
  return server
}
