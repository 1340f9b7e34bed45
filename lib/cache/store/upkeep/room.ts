/**
 * Makes room: keeps contents within the quota and a part of the file system free. Says what must not be stored.
 *
 * Counted are contents, named or not, what has arrived of downloads under way, and what their pace brings within a minute, so
 * room is made while they arrive. It is made in the background, at a bounded rate and somewhat ahead: what crashes have left of
 * downloads goes first, then the contents that rules.ts ranks lowest. A download is refused when it alone would take half of what there is,
 * or when removing does not keep up; and one that is being stored is asked about again before each write. The client then gets
 * it from the origin, and nothing is stored. So the quota holds also while the disk fails.
 */
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { repeat } from '../../../async/repeat.ts'
import { size } from '../../../figures.ts'
import type { UnnamedContent } from '../content/content-life.ts'
import type { Download } from '../content/download.ts'
import type { Partials } from '../content/write-behind.ts'
import type { Surroundings } from '../disk/disk.ts'
import { forget, removeContents, rowsOf, type UpkeepParts } from './removal.ts'
import { findVictims, keepAll, type RetentionRules, rankOf, type Victim } from './rules.ts'

/** What there is at one moment, bytes. */
interface Measured {
  /** Contents, named or not, and what has arrived of downloads. */
  readonly stored: number
  /** Of that, what the disk does not have yet. */
  readonly unwritten: number
  /** What the pace of downloads brings within a minute. */
  readonly coming: number
  /** Of the file system. Infinite when it does not say. */
  readonly free: number
  /** What is to stay free of the file system. */
  readonly floor: number
  /** Other programs hold so much that removing everything would not reach the floor. */
  readonly foreign: boolean
}

interface RoomParts extends UpkeepParts {
  readonly space: Space
  readonly arrivals: Arrivals
  /** What crashes have left of downloads; it goes first. */
  readonly partials: Partials
}

/** Part of the quota that is kept empty for what arrives next, and its most. Once room is made, twice as much is made. */
const headroomShare = 1 / 16
const mostHeadroom = 2 ** 30

/** The floor when none is set: a share of the file system, and its most. */
const floorShare = 1 / 50
const mostFloor = 2 ** 30

/** A content without an entry may be about to get one for so long. */
const unnamedGrace: Milliseconds = 1_000

const batch = 500

const reportEvery: Milliseconds = 30_000
const watchEvery: Milliseconds = 30_000
/** How long the file system is left alone when what was removed has freed nothing. */
const vainPause: Milliseconds = 60_000

export class Room {
  rules: RetentionRules = keepAll
  readonly #parts: RoomParts
  readonly #closing = new AbortController()
  #making: Promise<void> | undefined
  #vainUntil = Number.NEGATIVE_INFINITY
  /** The log says that other programs fill the file system. */
  #told = false
  #removed = { contents: 0, bytes: 0 }
  #cancelReport: (() => void) | undefined
  #stopWatch: (() => void) | undefined

  constructor(parts: RoomParts) {
    this.#parts = parts
  }

