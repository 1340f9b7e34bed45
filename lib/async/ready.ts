/**
 * Values that may be there already: what comes next runs at once when they are, and later only when they are not.
 */

/** `next` of the value: the result when the value is there, a promise of it otherwise. */
export function whenReady<Value, Result>(
  value: Value | Promise<Value>,
  next: (value: Value) => Result | Promise<Result>,
): Result | Promise<Result> {
  return value instanceof Promise ? value.then(next) : next(value)
}
