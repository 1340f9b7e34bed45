/**
 * Values from outside, as `JSON.parse` and the YAML parser give them, before a decoder has checked them.
 */

/** An object with named members whose values are not known yet. */
export type JsonObject = Readonly<Record<string, unknown>>

/** Whether a value is an object with named members, rather than a list, a single value or null. */
export function isRecord(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
