/**
 * The name by which Via tells one cachesvc from the others, so that a request which comes back is found.
 */
import { randomBytes } from 'node:crypto'

export function newPseudonym(): string {
  return `cachesvc-${randomBytes(4).toString('hex')}`
}

/** What all of them are called. */
export const pseudonyms = /^cachesvc-[0-9a-f]{8}$/
