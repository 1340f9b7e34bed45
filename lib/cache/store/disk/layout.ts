/**
 * Names of files in the cache directory (docs/disk-layout.md). Knows paths, touches no disk.
 */
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'

/** The layout this program reads and writes; it stands in the path, so versions never mix. */
export const layoutVersion = 2

/** How the files of downloads below `tmp/` end. */
export const temporarySuffix = '.part'

/** First line of CACHEDIR.TAG, fixed by the Cache Directory Tagging Specification: back-up programs skip such directories. */
export const cacheDirectoryTag = `Signature: 8a477f597d28d172789f06886806bc55
# This directory holds copies of files from package archives, kept by cachesvc.
# Whatever is lost here is fetched again. See https://bford.info/cachedir/
`

const DIGEST = /^[0-9a-f]{64}$/

/** Whether a text is a SHA-256 in lower-case hex: the name of a blob. */
export function isDigest(text: string): boolean {
  return DIGEST.test(text)
}

/** The places of one cache directory. */
export class Layout {
  readonly directory: string
  readonly tag: string
  readonly root: string
  readonly blobs: string
  readonly temporary: string
  /** The log of entries, and the snapshot of their table. */
  readonly log: string
  readonly snapshot: string
  /** What adopted indexes say; derived from contents. */
  readonly suites: string
  /** What no other process uses in names, and how many names there are with it. */
  readonly #run = randomBytes(12).toString('hex')
  #count = 0

  constructor(directory: string) {
    this.directory = directory
    this.tag = join(directory, 'CACHEDIR.TAG')
    this.root = join(directory, `v${layoutVersion}`)
    this.blobs = join(this.root, 'blobs')
    this.temporary = join(this.root, 'tmp')
    this.log = join(this.root, 'entries.log')
    this.snapshot = join(this.root, 'entries.index')
    this.suites = join(this.root, 'suites')
  }

  blob(digest: string): string {
    return `${this.blobs}/${digest.slice(0, 2)}/${digest}`
  }

  /** One that nothing has yet. */
  temporaryFile(): string {
    this.#count += 1
    const count = this.#count.toString(16).padStart(8, '0')
    return `${this.temporary}/${this.#run}${count}${temporarySuffix}`
  }
}

/** The directories contents lie in: the first two digits of their names, so that no directory grows too long to list. */
export const shards: readonly string[] = Array.from({ length: 256 }, (_, i) =>
  i.toString(16).padStart(2, '0'),
)
