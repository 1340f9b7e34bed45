/**
 * The paths of the operations interface. They belong to it on every listener and for every host that a request names. Paths are
 * compared byte for byte: they are case-sensitive and have one spelling.
 */

/** The beginning of the paths of the pages. */
export const operationsPrefix = '/_cachesvc'

const standardPaths: ReadonlySet<string> = new Set([
  '/',
  '/robots.txt',
  '/favicon.ico',
  '/.well-known/security.txt',
])

/** Whether a path belongs to the operations interface, even if it has no page: the standard paths, and all below the prefix. */
export function isOperationsPath(path: string): boolean {
  return (
    path === operationsPrefix || path.startsWith(`${operationsPrefix}/`) || standardPaths.has(path)
  )
}

/** `OPTIONS *` asks about the whole server (RFC 9110 section 9.3.7). */
export const wholeServer = '*'

/** The paths where OPTIONS gets the health of the service. Load balancers check so; HAProxy asks for `/` by default. */
export const healthCheckPaths: ReadonlySet<string> = new Set([
  '/',
  wholeServer,
  `${operationsPrefix}/healthz`,
])
