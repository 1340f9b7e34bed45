/**
 * Tells whether a stored Release file names content by a digest that a client asks for: it can make any digest up.
 */
import { iterate } from '../../bytes/source.ts'
import { decodedUrl, parentOf } from '../archive/path.ts'
import { maxReleaseBytes, readRelease } from '../archive/release.ts'
import type { Entry } from '../store/entry.ts'
import type { Store } from '../store/store.ts'

/** Whether it does so in the directory that the key of an index is for. Rejects when it cannot be read. */
export async function namesDigest(
  store: Pick<Store, 'content'>,
  release: Entry,
  { key, hex }: { readonly key: string; readonly hex: string },
): Promise<boolean> {
  const bytes = await bytesOf(store, release)
  if (!bytes.includes(hex) && !bytes.includes(hex.toUpperCase())) return false
  const base = decodedUrl(parentOf(release.key))
  const directory = decodedUrl(key)?.replace(/\/by-hash\/[^/]+\/[^/]+$/, '')
  return [...(readRelease(bytes).release?.files.values() ?? [])].some(
    ({ path, digests }) =>
      parentOf(`${base}/${path}`) === directory && Object.values(digests).includes(hex),
  )
}

/** Nothing of one that is too long. */
async function bytesOf(store: Pick<Store, 'content'>, release: Entry): Promise<Buffer> {
  const content = release.size > maxReleaseBytes ? undefined : await store.content(release)
  if (content?.kind === 'bytes') return content.bytes
  if (content?.kind !== 'stream') return Buffer.alloc(0)
  const pieces: Buffer[] = []
  for await (const piece of iterate(content.open())) pieces.push(Buffer.from(piece))
  return Buffer.concat(pieces)
}
