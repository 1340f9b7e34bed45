/**
 * The record of which client was given which package, for `cachesvc recall`.
 *
 * # Files
 * `given/2026-11-29.v1` has a line for each client and package of that day (UTC), the first time it was given:
 *
 *     1795953600 192.0.2.17 xz-utils/xz-utils_5.6.0-0.2_amd64.deb
 *
 * Lines are appended once a second, so that a crash loses those of a second, and may leave a part of a line, which does not count. Files
 * of more than `days` days ago are deleted, and the oldest ones when all have more than `mostBytes`.
 */
import { createReadStream } from 'node:fs'
import { appendFile, mkdir, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { type Clock, day, type Milliseconds } from '../../../async/clock.ts'
import { repeat } from '../../../async/repeat.ts'
import { explainError, valueUnlessMissing } from '../../../errors.ts'
import type { Exchange } from '../../../http/message/message.ts'
import type { Logger } from '../../../log/log.ts'

interface RecordParts {
  readonly cacheDirectory: string
  readonly clock: Clock
  readonly log: Logger
  readonly isOn: () => boolean
}

const interval: Milliseconds = 1000
const days = 90
const mostBytes = 128 * 1024 * 1024
/** The most lines that wait; and beyond so many, a client may be noted for the same package twice a day. */
const most = 50_000

export class GivenRecord {
  readonly #parts: RecordParts
  readonly #directory: string
  /** The clients that are noted for a key. */
  readonly #seen = new Map<string, Set<string>>()
  #seenClients = 0
  #lines: string[] = []
  /** The file of the day, and whether it is recorded, for which old files were last deleted. */
  #tidied = ''
  #failing = false
  #writing: Promise<void> = Promise.resolve()
  readonly #stop: () => void

  constructor(parts: RecordParts) {
    this.#parts = parts
    this.#directory = join(parts.cacheDirectory, directoryName)
    this.#stop = repeat(parts.clock, interval, () => this.flush())
  }

  /** Notes a package that was sent whole, or a part of it, which may be its end. */
  note({ request, response: { status, facts = {} }, complete }: Exchange): void {
    const { kind, key, outcome } = facts
    const { address } = request.client
    if (kind !== 'pool' || typeof key !== 'string' || request.method !== 'GET') return
    const seen = this.#seen.get(key)
    if (seen?.has(address) === true || this.#lines.length >= most || !this.#parts.isOn()) return
    if (outcome !== 'hit' && outcome !== 'miss') return
    if (!(status === 206 || (status === 200 && complete))) return
    if (this.#seenClients >= most) this.#forget()
    this.#seenClients += 1
    this.#seen.set(key, (seen ?? new Set()).add(address))
    const [tail] = /[^/?]*\/[^/?]*(?=$|\?)/.exec(key) ?? []
    this.#lines.push(`${Math.floor(this.#parts.clock.now() / 1000)} ${address || '-'} ${tail}\n`)
  }

  #forget(): void {
    this.#seen.clear()
    this.#seenClients = 0
  }

  /** Writes the lines that wait. Those that cannot be written wait on. Never rejects. */
  flush(): Promise<void> {
    this.#writing = this.#writing.then(async () => {
      const lines = this.#lines.splice(0)
      try {
        await this.#write(lines)
        this.#failing = false
      } catch (error) {
        this.#lines = [...lines, ...this.#lines].slice(0, most)
        const about = { because: explainError(error) }
        if (!this.#failing) this.#parts.log.warn('cannot record what clients are given', about)
        this.#failing = true
      }
    })
    return this.#writing
  }

  async close(): Promise<void> {
    this.#stop()
    await this.flush()
  }

  async #write(lines: readonly string[]): Promise<void> {
    const { clock, isOn } = this.#parts
    const directory = this.#directory
    const path = join(directory, fileName(clock.now()))
    const isNew = this.#tidied !== `${path} ${isOn()}`
    if (isNew) {
      this.#forget()
      await (isOn() ? this.#removeOld() : rm(directory, { recursive: true, force: true }))
    }
    if (isOn() && (isNew || lines.length > 0)) {
      await mkdir(directory, { recursive: true, mode: 0o700 })
      // The line end completes what a crash may have left.
      await appendFile(path, (isNew ? '\n' : '') + lines.join(''), { mode: 0o600 })
    }
    this.#tidied = `${path} ${isOn()}`
  }

  /** Deletes files of too many days ago, and the oldest of too many bytes. */
  async #removeOld(): Promise<void> {
    const first = fileName(this.#parts.clock.now() - days * day)
    let bytes = 0
    for (const name of await recordFiles(this.#directory)) {
      const path = join(this.#directory, name)
      bytes += (await stat(path)).size
      if (name < first || bytes > mostBytes) await rm(path, { force: true })
    }
  }
}

const directoryName = 'given'
const suffix = '.v1'

function fileName(at: Milliseconds): string {
  return `${new Date(at).toISOString().slice(0, 10)}${suffix}`
}

/** The names of the files, the newest day first. */
async function recordFiles(directory: string): Promise<readonly string[]> {
  const names = (await valueUnlessMissing(readdir(directory))) ?? []
  return names
    .filter(name => name.endsWith(suffix))
    .sort()
    .reverse()
}

/** A package that a client was given. */
export interface GivenPackage {
  readonly client: string
  readonly at: Milliseconds
  /** The last directory and the name of the file. */
  readonly file: string
}

/** Reads the record of a cache directory. */
export async function* givenPackages(cacheDirectory: string): AsyncGenerator<GivenPackage> {
  const directory = join(cacheDirectory, directoryName)
  for (const name of await recordFiles(directory)) {
    for await (const line of createInterface(createReadStream(join(directory, name)))) {
      const [, at, client, file] = /^(\d{10}) (\S+) (\S+)$/.exec(line) ?? []
      if (client !== undefined && file !== undefined) yield { client, at: Number(at) * 1000, file }
    }
  }
}
