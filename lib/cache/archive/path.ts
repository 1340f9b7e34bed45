/**
 * What a path inside an APT archive names. Pure.
 */

/**
 * - pool: a package or source file below `/pool/`, or any file whose name carries its version (`.deb`, `.udeb`, `.dsc`, …)
 * - by-hash: an index addressed by its digest; its content can never change
 * - release: InRelease, Release, Release.gpg
 * - index: Packages, Sources, Contents, Translation, Components, Commands, icons, with or without compression
 * - pdiff: files below `Packages.diff/` and the like; their `Index` is an index
 * - other: everything else, cached with revalidation
 */
export type Kind = 'pool' | 'by-hash' | 'release' | 'index' | 'pdiff' | 'other'

export type DigestAlgorithm = 'md5' | 'sha1' | 'sha256' | 'sha512'

export interface ArchivePath {
  readonly kind: Kind
  /** For by-hash: what the content must hash to, lower-case hex. */
  readonly digest?: { readonly algorithm: DigestAlgorithm; readonly hex: string }
}
