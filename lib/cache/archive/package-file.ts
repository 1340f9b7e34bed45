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

/** Reads a key like `https://host/…/name_version_architecture.deb`; undefined for any other key. */
export function packageFile(key: string): PackageFile | undefined {
  const slash = key.lastIndexOf('/')
  const file = decodedOnce(key.slice(slash + 1))
  const [, name, version, rest] = PACKAGE.exec(file) ?? []
  if (name === undefined || version === undefined || rest === undefined) return undefined
  return { name: `${key.slice(0, slash)}/${name}_${rest}`, version }
}

/** deb-version(7): a version begins with a digit. */
const PACKAGE = /^([a-z0-9][a-z0-9+.-]*)_([0-9][A-Za-z0-9.+~:-]*)_([A-Za-z0-9-]+\.u?deb)$/

/** What the name of a file says of its package. */
export interface NamedPackage {
  readonly name: string
  /** Undefined when the name has none. */
  readonly version: string | undefined
  /** `source` for a .dsc. */
  readonly architecture: string | undefined
  /** The last directory of the path. */
  readonly directory: string
}

/** Reads the path of a package file, also of one whose name lacks a version; undefined for any other path. */
export function packageNamed(path: string): NamedPackage | undefined {
  const [directory = '', file = ''] = decodedOnce(path).split('/').slice(-2)
  const [, stem = '', suffix] = /^(.+)\.([ud]?deb|dsc)$/.exec(file) ?? []
  const [name, version, architecture] = decodedOnce(stem).split('_')
  if (name === undefined || suffix === undefined) return undefined
  return {
    name,
    version: /^\d/.test(version ?? '') ? version : undefined,
    architecture: suffix === 'dsc' ? 'source' : architecture,
    directory,
  }
}
