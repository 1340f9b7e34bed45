/**
 * Which files the nodes of a bucket share: those that every client of theirs may have, and whose names hold no secret. Pure.
 */
import { parseUri, type TargetUri } from '../../http/message/target.ts'
import type { OriginCredentials } from '../fetch/origin-credentials.ts'
import type { Rules } from '../policy/policy.ts'
import { confinementOf } from '../policy/routing.ts'

export interface SharingRules {
  readonly rules: () => Pick<Rules, 'confinements'>
  /** The credentials that the proxy has for origins. */
  readonly credentials: () => OriginCredentials
}

/**
 * Whether the file of a target is shared. One of an archive with `clients` or `credentials` is not: who can read the bucket could have it.
 * Nor is one with a query, which can carry a signature.
 */
export function isShareable(uri: TargetUri, { rules, credentials }: SharingRules): boolean {
  if (uri.query !== undefined || uri.userinfo !== undefined) return false
  if (confinementOf(uri, rules().confinements) !== undefined) return false
  return credentials().of(uri) === undefined
}

/** The same for a key; one that is no address of a file is not shared, such as that of a file that waits to take the place of another. */
export function isShareableKey(key: string, parts: SharingRules): boolean {
  if (key.includes('#')) return false
  const uri = parseUri(key)
  return !('problem' in uri) && isShareable(uri, parts)
}