  /**
   * What is wanted from now on. Room is made in the background if there is too much, now and from time to time: other programs
   * fill the file system as well.
   */
  use(rules: RetentionRules): void {
    this.rules = rules
    if (this.#closing.signal.aborted) return
    const watch = (): Promise<void> => this.#parts.space.fresh().then(() => this.look())
    this.#stopWatch ??= repeat(this.#parts.clock, watchEvery, watch)
    void watch()
  }

  /**
   * Why content of so many bytes, of which `here` are on the disk already, must not be stored now; undefined when it may be.
   */
  refusal(length: number, here = 0): string | undefined {
    const measured = this.#measure()
    const because = this.#tooLarge(length, measured)
    if (because !== undefined) return because
    const spare = spareOf(measured)
    if (length - here <= spare) return undefined
    // Room for more than there is now is made while it arrives, unless it cannot be made.
    const most = this.#vain || measured.foreign ? 0 : (spare + this.#parts.journal.table.bytes) / 2
    if (spare >= 0 && length <= most) return undefined
    return `${length} bytes do not fit into the ${Math.max(0, Math.floor(spare))} that may be used of the file system`
  }

  /** Why a download of which so many bytes are here must not be stored any more; undefined when it may be. */
  overflow(size: number): string | undefined {
    const measured = this.#measure()
    const because = this.#tooLarge(size, measured)
    if (because !== undefined) return because
    const spare = spareOf(measured)
    if (spare < 0) return 'too little of the file system is free'
    // Other contents are not removed for one that takes most of the room by itself.
    if (spare >= measured.floor / 2 || size <= (spare + measured.stored) / 2) return undefined
    return `${size} bytes are more than half of what may be used of the file system`
  }

  /** Why nothing can be stored, and removing contents does not help; undefined when something can. */
  get full(): string | undefined {
    const measured = this.#measure()
    if (spareOf(measured) >= 0 || !(measured.foreign || this.#vain)) return undefined
    const { free, floor } = measured
    const filled = `${size(Math.max(0, free))} of the file system are free, and retention.free keeps ${size(floor)}`
    return measured.foreign
      ? `other programs fill the file system: ${filled}`
      : `removing contents frees no space: ${filled}`
  }

  look(): void {
    if (this.#closing.signal.aborted) return
    const measured = this.#measure()
    this.#tellForeign(measured)
    if (this.#excess(1, measured) <= 0) return
    this.#making ??= this.#make()
      .catch(error => {
        if (this.#closing.signal.aborted) return
        this.#parts.health.failed(error, 'removing contents')
      })
      .finally(() => {
        this.#making = undefined
      })
  }

  close(): void {
    this.#closing.abort(new Error('the store closes'))
    this.#cancelReport?.()
    this.#stopWatch?.()
  }

  #tooLarge(length: number, { stored }: Measured): string | undefined {
    const { objectSize, size } = this.rules
    if (objectSize > 0 && length > objectSize) {
      return `${length} bytes are more than retention.object_size`
    }
    if (size > 0 && length > size / 2) {
      return `${length} bytes are more than half of retention.size`
    }
    if (size > 0 && stored > size) {
      return 'room for it is still being made within retention.size'
    }
    return undefined
  }

  async #make(): Promise<void> {
    const { space, blobs, journal } = this.#parts
    const { table } = journal
    const { signal } = this.#closing
    let victims: readonly Victim[] = []
    await space.fresh()
    for (;;) {
      const excess = this.#excess(2)
      if (excess <= 0 || journal.incomplete || signal.aborted) return
      if (await this.#parts.partials.drop()) {
        await space.fresh()
        continue
      }
      const before = { free: (await space.get())?.free, onDisk: onDisk(this.#measure()) }
      let contents = this.#unnamed(excess)
      if (contents.length === 0 && victims.length === 0) {
        victims = await findVictims(rowsOf(table, signal), table, this.rules)
        if (victims.length === 0) return
      }
      if (contents.length === 0) {
        const { chosen, rest } = this.#choose(victims, excess)
        victims = rest
        const names = new Map(chosen.map(row => [row, table.name(row)]))
        const due = (row: number): boolean => table.name(row) === names.get(row)
        const forgotten = new Set(await forget(this.#parts, chosen, { due, signal }))
        contents = blobs.unnamed().filter(one => forgotten.has(one.digest))
      }
      this.#count(await removeContents(this.#parts, contents, signal))
      this.#checkGain(before, (await space.fresh())?.free)
    }
  }

  /** Contents without an entry, the oldest first. */
  #unnamed(excess: number): readonly UnnamedContent[] {
    const { blobs, clock } = this.#parts
    let bytes = 0
    const due: UnnamedContent[] = []
    for (const one of blobs.unnamed(clock.elapsed() - unnamedGrace)) {
      if (bytes >= excess || due.length === batch) break
      if (one.size === 0 || one.state === 'staying') continue
      due.push(one)
      bytes += one.size
    }
    return due
  }

  /** The rows of as many contents as are too many. What was used since they were found is passed over. */
  #choose(
    victims: readonly Victim[],
    excess: number,
  ): { readonly chosen: readonly number[]; readonly rest: readonly Victim[] } {
    const { table } = this.#parts.journal
    const chosen: number[] = []
    let [at, bytes] = [0, 0]
    for (const { row, rank } of victims) {
      if (bytes >= excess || chosen.length >= batch) break
      at += 1
      if (rankOf(table, row, this.rules) !== rank) continue
      chosen.push(...table.sharing(row))
      bytes += table.size(row)
    }
    return { chosen, rest: victims.slice(at) }
  }

  #measure(): Measured {
    const { space, blobs, arrivals } = this.#parts
    const { arrived, unwritten, coming } = arrivals.bytes
    const stored = blobs.bytes + arrived
    const free = space.free(stored)
    const share = Math.min((space.latest?.total ?? 0) * floorShare, mostFloor)
    const floor = this.rules.free ?? share
    return { stored, unwritten, coming, free, floor, foreign: free + stored < floor }
  }

  /** How many bytes too many there are, when so many times the headroom is to be kept. */
  #excess(headrooms: number, { stored, coming, free, floor, foreign } = this.#measure()): number {
    const { size } = this.rules
    const headroom = Math.min(size * headroomShare, mostHeadroom) * headrooms
    const over = size > 0 ? stored + coming - (size - headroom) : 0
    if (this.#vain || foreign) return over
    const ahead = (floor * (headrooms - 1)) / 8
    return Math.max(over, floor + ahead - (free - coming))
  }

  get #vain(): boolean {
    return this.#parts.clock.elapsed() < this.#vainUntil
  }

  #tellForeign({ foreign, free, stored, floor }: Measured): void {
    if (foreign && !this.#told) {
      this.#parts.log.warn(
        'retention: other programs fill the file system; nothing is removed for retention.free, and what does not fit is not stored',
        { free, stored, floor },
      )
    }
    this.#told = foreign
  }

  /** Other programs fill the file system, or it keeps what is removed: then removing more would only empty the cache. */
  #checkGain(
    before: { readonly free: number | undefined; readonly onDisk: number },
    free: number | undefined,
  ): void {
    const measured = this.#measure()
    const { floor } = measured
    if (before.free === undefined || free === undefined || floor === 0) return
    const expected = before.onDisk - onDisk(measured)
    if (free >= floor || expected <= 0 || free - before.free >= expected / 4) return
    this.#vainUntil = this.#parts.clock.elapsed() + vainPause
    this.#parts.log.warn('retention: removing contents frees no space on the file system', {
      removed: expected,
      free,
    })
  }

  #count({ contents, bytes }: { readonly contents: number; readonly bytes: number }): void {
    this.#removed.contents += contents
    this.#removed.bytes += bytes
    this.#cancelReport ??= this.#parts.clock.after(reportEvery, () => {
      this.#cancelReport = undefined
      this.#parts.log.info('retention: made room', {
        ...this.#removed,
        left: Math.max(0, Math.ceil(this.#excess(1))),
      })
      this.#removed = { contents: 0, bytes: 0 }
    })
  }
}

