/**
 * What a build got, file by file, as bills of materials want it: the package, its version, and its package URL.
 *
 * # Facts
 * - File names of packages lack the epoch of the version.
 * - A package URL of the type `deb` needs a vendor. The path of an archive tells it for Debian and Ubuntu only.
 */
import { packageFile, packageNamed } from '../../archive/package-file.ts'
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
  const fileName = url.slice(url.lastIndexOf('/') + 1)
  const named = packageFile(url) && packageNamed(url)
  const { name, version, architecture } = named ?? { name: fileName }
  const vendor = /^https?:\/\/[^/]+\/(debian|ubuntu)(?=[/-])/.exec(url)?.[1]
  const purl =
    version !== undefined && vendor !== undefined
      ? `pkg:deb/${vendor}/${encodeURIComponent(name)}@${encodeURIComponent(version)}?arch=${architecture}`
      : undefined
  return { url, digest, fileName, name, version, purl }
}
