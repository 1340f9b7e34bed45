/**
 * The name of one cachesvc in Via. It differs from instance to instance, so that each finds requests that come back to it.
 */
import { randomBytes } from 'node:crypto'

export function newPseudonym(): string {
  return `cachesvc-${randomBytes(4).toString('hex')}`
}

/** The form of these names. */
export const pseudonyms = /^cachesvc-[0-9a-f]{8}$/
