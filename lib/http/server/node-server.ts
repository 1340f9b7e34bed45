/**
 * Makes Node's HTTP server, for plain connections or TLS, with our limits.
 */
import { createServer, type Server } from 'node:http'
import { createServer as createSecureServer, type Server as SecureServer } from 'node:https'
import type { HttpServerLimits, TlsOptions } from './options.ts'

/** TLS 1.2 or newer, HTTP/1.1 alone. */
export const tlsRules = { minVersion: 'TLSv1.2', ALPNProtocols: ['http/1.1'] } as const

/** What to answer when Node's parser refuses a head with this code. */
export function headProblem(code: string): readonly [status: number, sentence: string] {
  return headProblems[code] ?? [400, 'This is not an HTTP request that can be understood.']
}

const headProblems: Readonly<Record<string, readonly [status: number, sentence: string]>> = {
  HPE_HEADER_OVERFLOW: [431, 'The fields of this request are larger than this server takes.'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'The request did not arrive in time.'],
  HPE_INVALID_METHOD: [501, 'This method is not known here.'],
}

export function nodeServer(limits: HttpServerLimits, tls?: TlsOptions): Server | SecureServer {
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
  // `close` would cut the idle ones, and with them requests that have come and are not read.
  server.closeIdleConnections = () => undefined
  server.maxHeadersCount = 0
  server.maxConnections = limits.connections
  return server
}
