/**
 * Handles values that may be ready already: the next step runs at once if they are, else when they are.
 */

/** `next` of the value: the result when the value is there, a promise of it otherwise. */
export function whenReady<Value, Result>(
  value: Value | Promise<Value>,
  next: (value: Value) => Result | Promise<Result>,
): Result | Promise<Result> {
  return value instanceof Promise ? value.then(next) : next(value)
}
