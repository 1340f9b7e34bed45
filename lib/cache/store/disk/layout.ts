/**
 * Names of files in the cache directory (docs/disk-layout.md). Knows paths, touches no disk.
 */
import { createHash, randomBytes } from 'node:crypto'
import { basename, join } from 'node:path'

/** The layout this program reads and writes; it stands in the path, so versions never mix. */
export const layoutVersion = 1

/** How the files below `tmp/` end. */
export const temporarySuffix = '.part'

/** First line of CACHEDIR.TAG, fixed by the Cache Directory Tagging Specification: back-up programs skip such directories. */
export const cacheDirectoryTag = `Signature: 8a477f597d28d172789f06886806bc55
# This directory holds copies of files from package archives, kept by cachesvc.
# Whatever is lost here is fetched again. See https://bford.info/cachedir/
`

const DIGEST = /^[0-9a-f]{64}$/

/** Whether a text is a SHA-256 in lower-case hex: the name of a blob, and of an entry before its `.json`. */
export function isDigest(text: string): boolean {
  return DIGEST.test(text)
}

/** What stands in an entry's file name: the SHA-256 of its key. */
export function entryName(key: string): string {
  return createHash('sha256').update(key).digest('hex')
}

/** What stands in the name of a file among entries; undefined when it is no entry's, and then not ours to read. */
export function nameOfEntryFile(file: string): string | undefined {
  const name = basename(file, '.json')
  return file.endsWith('.json') && isDigest(name) ? name : undefined
}

/** The places of one cache directory. */
export class Layout {
  readonly directory: string
  readonly tag: string
  readonly root: string
  readonly entries: string
  readonly blobs: string
  readonly temporary: string
  /** The log of entries, and the snapshot of its index. */
  readonly log: string
  readonly snapshot: string

  constructor(directory: string) {
    this.directory = directory
    this.tag = join(directory, 'CACHEDIR.TAG')
    this.root = join(directory, `v${layoutVersion}`)
    this.entries = join(this.root, 'entries')
    this.blobs = join(this.root, 'blobs')
    this.temporary = join(this.root, 'tmp')
    this.log = join(this.root, 'entries.log')
    this.snapshot = join(this.root, 'entries.index')
  }

  /** The file of the entry under `key`. */
  entry(key: string): string {
    const name = entryName(key)
    return join(this.entries, shardOf(name), `${name}.json`)
  }

  /** The file of the content with this SHA-256, given in lower-case hex. */
  blob(digest: string): string {
    return join(this.blobs, shardOf(digest), digest)
  }

  /** A new name in `tmp/`. */
  temporaryFile(): string {
    return join(this.temporary, `${randomBytes(16).toString('hex')}${temporarySuffix}`)
  }
}

/** The directory a name lies in: its first two digits, so that no directory grows too long to list. */
export function shardOf(name: string): string {
  return name.slice(0, 2)
}

/** All 256 of them, in order. */
export const shards: readonly string[] = Array.from({ length: 256 }, (_, i) =>
  i.toString(16).padStart(2, '0'),
)
