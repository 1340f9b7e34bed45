/**
 * What a passthrough token, or the token of a person, is for: paths, methods and clients. Pure.
 */
import type { Fields } from '../../http/message/field.ts'
import { AddressSet } from '../../ip.ts'
import { askedPath, isFor, pathRule } from './path-rule.ts'
import { namedMethods } from './rules.ts'

/** The scope of a token. A part is undefined when the token is not limited in it. */
export type TokenScope = NonNullable<ReturnType<typeof tokenScope>>

/** The scope out of the settings of a token; undefined when it is for everything. */
export function tokenScope(settings: {
  readonly paths: readonly string[] | undefined
  readonly methods: readonly string[] | undefined
  readonly clients: readonly string[] | undefined
}) {
  const { paths, methods, clients } = settings
  if (paths === undefined && methods === undefined && clients === undefined) return undefined
  return {
    paths: paths?.map(pathRule),
    methods: methods && new Set(methods),
    clients: clients && AddressSet.fromCidrs(clients),
  }
}

/** Whether a request is one of those a token is for, by the same comparison as the rules of access. */
export function isInScope(
  { paths, methods, clients }: TokenScope,
  request: {
    readonly method: string
    readonly fields: Fields
    /** The path as it is forwarded. */
    readonly path: string
    readonly query?: string | undefined
    readonly client: string
  },
): boolean {
  if (clients !== undefined && !clients.has(request.client)) return false
  if (methods !== undefined) {
    const asked = [
      request.method === 'HEAD' ? 'GET' : request.method,
      ...namedMethods(request.fields, request.query),
    ]
    if (!asked.every(method => methods.has(method))) return false
  }
  if (paths === undefined) return true
  const path = askedPath(request.path)
  return !path.ambiguous && paths.some(rule => isFor(rule, path))
}
