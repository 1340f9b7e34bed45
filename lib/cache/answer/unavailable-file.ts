/**
 * A file that an origin does not have as the Release file of a client names it.
 *
 * # Facts
 * - A client can invent a digest. Then it means nothing that the origin has no file of that name.
 * - Archives name files that they never had, such as Debian's uncompressed indexes, and any client can ask for one. Archives offer names
 *   by some digests and not by others. apt asks for the plain name when there is no file by digest.
 */
import { iterate } from '../../bytes/source.ts'
import type { Logger } from '../../log/log.ts'
import { decodedUrl, parentOf } from '../archive/path.ts'
import { maxReleaseBytes, readRelease } from '../archive/release.ts'
import type { Entry } from '../store/entry.ts'
import type { Store } from '../store/store.ts'
import { baseOf } from '../suites/generation.ts'

/** A file that a client asked for, and that the origin does not have as a Release file names it. */
export interface UnavailableFile {
  readonly key: string
  /** The digest by which the client asked; undefined for a plain name. */
  readonly hex: string | undefined
  /** Whether the origin has no file of that name, so that it may never have had one. If false, it has other content. */
  readonly gone: boolean
}

/** The path of a file in the suite with this key; undefined when its key cannot be decoded. */
export function pathInSuite(at: string, key: string): string | undefined {
  return decodedUrl(key)?.slice(baseOf({ at }).length + 1)
}

/** The path of a file in the suite of a Release file; undefined when the Release file does not name the digest. Never rejects. */
export async function pathOf(
  { key, hex }: UnavailableFile,
  release: Entry,
  { store, log }: { readonly store: Pick<Store, 'content'>; readonly log: Logger },
): Promise<string | undefined> {
  if (hex === undefined) return pathInSuite(parentOf(release.key), key)
  return pathOfDigest(store, release, { key, hex }).catch((error: unknown) => {
    log.warn('a Release file cannot be read', { key: release.key, error })
    return undefined
  })
}

/**
 * The path of the file with this digest in a Release file, in the directory of the index with this key; undefined when there is none.
 * Rejects when the Release file cannot be read.
 */
async function pathOfDigest(
  store: Pick<Store, 'content'>,
  release: Entry,
  { key, hex }: { readonly key: string; readonly hex: string },
): Promise<string | undefined> {
  const bytes = await bytesOf(store, release)
  if (!bytes.includes(hex) && !bytes.includes(hex.toUpperCase())) return undefined
  const base = decodedUrl(parentOf(release.key))
  const directory = decodedUrl(key)?.replace(/\/by-hash\/[^/]+\/[^/]+$/, '')
  return [...(readRelease(bytes).release?.files.values() ?? [])].find(
    ({ path, digests }) =>
      parentOf(`${base}/${path}`) === directory && Object.values(digests).includes(hex),
  )?.path
}

/** The bytes of a Release file; empty when it is too long. */
async function bytesOf(store: Pick<Store, 'content'>, release: Entry): Promise<Buffer> {
  const content = release.size > maxReleaseBytes ? undefined : await store.content(release)
  if (content?.kind === 'bytes') return content.bytes
  if (content?.kind !== 'stream') return Buffer.alloc(0)
  const pieces: Buffer[] = []
  for await (const piece of iterate(content.open())) pieces.push(Buffer.from(piece))
  return Buffer.concat(pieces)
}
