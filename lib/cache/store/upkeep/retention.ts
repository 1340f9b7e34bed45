/**
 * What goes: entries nobody used for long, contents no entry names, leftovers of crashes.
 *
 * # Mark and sweep, and a commit at the same time
 * The entries are read first and the digests they name are marked; then the blobs are walked and the unmarked ones go. An
 * entry written meanwhile marks its digest before its file is written (`Naming`), also one whose writing began before the
 * sweep. A blob whose entry is not yet being written is younger than the grace, because a commit makes it or touches it, and
 * commits and removals of one content take turns (blob.ts). So there is no moment at which a content in demand can go.
 */
import { rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { temporaryPrefix } from '../../../atomic-file.ts'
import { explainError } from '../../../errors.ts'
import type { Logger } from '../../../log/log.ts'
import type { Blobs } from '../disk/blobs.ts'
import type { Entries } from '../disk/entries.ts'
import { isDigest, type Layout, shards } from '../disk/layout.ts'
import { listed } from './usage.ts'

export interface SweepOptions {
  /** Entries nobody asked for in so many days go; 0 keeps them for ever. */
  readonly unusedDays: number
  readonly now: Milliseconds
  readonly signal?: AbortSignal
}

/** What a sweep found. */
export interface Swept {
  readonly entriesKept: number
  readonly entriesRemoved: number
  readonly blobsKept: number
  readonly blobsRemoved: number
  readonly bytesFreed: number
  readonly leftoversRemoved: number
}

export interface SweepParts {
  readonly layout: Layout
  readonly entries: Entries
  readonly blobs: Blobs
  readonly naming: Naming
}

const day: Milliseconds = 24 * 60 * 60 * 1000

/** How young a file must be to be left alone, whatever names it. */
export const grace: Milliseconds = 60 * 60 * 1000

/**
 * Removes what is due, one file at a time, so that requests go first. Throws what the file system throws, and the reason of
 * `signal`; what was removed by then is gone, and nothing is half gone.
 */
export async function sweep(parts: SweepParts, options: SweepOptions): Promise<Swept> {
  const { entries, blobs, naming, layout } = parts
  const before = options.now - grace
  const unusedSince = options.unusedDays > 0 ? options.now - options.unusedDays * day : undefined
  const swept = {
    entriesKept: 0,
    entriesRemoved: 0,
    blobsKept: 0,
    blobsRemoved: 0,
    bytesFreed: 0,
    leftoversRemoved: 0,
  }
  const marks = naming.begin()
  try {
    for await (const { key, digest, lastUsed } of entries.walk()) {
      options.signal?.throwIfAborted()
      const unused = unusedSince !== undefined && lastUsed < unusedSince
      if (unused && unusedSince !== undefined && (await entries.remove(key, { unusedSince }))) {
        swept.entriesRemoved += 1
      } else {
        swept.entriesKept += 1
        marks.add(digest)
      }
    }
    for (const shard of shards) {
      const directory = join(layout.blobs, shard)
      for (const digest of (await listed(directory)).filter(isDigest)) {
        options.signal?.throwIfAborted()
        const freed = marks.has(digest)
          ? undefined
          : await blobs.removeOrphan(digest, { before, named: () => marks.has(digest) })
        if (freed === undefined) swept.blobsKept += 1
        else {
          swept.blobsRemoved += 1
          swept.bytesFreed += freed
        }
      }
      const leftovers = join(layout.entries, shard)
      swept.leftoversRemoved += await removeLeftovers(leftovers, before)
    }
    return swept
  } finally {
    naming.end(marks)
  }
}

/** Temporary files of entries that a crash left behind. Those in `tmp/` go at the start. */
async function removeLeftovers(directory: string, before: Milliseconds): Promise<number> {
  let removed = 0
  for (const name of await listed(directory)) {
    if (!name.startsWith(temporaryPrefix)) continue
    const path = join(directory, name)
    const found = await stat(path).catch(() => undefined)
    if (found === undefined || found.mtimeMs >= before) continue
    await rm(path, { force: true })
    removed += 1
  }
  return removed
}

/** Sweeps once after a while and then every day by the clock, and logs the figures. The answer stops it. */
export function scheduleSweeps(
  run: (signal: AbortSignal) => Promise<Swept>,
  { clock, log }: { readonly clock: Clock; readonly log: Logger },
): () => void {
  const stopped = new AbortController()
  let cancel: () => void
  const once = (): void => {
    run(stopped.signal)
      .then(
        swept => log.info('retention: swept', { ...swept }),
        error => {
          if (stopped.signal.aborted) return
          log.warn('retention: the sweep stopped half-way', { because: explainError(error) })
        },
      )
      .finally(() => {
        if (!stopped.signal.aborted) cancel = clock.after(day, once)
      })
  }
  cancel = clock.after(firstSweep, once)
  return () => {
    stopped.abort(new Error('the store closes'))
    cancel()
  }
}

/** Not while everybody comes back after a restart. */
const firstSweep: Milliseconds = 15 * 60 * 1000

/**
 * Digests that entries name or are about to: 48 bits of each, which is enough, for two that look the same only keep a blob
 * for another day.
 */
export class Marks {
  readonly #marks = new Set<number>()

  add(digest: string): void {
    this.#marks.add(Number.parseInt(digest.slice(0, 12), 16))
  }

  has(digest: string): boolean {
    return this.#marks.has(Number.parseInt(digest.slice(0, 12), 16))
  }
}

/** Entries that are just being written, told to every sweep under way. */
export class Naming {
  readonly #now = new Map<string, number>()
  readonly #sweeps = new Set<Marks>()

  /** An entry is about to name this digest. Call the answer when it is written, or was not. */
  start(digest: string): () => void {
    this.#now.set(digest, (this.#now.get(digest) ?? 0) + 1)
    for (const marks of this.#sweeps) marks.add(digest)
    return () => {
      const left = (this.#now.get(digest) ?? 1) - 1
      if (left > 0) this.#now.set(digest, left)
      else this.#now.delete(digest)
    }
  }

  /** A sweep begins: its marks, to which entries written from now on add themselves. */
  begin(): Marks {
    const marks = new Marks()
    for (const digest of this.#now.keys()) marks.add(digest)
    this.#sweeps.add(marks)
    return marks
  }

  end(marks: Marks): void {
    this.#sweeps.delete(marks)
  }
}