/** Bytes of the file system that may still be used: half of the floor is there while room is being made. */
function spareOf({ free, floor }: Measured): number {
  return free - floor / 2
}

function onDisk({ stored, unwritten }: Measured): number {
  return stored - unwritten
}

/** Bytes of downloads. */
interface UnderWay {
  /** What there is of them, also of those that a crash broke off. */
  readonly arrived: number
  /** Of that, what the disk does not have yet. */
  readonly unwritten: number
  readonly coming: number
}

type Arrival = Pick<Download, 'size' | 'length' | 'stored' | 'file'>

/** What is counted as coming of a download: what its pace brings in this time, and at least so much. */
const foreseen: Milliseconds = 60_000
const leastForeseen = 4 * 1024 * 1024
/** A shorter time says nothing of the pace. */
const leastTime: Milliseconds = 1_000

/**
 * The bytes of downloads, also of those that a crash broke off: what they take of the disk, and what their pace brings within a
 * minute.
 */
export class Arrivals {
  readonly #clock: Clock
  readonly #partials: Partials
  /** When each began, and with how many bytes. */
  readonly #growing = new Map<Arrival, { readonly since: Milliseconds; readonly begun: number }>()
  /** Those that are whole and being stored. There may be hundreds, and these figures are asked for with every download. */
  readonly #whole = new Set<Arrival>()
  #wholeBytes = 0

