/**
 * Keeps tables of adopted indexes in bounded memory, and reads them from disk when they are needed.
 */
import { join } from 'node:path'
import { LRUCache } from 'lru-cache'
import { SingleFlight } from '../../async/single-flight.ts'
import { explainError, systemCode } from '../../errors.ts'
import { recentEntries } from '../../recent.ts'
import type { Disk, Layout, Surroundings } from '../store/disk/disk.ts'
import { mostTableBytes, Table } from './table.ts'

interface TablesParts extends Surroundings {
  readonly memory: number
}

const suffix = '.table'
const mostUnfit = 10_000

/** The path of the table of the index with this SHA-256. */
export function tablePath(layout: Layout, digest: string): string {
  return join(layout.suites, `${digest}${suffix}`)
}

export class Tables {
  readonly #parts: TablesParts
  readonly #memory: LRUCache<string, Table>
  readonly #loads = new SingleFlight<Table | 'unreadable' | undefined>()
  /** Tables that were missing, damaged or too large when they were read last. */
  #unfit = recentEntries<string, true>(mostUnfit)

  constructor(parts: TablesParts) {
    this.#parts = parts
    this.#memory = new LRUCache({
      maxSize: Math.max(1, parts.memory),
      sizeCalculation: table => table.bytes,
    })
  }

  /** The table of the index with this SHA-256, if it is in memory. */
  hot(digest: string): Table | undefined {
    return this.#memory.get(digest)
  }

  /**
   * Reads the table from disk. Undefined when it is missing, damaged or too large. Such a table is not read again until `readAgain`. Never
   * rejects.
   */
  async load(digest: string): Promise<Table | 'unreadable' | undefined> {
    const unfit = this.#unfit
    if (unfit.has(digest)) return undefined
    return this.#loads.run(digest, async () => {
      const { disk, layout, log, memory } = this.#parts
      const path = tablePath(layout, digest)
      try {
        const file = await readSmall(disk, path, mostTableBytes(memory))
        const table = file && Table.read(file)
        if (table !== undefined) this.#memory.set(digest, table)
        else unfit.set(digest, true)
        return table
      } catch (error) {
        log.warn('cannot read the table of an index', { digest, because: explainError(error) })
        return 'unreadable'
      }
    })
  }

  /** Has tables that were missing, damaged or too large read again, because an adoption may have made them. */
  readAgain(): void {
    this.#unfit = recentEntries(mostUnfit)
  }

  /** Reads these tables until half of the memory is used, so that `names` knows them. Never rejects. */
  async warm(digests: Iterable<string>): Promise<void> {
    for (const digest of digests) {
      if (this.#memory.calculatedSize >= this.#parts.memory / 2) return
      if (!this.#memory.has(digest)) await this.load(digest)
    }
  }

  /** Whether a table in memory names a content with this SHA-256. */
  names(digest: string): boolean {
    const bytes = Buffer.from(digest, 'hex')
    for (const table of this.#memory.values()) if (table.names(bytes)) return true
    return false
  }

  async keepOnly(needed: ReadonlySet<string>): Promise<void> {
    const { disk, layout, log } = this.#parts
    try {
      for (const name of await disk.names(layout.suites)) {
        const digest = name.slice(0, -suffix.length)
        if (!name.endsWith(suffix) || needed.has(digest)) continue
        this.#memory.delete(digest)
        await disk.remove(tablePath(layout, digest))
      }
    } catch (error) {
      if (systemCode(error) === 'ENOENT') return
      log.warn('cannot remove tables of indexes', { because: explainError(error) })
    }
  }
}

/** The bytes of a whole file; undefined when it is missing or has more than `most` bytes. */
export async function readSmall(
  disk: Disk,
  path: string,
  most: number,
): Promise<Buffer | undefined> {
  const file = await disk.openIfThere(path)
  if (file === undefined) return undefined
  try {
    const { size } = await file.look()
    return size > most ? undefined : await file.bytes(0, size)
  } finally {
    file.close()
  }
}
