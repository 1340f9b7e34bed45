/**
 * Handles values that may be ready already: then the next step runs at once.
 */

/** The result of `next` for the value. It is a promise only when the value or the result is one. */
export function continueWhenReady<Value, Result>(
  value: Value | Promise<Value>,
  next: (value: Value) => Result | Promise<Result>,
): Result | Promise<Result> {
  return value instanceof Promise ? value.then(next) : next(value)
}
