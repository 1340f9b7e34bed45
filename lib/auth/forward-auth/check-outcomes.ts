/**
 * What becomes of the checks of an edge.
 */

/** For the log and the counters. */
export const checkOutcomes = [
  'allowed',
  'login',
  'renewal',
  'unauthenticated',
  'refused',
  'misrouted',
  'probe',
  'malformed',
  'failed',
] as const

export type CheckOutcome = (typeof checkOutcomes)[number]
