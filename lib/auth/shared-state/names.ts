/**
 * The names of all keys that an instance has in the shared store. They have one hash tag, so that a cluster keeps them on one node, and one
 * prefix, so that an access list can name them. Pure.
 */
import { createHash } from 'node:crypto'

export type StoreNames = Readonly<ReturnType<typeof storeNames>>

/** The keys of an instance. They are the same on each machine that has an instance of that name. */
export function storeNames(instance: string) {
  const prefix = `{authproxy:${instance}}:`
  const hashed = (kind: string) => (text: string) => `${prefix}${kind}:${digest(text)}`
  return {
    prefix,
    /** The stream of ended sessions. */
    stream: `${prefix}revocations`,
    /** The key that a connection writes to check that it may write. */
    probe: (who: string) => `${prefix}probe:${who}`,
    revoked: (mark: string) => `${prefix}revoked:${mark}`,
    used: (mark: string) => `${prefix}used:${mark}`,
    form: hashed('form'),
    formsOf: hashed('forms-of'),
    /** The names of all counts. */
    counts: `${prefix}counts`,
    tries: hashed('tries'),
    tokens: hashed('tokens'),
    failures: (sender: string) => `${prefix}failures:${sender}`,
  }
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('base64url').slice(0, 22)
}
