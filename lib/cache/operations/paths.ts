/**
 * The paths of the operations interface. They are its own on every listener and for every host a request names. Pure. Paths are
 * compared byte for byte: they are case-sensitive and have one spelling.
 */

/** Where the pages live. */
export const operationsPrefix = '/_cachesvc'

const standardPaths: ReadonlySet<string> = new Set([
  '/',
  '/robots.txt',
  '/favicon.ico',
  '/.well-known/security.txt',
])

/** Whether a path belongs to the operations interface, known or not: these exact ones, and all below the prefix. */
export function isOperationsPath(path: string): boolean {
  return (
    path === operationsPrefix || path.startsWith(`${operationsPrefix}/`) || standardPaths.has(path)
  )
}

/** `OPTIONS *` asks about the whole server (RFC 9110 section 9.3.7). */
export const wholeServer = '*'

/** Where OPTIONS is answered with the health of the service: checks of load balancers ask so, HAProxy's for `/` unless told. */
export const healthCheckPaths: ReadonlySet<string> = new Set([
  '/',
  wholeServer,
  `${operationsPrefix}/healthz`,
])
