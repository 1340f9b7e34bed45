/**
 * Contents that come, are named, found wrong and removed at the same time, on a disk that refuses now and then: what an entry names is
 * there, what lies there without an entry is known and counted, and all of that goes when the disk lets it.
 */
import t from 'tap'
import { EntryTable } from '../../../../lib/cache/store/catalogue/entry-table.ts'
import { Blobs } from '../../../../lib/cache/store/content/blobs.ts'
import { isUnnamed } from '../../../../lib/cache/store/content/content-life.ts'
import { Disk, type End, Layout } from '../../../../lib/cache/store/disk/disk.ts'
import { StoreEvents } from '../../../../lib/cache/store/events.ts'
import { nameOf } from '../../../../lib/cache/store/key.ts'
import { silentLog } from '../../../../lib/log/log.ts'
import { type Chance, seeded } from '../../../fixtures/chance/seeded-random.ts'
import { MemoryFiles } from '../../../fixtures/store/memory-files.ts'
import { sha256 } from '../../../fixtures/store/opened.ts'
import { ManualClock } from '../../../fixtures/time/manual-clock.ts'

const { FIRST = '1', SEEDS = '10' } = process.env
const steps = 300
const directory = '/cache'
const contents = Array.from({ length: 12 }, (_, n) => Buffer.alloc(100 + n, `content ${n} `))
const keys = Array.from({ length: 8 }, (_, n) => `http://archive.example.org/pool/${n}_1_all.deb`)

/** Refuses what changes names, and what makes them certain, now and then. */
class RefusingFiles extends MemoryFiles {
  refuses = false
  opened = 0
  readonly #chance: Chance

  constructor(chance: Chance) {
    super(chance, directory)
    this.#chance = chance
  }

  override open(path: string, flags: number, mode: number, end: End<number>): void {
    const told: End<number> = (error, fd) => {
      if (!error) this.opened += 1
      end(error, fd)
    }
    this.#unless(told, () => super.open(path, flags, mode, told))
  }

  override close(fd: number, end: End<void>): void {
    this.opened -= 1
    super.close(fd, end)
  }

  override unlink(path: string, end: End<void>): void {
    this.#unless(end, () => super.unlink(path, end))
  }

  override rm(path: string, options: object, end: End<void>): void {
    this.#unless(end, () => super.rm(path, options, end))
  }

  override rename(from: string, to: string, end: End<void>): void {
    this.#unless(end, () => super.rename(from, to, end))
  }

  override fdatasync(fd: number, end: End<void>): void {
    this.#unless(end, () => super.fdatasync(fd, end))
  }

  #unless<T>(end: End<T>, act: () => void): void {
    if (!this.refuses || this.#chance.below(6) > 0) return act()
    const code = this.#chance.pick(['EACCES', 'EIO'])
    const refuse = () => (end as End<unknown>)(Object.assign(new Error(code), { code }), undefined)
    // Some turns later: a checkpoint may come while a file is being removed.
    void turnsOf(1 + this.#chance.below(5)).then(refuse)
  }
}

class Walk {
  readonly faults: string[] = []
  readonly #chance: Chance
  readonly #layout = new Layout(directory)
  readonly #clock = new ManualClock(0)
  readonly #files: RefusingFiles
  readonly #table = new EntryTable()
  readonly #events = new StoreEvents()
  readonly #disk: Disk
  readonly #blobs: Blobs
  readonly #work = new Set<Promise<unknown>>()

