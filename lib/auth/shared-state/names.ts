/**
 * The names of all keys that an instance has in the shared store. They have one hash tag, so that a cluster keeps them on one node, and one
 * prefix, so that an access list can name them. Pure.
 */
import { createHash } from 'node:crypto'

export interface StoreNames {
  readonly prefix: string
  /** The stream of ended sessions. */
  readonly stream: string
  /** The key that a connection writes to check that it may write. */
  readonly probe: (who: string) => string
  readonly revoked: (mark: string) => string
  readonly used: (mark: string) => string
  readonly form: (id: string) => string
  readonly formsOf: (owner: string) => string
  /** The names of all counts. */
  readonly counts: string
  readonly tries: (key: string) => string
  readonly failures: (sender: string) => string
}

/** The keys of an instance. They are the same on each machine that has an instance of that name. */
export function storeNames(instance: string): StoreNames {
  const prefix = `{authproxy:${instance}}:`
  const hashed = (kind: string) => (text: string) => `${prefix}${kind}:${digest(text)}`
  return {
    prefix,
    stream: `${prefix}revocations`,
    probe: who => `${prefix}probe:${who}`,
    revoked: mark => `${prefix}revoked:${mark}`,
    used: mark => `${prefix}used:${mark}`,
    form: hashed('form'),
    formsOf: hashed('forms-of'),
    counts: `${prefix}counts`,
    tries: hashed('tries'),
    failures: sender => `${prefix}failures:${sender}`,
  }
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('base64url').slice(0, 22)
}
