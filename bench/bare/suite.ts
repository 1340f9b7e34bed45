/**
 * A suite over files of the bench: a Release file and an index of 60,000 packages, of which some can be had.
 */
import { createHash } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { type Content, type Contents, pathOf } from './content.ts'

export const suite = '/debian/dists/bench'
const index = 'main/binary-all/Packages.gz'
export const suitePaths = [`${suite}/InRelease`, `${suite}/${index}`] as const
export const indexed = 60_000
/** Packages that can be had, and their bytes. */
export const verified = { count: 4, bytes: 100_000_000 }

/** The path of a package that the index names and that can be had. */
export function verifiedPath(n: number): string {
  return pathOf(verified.bytes, `verified-${n}`)
}

/** The path of a small package that the index names and that can be had. */
export const verifiedSmallPath: string = pathOf(40_000, 'verified-small')

/** The files of the suite by path. Made in about three seconds. */
export function suiteFiles(contents: Contents): ReadonlyMap<string, Content> {
  const stanzas = Array.from({ length: indexed }, (_, n) => {
    const path = pathOfNth(n)
    const hash = createHash('sha256')
    const content = n <= verified.count ? (contents.of(path) ?? []) : [Buffer.from(path)]
    for (const piece of content) hash.update(piece)
    const size = content.reduce((sum, piece) => sum + piece.length, 0)
    return stanza({ n, path, size, digest: hash.digest('hex') })
  })
  const packed = gzipSync(stanzas.join('\n'))
  const digest = createHash('sha256').update(packed).digest('hex')
  const date = 'Wed, 01 Jan 2025 00:00:00 UTC'
  const release = `Suite: bench\nDate: ${date}\nSHA256:\n ${digest} ${packed.length} ${index}\n`
  const nothing = Buffer.alloc(0)
  return new Map([
    [suitePaths[0], [Buffer.from(release), nothing]],
    [suitePaths[1], [packed, nothing]],
  ])
}

function pathOfNth(n: number): string {
  if (n === verified.count) return verifiedSmallPath
  return n < verified.count ? verifiedPath(n) : pathOf(1000 + n, `indexed-${n}`)
}

/** As long as those of Debian are. */
function stanza(of: { n: number; path: string; size: number; digest: string }): string {
  const words =
    createHash('sha512')
      .update(String(of.n))
      .digest('hex')
      .match(/.{1,7}/g) ?? []
  return `Package: bench-${of.n}
Version: 1.0-${of.n}
Installed-Size: ${of.size >> 10}
Maintainer: Bench <bench@example.org>
Architecture: all
Depends: libc6 (>= 2.36), ${words.slice(0, 5).join(', ')}
Description: ${words.slice(5, 12).join(' ')}
Homepage: https://example.org/${words[12]}
Description-md5: ${of.digest.slice(0, 32)}
Section: misc
Priority: optional
Filename: ${of.path.slice('/debian/'.length)}
Size: ${of.size}
SHA256: ${of.digest}
`
}
