/**
 * Reads stored contents: small contents in demand from memory, the others from open files.
 *
 * A content of at most 4 MiB is kept in memory from its second reading on, not from the first: a mirror run or an installer that reads
 * thousands of packages once would otherwise push out the indexes that every machine asks for. A content that is forgotten while it is
 * being read is not kept, because its bytes may be wrong.
 *
 * Slow clients hold bytes in memory after this memory has released them. So the bytes of all contents that were read whole and are
 * still in use are counted, and beyond twice the configured memory contents are streamed.
 */
import { LRUCache } from 'lru-cache'
import { SingleFlight } from '../../../async/single-flight.ts'
import type { Content } from '../../../http/message/message.ts'
import { recentEntries } from '../../../recent.ts'
import type { Surroundings } from '../disk/disk.ts'
import type { Checks } from './checks.ts'
import type { ContentPart, OpenFiles } from './open-content.ts'

/** The largest content that is kept in memory; one of at most `small` is read whole even the first time. */
const mostInMemory = 4 * 1024 * 1024
const small = 256 * 1024

/** The digests of this many contents that were read once are remembered, so that a second reading is noticed. */
const remembered = 16_384

/** The approximate memory that a content costs beyond its bytes. */
const perContent = 256

interface ContentsParts extends Surroundings {
  readonly files: OpenFiles
  /** Bytes of memory for contents in demand; 0 keeps none. */
  readonly memory: number
  /** Hashes contents that are read from the disk; without it no content is checked. */
  readonly checks?: Checks
}

export class Contents {
  readonly #parts: ContentsParts
  readonly #memory: LRUCache<string, Buffer>
  readonly #seen = recentEntries<string, true>(remembered)
  readonly #loads = new SingleFlight<Buffer | undefined>()
  /** Bytes that were read whole and not yet collected as garbage. */
  #inUse = 0
  readonly #collected = new FinalizationRegistry<number>(length => {
    this.#inUse -= length
  })

  constructor(parts: ContentsParts) {
    this.#parts = parts
    const maxSize = Math.max(1, Math.floor(parts.memory))
    this.#memory = new LRUCache({
      maxSize,
      maxEntrySize: Math.min(mostInMemory + perContent, maxSize),
      sizeCalculation: bytes => bytes.length + perContent,
    })
  }

  /** The content, at once when it is in memory. Undefined when there is none of that size. Rejects when the disk fails. */
  get(wanted: ContentPart): Content | Promise<Content | undefined> {
    const { digest, size } = wanted
    const bytes = this.#memory.get(digest)
    if (bytes?.length === size) return part(bytes, wanted)
    const room = Math.min(mostInMemory, this.#parts.memory, 2 * this.#parts.memory - this.#inUse)
    const again = this.#seen.has(digest) && size < room && !this.#parts.checks?.due(digest)
    if (size <= small || again) {
      return this.#whole(digest, size).then(whole => whole && part(whole, wanted))
    }
    this.#seen.set(digest, true)
    return this.#stream(wanted)
  }

  /** Drops what is held of a content, because the digest may stand for another file now. Present readers go on. */
  forget(digest: string): void {
    this.#parts.checks?.forget(digest)
    this.#memory.delete(digest)
    this.#loads.forget(digest)
    this.#parts.files.forget(digest)
  }

  close(): void {
    this.#memory.clear()
    this.#parts.files.close()
  }

  #whole(digest: string, size: number): Promise<Buffer | undefined> {
    return this.#loads.run(digest, async isCurrent => {
      const bytes = await this.#load(digest, size)
      if (bytes === undefined || !isCurrent()) return bytes
      if (this.#seen.has(digest)) this.#memory.set(digest, bytes)
      else this.#seen.set(digest, true)
      return bytes
    })
  }

  async #load(digest: string, size: number): Promise<Buffer | undefined> {
    const { disk, layout } = this.#parts
    const file = await disk.openIfThere(layout.blob(digest))
    if (file === undefined) return undefined
    this.#inUse += size
    let whole: Buffer | undefined
    try {
      const [found, bytes] = await Promise.all([file.look(), file.bytes(0, size)])
      if (!found.isFile() || found.size !== size || bytes.length !== size) return undefined
      if ((await this.#parts.checks?.accepts(digest, bytes)) !== false) whole = bytes
      return whole
    } finally {
      file.close()
      if (whole === undefined) this.#inUse -= size
      else this.#collected.register(whole.buffer, size)
    }
  }

  async #stream(wanted: ContentPart): Promise<Content | undefined> {
    const { files, checks } = this.#parts
    const opened = await files.open(wanted)
    if (opened === undefined) return undefined
    const open = checks?.guard(wanted, opened) ?? (() => opened())
    return { kind: 'stream', length: wanted.end - wanted.first, open }
  }
}

function part(bytes: Buffer, { first, end }: ContentPart): Content {
  const whole = first === 0 && end === bytes.length
  return { kind: 'bytes', bytes: whole ? bytes : bytes.subarray(first, end) }
}
