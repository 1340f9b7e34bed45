/**
 * Finds the places in package.json that a release must not have: names that RFC 2606 and RFC 6761 reserve for examples, and none.
 */
import { isRecord } from '../../lib/json.ts'

const reserved =
  /(?:^|[@/.])(?:example\.(?:org|com|net)|[\w-]+\.(?:example|invalid|test)|localhost)(?![\w.-])/i

/** The fields of a manifest that name no place, or a reserved one: the project page, the repository, and both contacts. */
export function placeholdersOf(
  manifest: unknown,
): ReadonlyArray<{ readonly field: string; readonly value: string }> {
  const at = (value: unknown, name: string) => (isRecord(value) ? value[name] : undefined)
  const places: readonly (readonly [string, unknown])[] = [
    ['homepage', at(manifest, 'homepage')],
    ['repository.url', at(at(manifest, 'repository'), 'url')],
    ['bugs.email', at(at(manifest, 'bugs'), 'email')],
    ['author', at(manifest, 'author')],
  ]
  return places.flatMap(([field, value]) => {
    const text = typeof value === 'string' ? value : 'is missing'
    return typeof value !== 'string' || value === '' || reserved.test(value)
      ? [{ field, value: text }]
      : []
  })
}
