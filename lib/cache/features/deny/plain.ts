/**
 * Package files in whatever spelling a client asks for them. This file is pure.
 *
 * # Facts
 * - Servers take an escaped slash for a slash, and some redirect a path with a slash at its end to the file. Servers of artifacts cut a
 *   segment at a semicolon.
 */
import type { TargetUri } from '../../../http/message/target.ts'
import type { NamedPackage } from '../../archive/package-file.ts'
import { decodedOnce } from '../../archive/path.ts'
import { canonicalUri } from '../../store/key.ts'

/** What a name, or an index, says of a package. */
export type PackageFacts = Pick<NamedPackage, 'name' | 'version' | 'architecture' | 'directory'>

/** The target without a query, in the spelling that all those have in common. */
export function plainUri({ query: _query, ...uri }: TargetUri): TargetUri {
  const path = decodedOnce(uri.path.replace(/;[^/]*/g, '')).replaceAll('%', '%25')
  const plain = canonicalUri({ ...uri, path }) ?? uri
  return { ...plain, path: plain.path.replace(/\/$/, '') }
}
