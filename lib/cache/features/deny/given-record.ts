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
  /** The clients that are noted for a key. */
  readonly #seen = new Map<string, Set<string>>()
  #seenClients = 0
  readonly #lines: string[] = []
  /** The file of the day, and whether it is recorded, for which old files were last deleted. */
  #tidied = ''
  #failing = false
  #writing: Promise<void> = Promise.resolve()
  readonly #stop: () => void

  constructor(parts: RecordParts) {
    this.#parts = parts
    this.#stop = repeat(parts.clock, interval, () => this.flush())
  }

  /** Notes a package that was sent whole, or a part of it, which may be its end. */
  note({ request, response: { status, facts = {} }, complete }: Exchange): void {
    const { kind, key, outcome } = facts
    const { address } = request.client
    if (kind !== 'pool' || typeof key !== 'string' || request.method !== 'GET') return
    const seen = this.#seen.get(key) ?? new Set()
    if (seen.has(address) || this.#lines.length >= most || !this.#parts.isOn()) return
    const wasSent = status === 206 || (status === 200 && complete)
    if (!wasSent || (outcome !== 'hit' && outcome !== 'miss')) return
    if (this.#seenClients >= most) this.#forget()
    this.#seenClients += 1
    this.#seen.set(key, seen.add(address))
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
      const failed = await this.#write().then(() => undefined, explainError)
      if (failed !== undefined && !this.#failing)
        this.#parts.log.warn('cannot record what clients are given', { because: failed })
      this.#failing = failed !== undefined
    })
    return this.#writing
  }

  async close(): Promise<void> {
    this.#stop()
    await this.flush()
  }

  async #write(): Promise<void> {
    const { clock, isOn, cacheDirectory } = this.#parts
    const directory = join(cacheDirectory, directoryName)
    const path = join(directory, fileName(clock.now()))
    const tidied = `${path} ${isOn()}`
    const isNew = tidied !== this.#tidied
    if (isNew) this.#forget()
    if (!isOn()) {
      this.#lines.length = 0
      if (isNew) await rm(directory, { recursive: true, force: true })
    } else if (isNew || this.#lines.length > 0) {
      if (isNew) await removeOld(directory, clock.now())
      await mkdir(directory, { recursive: true, mode: 0o700 })
      const { length } = this.#lines
      // The line end completes what a crash may have left.
      await appendFile(path, (isNew ? '\n' : '') + this.#lines.join(''), { mode: 0o600 })
      this.#lines.splice(0, length)
    }
    this.#tidied = tidied
  }
}

/** Deletes files of too many days ago, and the oldest of too many bytes. */
async function removeOld(directory: string, now: Milliseconds): Promise<void> {
  const first = fileName(now - days * day)
  let bytes = 0
  for (const name of await recordFiles(directory)) {
    const path = join(directory, name)
    bytes += (await stat(path)).size
    if (name < first || bytes > mostBytes) await rm(path, { force: true })
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
