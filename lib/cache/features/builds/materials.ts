/**
 * What a build got, file by file, as bills of materials want it: the package, its version, and its package URL.
 *
 * # Facts
 * - File names of packages lack the epoch of the version.
 * - A package URL of the type `deb` needs a vendor. The path of an archive tells it for Debian and Ubuntu only.
 */
import { packageFile } from '../../archive/package-file.ts'
import { type Build, type GivenFile, isFile } from './build.ts'

export interface Material {
  readonly url: string
  /** SHA-256, lower-case hex. */
  readonly digest: string
  readonly fileName: string
  /** The name of the package, or that of the file. */
  readonly name: string
  readonly version: string | undefined
  readonly purl: string | undefined
}

/** The files that a build got, sorted by URL. Its 404s and redirects are left out. */
export function materialsOf({ answers }: Build): readonly Material[] {
  return [...answers]
    .flatMap(([url, answer]) => (isFile(answer) ? [materialOf(url, answer)] : []))
    .sort((a, b) => (a.url < b.url ? -1 : 1))
}

function materialOf(url: string, { digest }: GivenFile): Material {
  const found = packageFile(url)
  const fileName = url.slice(url.lastIndexOf('/') + 1)
  const [, name = fileName, architecture] =
    /^([^_]+)_([^_]+)\.u?deb$/.exec(found?.name.split('/').at(-1) ?? '') ?? []
  const vendor = /^https?:\/\/[^/]+\/(debian|ubuntu)(?=[/-])/.exec(url)?.[1]
  const purl =
    found !== undefined && vendor !== undefined && architecture !== undefined
      ? `pkg:deb/${vendor}/${encodeURIComponent(name)}@${encodeURIComponent(found.version)}?arch=${architecture}`
      : undefined
  return { url, digest, fileName, name, version: found?.version, purl }
}
