/**
 * What the names of package files say: `name_version_architecture.deb`, and `name_version.dsc` for sources. This file is pure.
 *
 * # Facts
 * - The version in a name has no epoch in most archives. Where it has one, the colon may be escaped, and apt escapes the `%` of that again.
 * - In a pool the last directory has the name of the source package.
 */
import { decodedOnce } from './path.ts'

/** The package and the version of a package file. */
export interface PackageFile {
  /** Directory, name and architecture. */
  readonly name: string
  readonly version: string
}

/**
 * Reads a key like `https://host/…/name_version_architecture.deb`; undefined for any other key, such as that of a source or of a name
 * without a version.
 */
export function packageFile(key: string): PackageFile | undefined {
  const { place, name, version, architecture, suffix } = packageNamed(key) ?? {}
  if (version === undefined || architecture === '' || suffix === 'dsc') return undefined
  return { name: `${place}/${name}_${architecture}.${suffix}`, version }
}

/** What the name of a file says of its package. */
export interface NamedPackage {
  readonly name: string
  /** Undefined when the name has none. */
  readonly version: string | undefined
  /** `source` for a .dsc; empty when the name has none. */
  readonly architecture: string
  /** What precedes the name, and the last directory of that. */
  readonly place: string
  readonly directory: string
  readonly suffix: string
}

/** Reads the path of a package file, also of one whose name lacks a version; undefined for any other path. */
export function packageNamed(path: string): NamedPackage | undefined {
  const [, place = '', stem, suffix] =
    /^(?:(.*)\/)?([^/]+)\.([ud]?deb|dsc)$/s.exec(decodedOnce(path)) ?? []
  if (stem === undefined || suffix === undefined) return undefined
  const [name = '', version = '', ...architecture] = decodedOnce(stem).split('_')
  return {
    name,
    version: /^\d/.test(version) ? version : undefined,
    // An architecture can have an underscore, as x86_64 has.
    architecture: suffix === 'dsc' ? 'source' : architecture.join('_'),
    place,
    directory: place.slice(place.lastIndexOf('/') + 1),
    suffix,
  }
}
