/**
 * Makes the parts of the store, and connects what they tell each other.
 */
import type { Clock } from '../../async/clock.ts'
import { BlockPool } from '../../bytes/block-pool.ts'
import type { Logger } from '../../log/log.ts'
import { Journal } from './catalogue/journal.ts'
import { Blobs } from './content/blobs.ts'
import { Checks } from './content/checks.ts'
import { Downloads } from './content/downloads.ts'
import { SharedBlocks } from './content/shared-blocks.ts'
import { Contents } from './content/stored-contents.ts'
import { Disk, type DiskOptions } from './disk/disk.ts'
import { DiskHealth } from './disk/health.ts'
import { Layout } from './disk/layout.ts'
import { tryDisk } from './disk/self-test.ts'
import type { Entry } from './entry.ts'
import { Checkpoints } from './upkeep/checkpoint.ts'
import { Retention } from './upkeep/retention.ts'
import { Room } from './upkeep/room.ts'
import { Space } from './upkeep/space.ts'

export interface StoreOptions {
  readonly directory: string
  readonly clock: Clock
  readonly log: Logger
  /** Bytes of memory for small content in demand. */
  readonly memory: number
  /** Memory for content on its way; the store has some of its own when not given. */
  readonly blocks?: BlockPool
  /** Contents that no entry has named yet stay: an import reads them before the entries. */
  readonly keepUnnamed?: boolean
  /** Told of every entry whose content is in the store, when it is put. */
  readonly onPut?: (entry: Entry) => void
  /** Told of an entry whose content is whole and not stored yet. The promise settles after `onPut`, or when it cannot be stored. */
  readonly onArriving?: (entry: Entry, kept: Promise<unknown>) => void
  /** Another file system, and how long it may take; for trials with failing disks. */
  readonly disk?: Pick<DiskOptions, 'files' | 'deadline'>
}

export type StoreParts = ReturnType<typeof wire>

const blockMemory = 128 * 1024 * 1024

/** Makes the parts of a store. Nothing is read or written yet. */
export function wire(options: StoreOptions) {
  const { directory, clock, log, memory } = options
  const layout = new Layout(directory)
  const disk = new Disk({
    ...options.disk,
    clock,
    onHung: error => health.failed(error, 'waiting for the disk'),
  })
  const health = new DiskHealth({
    clock,
    log,
    trial: () => tryDisk(disk, layout),
    recovered: () => {
      space.forget()
      journal.flush().catch(error => health.failed(error, 'writing entries'))
    },
  })
  const around = { disk, layout, clock, log, health }
  const blocks = new SharedBlocks(options.blocks ?? new BlockPool({ limit: blockMemory }))
  const space = new Space(around, () => room.stored)
  const checks = new Checks({
    clock,
    log,
    read: (digest, size) => contents.read({ digest, size, first: 0, end: size }),
    proven: digest => {
      blobs.flushLater(digest)
      checkpoints.soon()
    },
    discard: digest => blobs.discard(digest),
  })
  const contents = new Contents({ ...around, blocks, memory, checks })
  const journal = new Journal({
    ...around,
    named: digest => blobs.taken(digest),
    freed: (digest, size) => blobs.freed(digest, size),
    put: entry => {
      options.onPut?.(entry)
      // What is fresh is made durable soon; this entry may be of a content that was, and now stands behind the last mark.
      if (!blobs.fresh.has(entry.digest)) checkpoints.soon()
    },
  })
  const blobs = new Blobs({
    ...around,
    keepUnnamed: options.keepUnnamed,
    named: digest => journal.table.references(digest),
    unname: digest => journal.removeRows(journal.table.referring(digest)),
    changed: digest => contents.forget(digest),
    soon: () => {
      checkpoints.soon()
      retention.soon()
      room.look()
    },
  })
  const kept = { ...around, journal, blobs }
  const room = new Room({
    ...kept,
    space,
    underWay: () => downloads.bytes,
    dropPartial: () => downloads.dropPartial(),
  })
  const soon = (): void => checkpoints.soon()
  const { onArriving } = options
  const downloads = new Downloads({ ...kept, blocks, contents, checks, room, soon, onArriving })
  const checkpoints = new Checkpoints({ ...kept, downloads, checks })
  const retention = new Retention({ ...kept, downloads, checkpoints, room })
  return { ...kept, contents, checks, downloads, checkpoints, retention, room, space }
}
