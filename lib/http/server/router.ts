/**
 * A table from exact paths to handlers, RFC 9110 sections 9.1 and 15.5. The handler of GET answers HEAD. A known path with another method
 * gets 405 with Allow. The caller answers an unknown path.
 */
import { Fields } from '../message/field.ts'
import type { Request, Response } from '../message/message.ts'
import { textResponse, withoutContent } from '../message/reply.ts'

export interface Route {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly handle: (request: Request) => Promise<Response>
}

/** Builds the table once. The router's answer is undefined for a path that no route names. */
export function router(
  routes: readonly Route[],
): (request: Request, path: string) => Promise<Response> | undefined {
  const table = new Map<string, Map<string, Route['handle']>>()
  for (const { method, path, handle } of routes) {
    const methods = table.get(path) ?? new Map<string, Route['handle']>()
    methods.set(method, handle)
    if (method === 'GET')
      methods.set('HEAD', async request => withoutContent(await handle(request)))
    table.set(path, methods)
  }
  return (request, path) => {
    const methods = table.get(path)
    if (methods === undefined) return undefined
    const handle = methods.get(request.method)
    return handle === undefined
      ? Promise.resolve(methodNotAllowed([...methods.keys()]))
      : handle(request)
  }
}

/** Answers GET, and HEAD as GET without the content. Other methods get a response with status 405. */
export function readOnlyResponse(request: Request, answer: () => Response): Response {
  if (request.method === 'GET') return answer()
  return request.method === 'HEAD' ? withoutContent(answer()) : methodNotAllowed(['GET', 'HEAD'])
}

/** A response with status 405 that lists the allowed methods. */
export function methodNotAllowed(allowed: readonly string[]): Response {
  const list = allowed.join(', ')
  return textResponse(405, `This method is not allowed here; allowed: ${list}.`, {
    fields: Fields.of(['Allow', list]),
    facts: { outcome: 'refused', because: 'method' },
  })
}
