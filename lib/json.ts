/**
 * JSON as text, and checks of values as `JSON.parse` and the YAML parser give them.
 */
import { attempt } from './errors.ts'

/** A value as JSON for people: indented, with a line end. */
export function jsonText(value: unknown): string {
  return `${JSON.stringify(value, undefined, 2)}\n`
}

/** The value of a text; undefined when it is not JSON. */
export function parsedJson(text: string): unknown {
  return attempt((): unknown => JSON.parse(text))
}

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
