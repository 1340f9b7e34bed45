/**
 * The digests archives use and the fields that hold them, the strongest digest first. Pure.
 */

export const digests = [
  {
    algorithm: 'sha512',
    digits: 128,
    release: 'SHA512',
    packages: 'SHA512',
    sources: 'Checksums-Sha512',
  },
  {
    algorithm: 'sha256',
    digits: 64,
    release: 'SHA256',
    packages: 'SHA256',
    sources: 'Checksums-Sha256',
  },
  { algorithm: 'sha1', digits: 40, release: 'SHA1', packages: 'SHA1', sources: 'Checksums-Sha1' },
  { algorithm: 'md5', digits: 32, release: 'MD5Sum', packages: 'MD5sum', sources: 'Files' },
] as const

/** One of them: its digits in hex, the fields of Release, Packages and Sources; by-hash directories are named like Release's. */
export type Digest = (typeof digests)[number]

export type DigestAlgorithm = Digest['algorithm']

/** Lower-case hex by algorithm, as far as an index gives them. */
export type Digests = Readonly<Partial<Record<DigestAlgorithm, string>>>

/** The hex in lower case, when the text is a digest of this kind. */
export function readDigest({ digits }: Digest, text: string): string | undefined {
  return text.length === digits && /^[0-9A-Fa-f]+$/.test(text) ? text.toLowerCase() : undefined
}
