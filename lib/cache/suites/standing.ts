/**
 * What an earlier run has adopted, and what it says of a content, for retention.
 */
import { Disk, type DiskOptions, type Surroundings } from '../store/disk/disk.ts'
import { Layout } from '../store/disk/layout.ts'
import type { Standing } from '../store/upkeep/rules.ts'
import { KnownSuites } from './known-suites.ts'
import { Tables } from './tables.ts'

interface AdoptedParts extends Pick<Surroundings, 'clock' | 'log'> {
  readonly cacheDirectory: string
  /** Bytes of memory for tables. */
  readonly memory: number
  /** Another file system; for trials with failing disks. */
  readonly disk?: Pick<DiskOptions, 'files' | 'deadline'> | undefined
}

/** What has been adopted. */
export interface AdoptedSuites {
  readonly known: KnownSuites
  readonly tables: Tables
}

/** Reads what an earlier run knew. The store must be this process's. Never rejects. */
export async function openAdopted(parts: AdoptedParts): Promise<AdoptedSuites> {
  const { clock, log, memory, cacheDirectory } = parts
  const around = {
    disk: new Disk({ ...parts.disk, clock }),
    layout: new Layout(cacheDirectory),
    clock,
    log,
  }
  const known = await KnownSuites.open(around)
  const tables = new Tables({ ...around, memory })
  await tables.warm(known.tables())
  return { known, tables }
}

/** What adopted indexes say of a content. */
export function standingOf({ known, tables }: AdoptedSuites, digest: string): Standing {
  if (known.names(digest)) return 'generation'
  return tables.names(digest) ? 'named' : 'unknown'
}
