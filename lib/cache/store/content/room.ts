/**
 * Makes room: keeps contents within the quota and a part of the file system free, and says which contents must not be stored.
 *
 * Room is made in the background, at a bounded rate and by one headroom in advance. Contents without an entry are removed first, then
 * those that retention-rules.ts ranks lowest. A download is refused when it alone would take half of the room. A download that is being
 * stored is checked again before each write: while contents take more than a limit allows it waits for room, and it is refused when
 * removing is too slow. Clients get a refused content from the origin, and the store keeps nothing of it. So the limits hold also while
 * the disk fails.
 */
import type { Milliseconds } from '../../../async/clock.ts'
import { repeat } from '../../../async/repeat.ts'
import { size } from '../../../figures.ts'
import {
  type Forecast,
  findVictims,
  keepAll,
  type RemovalReason,
  type RetentionRules,
  rankOf,
  reasonCounts,
  type Victim,
} from '../retention-rules.ts'
import type { UnnamedContent } from './content-life.ts'
import type { Download } from './download.ts'
import { forget, removeContents, rowsOf, type UpkeepParts } from './removal.ts'
import type { Space } from './space.ts'

/** The figures of one moment, bytes. */
interface Measured {
  /** Contents, named or not, and the bytes that have arrived of downloads. */
  readonly stored: number
  /** The part of `stored` that the disk does not have yet. */
  readonly unwritten: number
  /** Free bytes of the file system; infinite when it does not answer. */
  readonly free: number
  /** Bytes of the file system that must stay free. */
  readonly floor: number
  /** Whether other programs use so much that removing all contents would not reach the floor. */
  readonly foreign: boolean
}

/** Why a download must not be written now, and whether it may be once room is made. */
export interface Refusal {
  readonly because: string
  readonly wait: boolean
}

interface RoomParts extends UpkeepParts {
  readonly space: Space
  readonly arrivals: Arrivals
}

/** This share of the quota is kept empty for the next contents, but at most `mostHeadroom`. When room is made, twice as much is made. */
const headroomShare = 1 / 16
const mostHeadroom = 2 ** 30

/** The floor when the operator sets none: this share of the file system, but at most `mostFloor`. */
const floorShare = 1 / 50
const mostFloor = 2 ** 30

/** A content without an entry stays this long, because it may be about to get one. */
const unnamedGrace: Milliseconds = 1_000

const batch = 500

const reportEvery: Milliseconds = 30_000
const watchEvery: Milliseconds = 30_000
/** How long no content is removed for the floor after a removal that freed no space. */
const vainPause: Milliseconds = 60_000

export class Room {
  rules: RetentionRules = keepAll
  readonly #parts: RoomParts
  readonly #closing = new AbortController()
  #making: Promise<void> | undefined
  #vainUntil = Number.NEGATIVE_INFINITY
  /** Whether the log already says that other programs fill the file system. */
  #told = false
  #removed = { contents: 0, bytes: 0 }
  #reasons = new Map<RemovalReason, number>()
  #cancelReport: (() => void) | undefined
  #stopWatch: (() => void) | undefined
  /** Callbacks of the downloads that wait for room. */
  #awaitRoom: (() => void)[] = []

  constructor(parts: RoomParts) {
    this.#parts = parts
  }

  /**
   * Sets the rules. Room is made in the background when it is needed. The first call also starts a regular look at the file system,
   * because other programs fill it as well.
   */
  use(rules: RetentionRules): void {
    this.rules = rules
    if (this.#closing.signal.aborted) return
    const watch = (): Promise<void> => this.#parts.space.fresh().then(() => this.look())
    this.#stopWatch ??= repeat(this.#parts.clock, watchEvery, watch)
    void watch()
  }

  /** Why a content of `length` bytes must not be stored now; undefined when it may be stored. */
  refusal(length: number): string | undefined {
    const measured = this.#measure()
    const because =
      this.#tooLarge(length) ?? (this.#making === undefined ? this.#crowded(measured) : undefined)
    if (because !== undefined) return because
    const spare = spareOf(measured)
    if (length <= spare) return undefined
    // A content larger than the spare room may be stored when room can be made while it arrives.
    const most = this.#vain || measured.foreign ? 0 : (spare + this.#parts.journal.table.bytes) / 2
    if ((spare >= 0 || this.#making !== undefined) && length <= most) return undefined
    return `${length} bytes do not fit into the ${Math.max(0, Math.floor(spare))} that may be used of the file system`
  }

  /**
   * Why a download with `size` bytes so far must not be written now; undefined when it may. With `wait`, room for it is being
   * made: the download waits for `made` and asks again.
   */
  overflow(size: number): Refusal | undefined {
    const measured = this.#measure()
    const tooLarge = this.#tooLarge(size) ?? this.#mostOfTheRoom(size, measured)
    if (tooLarge !== undefined) return { because: tooLarge, wait: false }
    const because = this.#lacking(measured)
    if (because === undefined) return undefined
    return { because, wait: this.#making !== undefined && !this.#closing.signal.aborted }
  }

  /** Resolves when contents keep to both limits again, when no more room can be made, or after `longest`. */
  async made(longest: Milliseconds): Promise<void> {
    if (this.#making === undefined || this.#closing.signal.aborted) return
    await new Promise<void>(resolve => {
      const cancel = this.#parts.clock.after(longest, resolve)
      this.#awaitRoom.push(() => {
        cancel()
        resolve()
      })
    })
  }

  #mostOfTheRoom(size: number, measured: Measured): string | undefined {
    const spare = spareOf(measured)
    // Other contents are not removed for a download that takes most of the room by itself.
    if (spare >= measured.floor / 2 || size <= (spare + measured.stored) / 2) return undefined
    return `${size} bytes are more than half of what may be used of the file system`
  }

  /** Why no content can be stored although contents may be removed; undefined when contents can be stored. */
  get full(): string | undefined {
    const measured = this.#measure()
    if (spareOf(measured) >= 0 || !(measured.foreign || this.#vain)) return undefined
    const { free, floor } = measured
    const filled = `${size(Math.max(0, free))} of the file system are free, and retention.free keeps ${size(floor)}`
    return measured.foreign
      ? `other programs fill the file system: ${filled}`
      : `removing contents frees no space: ${filled}`
  }

  /** The figures for a forecast, and the limit that is reached first. */
  forecast(): Pick<Forecast, 'stored' | 'free' | 'floor' | 'size'> & {
    readonly nearest: 'quota' | 'floor'
  } {
    const measured = this.#measure()
    const { stored, free, floor } = measured
    const { size } = this.rules
    const known = Number.isFinite(free) ? free : undefined
    return { stored, free: known, floor, size, nearest: this.#nearest(measured) }
  }

  #nearest({ stored, free, floor }: Measured): 'quota' | 'floor' {
    const { size } = this.rules
    return size > 0 && size - stored <= free - floor ? 'quota' : 'floor'
  }

  /** Begins to make room in the background when contents take too much. */
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
        this.#wake()
      })
  }

  close(): void {
    this.#closing.abort(new Error('the store closes'))
    this.#wake()
    this.#cancelReport?.()
    this.#stopWatch?.()
  }

  #wake(): void {
    for (const resolve of this.#awaitRoom.splice(0)) resolve()
  }

  #tooLarge(length: number): string | undefined {
    const { objectSize, size } = this.rules
    if (objectSize > 0 && length > objectSize) {
      return `${length} bytes are more than retention.object_size`
    }
    if (size > 0 && length > size / 2) {
      return `${length} bytes are more than half of retention.size`
    }
    return undefined
  }

