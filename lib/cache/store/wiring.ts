/**
 * Makes the parts of the store, and says what the store does after each of their events.
 */
import type { Clock } from '../../async/clock.ts'
import { BlockPool } from '../../bytes/block-pool.ts'
import type { Logger } from '../../log/log.ts'
import { Journal } from './catalogue/journal.ts'
import { Blobs } from './content/blobs.ts'
import { Checks } from './content/checks.ts'
import { Downloads } from './content/downloads.ts'
import { OpenFiles, SharedBlocks } from './content/open-content.ts'
import { Arrivals, Room } from './content/room.ts'
import { Space } from './content/space.ts'
import { Contents } from './content/stored-contents.ts'
import { Disk, type DiskOptions, Layout } from './disk/disk.ts'
import { DiskHealth } from './disk/health.ts'
import { StoreEvents } from './events.ts'
import { Checkpoints } from './upkeep/checkpoint.ts'
import { Retention } from './upkeep/retention.ts'

export interface StoreOptions {
  readonly directory: string
  readonly clock: Clock
  readonly log: Logger
  /** Bytes of memory for small content in demand. */
  readonly memory: number
  /** Memory for blocks of content; by default the store has a pool of its own. */
  readonly blocks?: BlockPool
  /** Whether contents stay that no entry has named yet. An import stores contents before their entries. */
  readonly keepUnnamed?: boolean
  /** Another file system and another deadline, for tests with failing disks. */
  readonly disk?: Pick<DiskOptions, 'files' | 'deadline'>
}

export type StoreParts = ReturnType<typeof wireStore>

const blockMemory = 128 * 1024 * 1024

/** Makes the parts of a store, each with parts that were made before it, and connects their events. It reads and writes nothing. */
export function wireStore(options: StoreOptions) {
  const { directory, clock, log, memory, keepUnnamed } = options
  const events = new StoreEvents()
  const layout = new Layout(directory)
  const disk = new Disk({
    ...options.disk,
    clock,
    onHung: error => events.tell('failed', { error, doing: 'waiting for the disk' }),
  })
  const below = { disk, layout, clock, log, events }
  const health = new DiskHealth(below)
  const around = { ...below, health }
  const journal = new Journal(around)
  const blobs = new Blobs({ ...around, journal, keepUnnamed })
  const arrivals = new Arrivals()
  const space = new Space(around, () => blobs.bytes + arrivals.bytes.arrived)
  const kept = { ...around, journal, catalogue: journal, blobs }
  const room = new Room({ ...kept, space, arrivals })
  const blocks = new SharedBlocks(options.blocks ?? new BlockPool({ limit: blockMemory }))
  const files = new OpenFiles({ ...around, blocks })
  const checks = new Checks({ ...around, files, blobs })
  const contents = new Contents({ ...around, files, memory, checks })
  const downloads = new Downloads({ ...kept, blocks, files, checks, room, arrivals })
  const checkpoints = new Checkpoints({ ...kept, checks })
  const retention = new Retention({ ...kept, downloads, checkpoints, room })

  events.listen({
    failed: ({ error, doing }) => health.failed(error, doing),
    recovered() {
      space.forget()
      journal.flush().catch(error => health.failed(error, 'writing entries'))
    },
    proven: () => checkpoints.soon(),
    named({ digest }) {
      blobs.named(digest)
      // A checkpoint is already due for a fresh content. For a durable content it is due now: the new entry follows the last mark.
      if (!blobs.fresh.has(digest)) checkpoints.soon()
    },
    freed: ({ digest, size }) => blobs.freed(digest, size),
    unused() {
      checkpoints.soon()
      retention.soon()
      room.look()
    },
    changed: digest => contents.forget(digest),
  })
  return { ...kept, contents, checks, downloads, checkpoints, retention, room, space }
}
