/**
 * Exact paths to handlers, RFC 9110 sections 9.1 and 15.5: HEAD is answered from GET, a known path with another method is 405
 * with Allow, an unknown path is left to the caller.
 */
import { Fields } from '../message/field.ts'
import type { Request, Response } from '../message/message.ts'
import { textResponse, withoutContent } from '../message/reply.ts'

/** A handler that is also told what the caller of the router knows, such as the query. */
type RouteHandler<Context> = (request: Request, context: Context) => Promise<Response>

export interface Route<Context = undefined> {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly handle: RouteHandler<Context>
}

/** Builds the table once. The answer of the router is undefined for a path no route names. */
export function router<Context = undefined>(
  routes: ReadonlyArray<Route<Context>>,
): (request: Request, path: string, context: Context) => Promise<Response> | undefined {
  const table = new Map<string, Map<string, RouteHandler<Context>>>()
  for (const { method, path, handle } of routes) {
    const methods = table.get(path) ?? new Map<string, RouteHandler<Context>>()
    methods.set(method, handle)
    if (method === 'GET')
      methods.set('HEAD', async (request, context) =>
        withoutContent(await handle(request, context)),
      )
    table.set(path, methods)
  }
  return (request, path, context) => {
    const methods = table.get(path)
    if (methods === undefined) return undefined
    const handle = methods.get(request.method)
    return handle === undefined
      ? Promise.resolve(methodNotAllowed([...methods.keys()]))
      : handle(request, context)
  }
}

/** What can only be read answers GET, HEAD as GET without the content, and other methods with 405. */
export function readOnly(request: Request, answer: () => Response): Response {
  if (request.method === 'GET') return answer()
  return request.method === 'HEAD' ? withoutContent(answer()) : methodNotAllowed(['GET', 'HEAD'])
}

/** 405 with the methods that would have been allowed. */
export function methodNotAllowed(allowed: readonly string[]): Response {
  const list = allowed.join(', ')
  return textResponse(405, `This method is not allowed here; allowed: ${list}.`, {
    fields: Fields.of(['Allow', list]),
    facts: { outcome: 'refused', because: 'method' },
  })
}
