/**
 * Checks of values that `JSON.parse` or the YAML parser has returned.
 */

/** An object with named members whose values are unknown. */
export type JsonObject = Readonly<Record<string, unknown>>

/** Whether a value is a count: whole, not negative, and exact. */
export function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}

/** Whether a value is an object with named members, not a list, a single value or null. */
export function isRecord(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