  constructor(seed: number) {
    this.#chance = seeded(seed)
    this.#files = new RefusingFiles(this.#chance)
    this.#disk = new Disk({ clock: this.#clock, files: this.#files })
    this.#blobs = new Blobs({
      ...{ disk: this.#disk, layout: this.#layout, clock: this.#clock, log: silentLog },
      journal: { table: this.#table, removeRows: rows => this.#removeRows(rows) },
      events: this.#events,
    })
    this.#events.listen({
      named: ({ digest }) => this.#blobs.named(digest),
      freed: ({ digest, size }) => this.#blobs.freed(digest, size),
    })
  }

  async run(): Promise<readonly string[]> {
    await this.#disk.makeDirectory(this.#layout.temporary)
    for (let round = 0; round < 3; round += 1) {
      this.#files.refuses = true
      for (let step = 0; step < steps; step += 1) {
        this.#step()
        await turnsOf(this.#chance.below(4))
      }
      this.#files.refuses = false
      await this.#settled()
      await this.#look(`round ${round}`)
    }
    // All that no entry names goes, in one removal each, and its name is free after a checkpoint.
    await Promise.all(this.#blobs.unnamed().map(one => this.#blobs.remove(one)))
    await this.#checkpoint()
    await this.#look('at the end')
    const left = this.#blobs.unnamed().length + this.#blobs.removed().length
    if (left > 0) this.faults.push(`${left} contents stay known`)
    if (this.#blobs.bytes !== this.#table.bytes) this.faults.push('bytes are counted too many')
    if (this.#files.opened > 0) this.faults.push(`${this.#files.opened} files stay open`)
    return this.faults
  }

  #step(): void {
    const blobs = this.#blobs
    const content = this.#chance.pick(contents)
    const digest = sha256(content)
    switch (this.#chance.below(15)) {
      case 0:
      case 1:
        return this.#start(this.#place(content))
      case 2:
      case 3:
        return this.#start(this.#commit(content))
      case 4:
      case 5:
        return this.#put(this.#chance.pick(keys), content)
      case 6: {
        const row = this.#table.find(nameOf(this.#chance.pick(keys)))
        if (row !== undefined) this.#removeRows([row])
        return
      }
      case 7:
      case 8: {
        const unnamed = blobs.unnamed()
        if (unnamed.length > 0) this.#start(blobs.remove(this.#chance.pick(unnamed)))
        return
      }
      case 9:
        return this.#start(this.#checkpoint())
      case 10:
        return this.#start(blobs.discard(digest))
      case 11:
        return this.#start(blobs.setAside(blobs.unnamed().slice(0, 2), new Error('full')))
      case 12:
        return this.#start(blobs.removeStray(digest))
      default:
        // The mark of a checkpoint that had nothing to flush.
        return blobs.marked(blobs.removed())
    }
  }

  #start(work: Promise<unknown>): void {
    const settled = work.catch(() => undefined)
    this.#work.add(settled)
    void settled.finally(() => this.#work.delete(settled))
  }

  async #settled(): Promise<void> {
    while (this.#work.size > 0) await Promise.all(this.#work)
  }

  #place(content: Buffer): Promise<boolean> {
    const about = { digest: sha256(content), size: content.length }
    const whole = this.#chance.below(40) > 0
    return this.#blobs.place(about, async file => {
      await file.put(content, 0)
      return whole
    })
  }

  async #commit(content: Buffer): Promise<void> {
    const path = this.#layout.temporaryFile()
    const file = await this.#disk.open(path, 'creating')
    try {
      await file.put(content, 0)
      await this.#blobs.commit(file, { path, digest: sha256(content), size: content.length })
    } finally {
      file.close()
    }
  }

  /** As the store puts an entry: only for a content that it has. */
  #put(key: string, content: Buffer): void {
    const digest = sha256(content)
    if (!this.#blobs.has(digest)) return
    const name = nameOf(key)
    const row = this.#table.find(name)
    const sizeBefore = row === undefined ? 0 : this.#table.size(row)
    const about = { name, offset: 0, length: 1, used: 0, digest, size: content.length }
    const freed = this.#table.put(about)
    this.#blobs.named(digest)
    if (freed !== undefined) this.#events.tell('freed', { digest: freed, size: sizeBefore })
  }

  #removeRows(rows: readonly number[]): readonly string[] {
    return rows.flatMap(row => {
      const size = this.#table.size(row)
      const digest = this.#table.remove(row)
      if (digest === undefined) return []
      this.#events.tell('freed', { digest, size })
      return [digest]
    })
  }

  async #checkpoint(): Promise<void> {
    const fresh = this.#blobs.takeFresh()
    const removed = this.#blobs.removed()
    for (const [digest, file] of fresh) {
      await this.#blobs.flush(digest, file).catch(() => this.#blobs.flushLater(digest))
    }
    await turnsOf(this.#chance.below(4))
    this.#blobs.marked(removed)
  }

  async #fileOf(digest: string): Promise<Buffer | undefined> {
    const file = await this.#disk.openIfThere(this.#layout.blob(digest))
    const bytes = await file?.bytes(0, 1000)
    file?.close()
    return bytes
  }

  /** Compares what is known of each content with its file. */
  async #look(when: string): Promise<void> {
    let unnamedBytes = 0
    for (const content of contents) {
      const digest = sha256(content)
      const state = this.#blobs.state(digest)
      const file = await this.#fileOf(digest)
      const fault = (what: string) => this.faults.push(`${when}: ${what}, and it is ${state}`)
      const named = this.#table.references(digest)
      if (named !== (state === 'named')) fault(named ? 'an entry names it' : 'no entry names it')
      if (['named', 'unused'].includes(state) && !file?.equals(content))
        fault('its file is not there')
      if (['absent', 'removed'].includes(state) && file !== undefined) fault('its file is there')
      if (isUnnamed(state)) unnamedBytes += file?.length ?? 0
    }
    if (this.#blobs.unnamedBytes < unnamedBytes) {
      this.faults.push(
        `${when}: ${unnamedBytes} bytes lie there, ${this.#blobs.unnamedBytes} counted`,
      )
    }
  }
}

async function turnsOf(count: number): Promise<void> {
  for (let turns = 0; turns < count; turns += 1) await new Promise(resolve => setImmediate(resolve))
}

t.test('what is known of contents agrees with their files, whatever the disk refuses', async t => {
  for (let seed = Number(FIRST); seed < Number(FIRST) + Number(SEEDS); seed += 1) {
    const faults = await new Walk(seed).run()
    if (faults.length > 0) t.fail(`seed ${seed}: ${faults.join('; ')}`)
  }
  t.pass(`${SEEDS} walks`)
})