  constructor(clock: Clock, partials: Partials) {
    this.#clock = clock
    this.#partials = partials
  }

  begin(download: Arrival): void {
    this.#growing.set(download, { since: this.#clock.elapsed(), begun: download.size })
  }

  whole(download: Arrival): void {
    if (!this.#growing.delete(download) || !download.stored) return
    this.#whole.add(download)
    this.#wholeBytes += download.size
  }

  end(download: Arrival): void {
    this.#growing.delete(download)
    if (this.#whole.delete(download)) this.#wholeBytes -= download.size
  }

  get bytes(): UnderWay {
    const now = this.#clock.elapsed()
    let arrived = this.#wholeBytes + this.#partials.bytes
    let unwritten = this.#wholeBytes
    let coming = 0
    for (const [download, { since, begun }] of this.#growing) {
      const { size, length = 0, stored, file } = download
      // A file that is not stored any more takes its space as long as a client reads it.
      if (!stored) arrived += file.file === undefined ? 0 : file.written
      else {
        const pace = (size - begun) / Math.max(leastTime, now - since)
        arrived += size
        unwritten += size - file.written
        coming += Math.max(0, Math.min(length - size, Math.max(leastForeseen, pace * foreseen)))
      }
    }
    return { arrived, unwritten, coming }
  }
}

/** Space of the file system the cache lies on, bytes. `free` is what this process may still use. */
export interface FileSystemSpace {
  readonly total: number
  readonly used: number
  readonly free: number
}

export interface Usage {
  /** Entries: cached targets. Several may share one content. */
  readonly objects: number
  /** Contents, each counted once. */
  readonly blobs: number
  /** Bytes of those contents. */
  readonly bytes: number
}

const spaceAge: Milliseconds = 5_000

/**
 * Space on the file system of a directory, asked for at most once in some seconds however often it is needed.
 */
export class Space {
  readonly #around: Surroundings
  readonly #stored: () => number
  #known: FileSystemSpace | undefined
  #storedThen = 0
  #asked: Milliseconds = Number.NEGATIVE_INFINITY
  #asking: Promise<void> | undefined

  /** `stored` says how many bytes the store takes of it. */
  constructor(around: Surroundings, stored: () => number) {
    this.#around = around
    this.#stored = stored
  }

  /**
   * Free bytes, now that the store takes so many: what the file system said last, less what was stored since. Infinite when it
   * does not say.
   */
  free(stored: number): number {
    const { latest } = this
    if (latest === undefined) return Number.POSITIVE_INFINITY
    return latest.free - (stored - this.#storedThen)
  }

  /** What was known some seconds ago, at once. */
  get latest(): FileSystemSpace | undefined {
    if (this.#old) void this.get()
    return this.#known
  }

  /** What was known may be wrong by now. */
  forget(): void {
    this.#known = undefined
    this.#asked = Number.NEGATIVE_INFINITY
  }

  fresh(): Promise<FileSystemSpace | undefined> {
    this.#asked = Number.NEGATIVE_INFINITY
    return this.get()
  }

  /** Undefined when the file system does not say. */
  async get(): Promise<FileSystemSpace | undefined> {
    if (this.#old) {
      this.#asking ??= this.#ask().finally(() => {
        this.#asking = undefined
      })
      await this.#asking
    }
    return this.#known
  }

  get #old(): boolean {
    return this.#around.clock.elapsed() - this.#asked >= spaceAge
  }

  async #ask(): Promise<void> {
    const { disk, layout } = this.#around
    const stored = this.#stored()
    try {
      const { bsize, blocks, bfree, bavail } = await disk.space(layout.directory)
      this.#known = { total: blocks * bsize, used: (blocks - bfree) * bsize, free: bavail * bsize }
      this.#storedThen = stored
    } catch {
      this.#known = undefined
    }
    this.#asked = this.#around.clock.elapsed()
  }
}
