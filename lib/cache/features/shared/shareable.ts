/**
 * Decides which files the nodes of a bucket share: files that every client of theirs may have, and whose names have no secret. This file is
 * pure.
 */
import { parseUri, type TargetUri } from '../../../http/message/target.ts'
import type { OriginCredentials } from '../../fetch/origin-credentials.ts'
import type { Rules } from '../../policy/policy.ts'
import { confinementOf } from '../../policy/routing.ts'

export interface SharingRules {
  readonly rules: () => Pick<Rules, 'confinements'>
  /** The credentials that the proxy has for origins. */
  readonly credentials: () => OriginCredentials
}

/**
 * Whether the file of a target is shared. A file of an archive with `clients` or `credentials` is not shared, because every reader of the
 * bucket could have it. A target with a query is not shared, because a query can have a signature.
 */
export function isShareable(uri: TargetUri, { rules, credentials }: SharingRules): boolean {
  if (uri.query !== undefined || uri.userinfo !== undefined) return false
  if (confinementOf(uri, rules().confinements) !== undefined) return false
  return credentials().of(uri) === undefined
}

/** The same for a key. A key that is not the address of a file is not shared, such as that of a new Release file before it replaces the old one. */
export function isShareableKey(key: string, parts: SharingRules): boolean {
  if (key.includes('#')) return false
  const uri = parseUri(key)
  return !('problem' in uri) && isShareable(uri, parts)
}