  /** Why nothing more may be written before room is made. */
  #lacking(measured: Measured): string | undefined {
    const short = spareOf(measured) < 0 ? 'too little of the file system is free' : undefined
    return this.#crowded(measured) ?? short
  }

  #crowded({ stored }: Measured): string | undefined {
    const { size } = this.rules
    if (size === 0 || stored <= size) return undefined
    return 'the stored files take more than retention.size, and room for it was not made in time'
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
      const reason = this.#nearest(this.#measure())
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
      this.#count(await removeContents(this.#parts, contents, signal), reason)
      if (this.#lacking(this.#measure()) === undefined) this.#wake()
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

  /** The rows of the first victims that together have `excess` bytes. A victim whose rank has changed since is passed over. */
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
    const { arrived, unwritten } = arrivals.bytes
    const stored = blobs.bytes + arrived
    const free = space.free(stored)
    const share = Math.min((space.latest?.total ?? 0) * floorShare, mostFloor)
    const floor = this.rules.free ?? share
    return { stored, unwritten, free, floor, foreign: free + stored < floor }
  }

  /** The number of bytes to remove so that this many headrooms are free. */
  #excess(headrooms: number, { stored, free, floor, foreign } = this.#measure()): number {
    const { size } = this.rules
    const headroom = Math.min(size * headroomShare, mostHeadroom) * headrooms
    const over = size > 0 ? stored - (size - headroom) : 0
    if (this.#vain || foreign) return over
    const ahead = (floor * (headrooms - 1)) / 8
    return Math.max(over, floor + ahead - free)
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

  /** Stops removing for the floor when a removal freed hardly any space, because more removals would only empty the cache. */
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

  #count(
    { contents, bytes }: { readonly contents: number; readonly bytes: number },
    reason: RemovalReason,
  ): void {
    this.#reasons.set(reason, (this.#reasons.get(reason) ?? 0) + contents)
    this.#removed.contents += contents
    this.#removed.bytes += bytes
    this.#cancelReport ??= this.#parts.clock.after(reportEvery, () => {
      this.#cancelReport = undefined
      this.#parts.log.info('retention: made room', {
        ...this.#removed,
        left: Math.max(0, Math.ceil(this.#excess(1))),
        because: reasonCounts(this.#reasons),
      })
      this.#removed = { contents: 0, bytes: 0 }
      this.#reasons = new Map()
    })
  }
}

/** Bytes of the file system that may still be used. Half of the floor may be used while room is being made. */
function spareOf({ free, floor }: Measured): number {
  return free - floor / 2
}

function onDisk({ stored, unwritten }: Measured): number {
  return stored - unwritten
}

type Arrival = Pick<Download, 'size' | 'stored' | 'file'>

/** Counts the bytes of downloads. */
export class Arrivals {
  readonly #growing = new Set<Arrival>()
  /** Downloads that are whole and being stored. Their bytes are summed up, because there may be hundreds and each new download asks. */
  readonly #whole = new Set<Arrival>()
  #wholeBytes = 0

  begin(download: Arrival): void {
    this.#growing.add(download)
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

  /** `unwritten` is the part of the arrived bytes that the disk does not have yet. */
  get bytes() {
    let arrived = this.#wholeBytes
    let unwritten = this.#wholeBytes
    for (const { size, stored, file } of this.#growing) {
      // The file of a download that is no longer stored takes space until the download closes it.
      if (!stored) arrived += file.file === undefined ? 0 : file.written
      else {
        arrived += size
        unwritten += size - file.written
      }
    }
    return { arrived, unwritten }
  }
}
