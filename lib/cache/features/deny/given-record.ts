/**
 * The record of which client was given which package, for `cachesvc recall`.
 *
 * # Files
 * `given/2026-11-29.v1` has a line for each client and package of that day (UTC), the first time it was given:
 *
 *     1795953600 192.0.2.17 xz-utils/xz-utils_5.6.0-0.2_amd64.deb
 *
 * Lines are appended once a second, so that a crash loses those of a second. It may leave a part of a line, as may a full disk, so each
 * line begins with the line end of the one before. Files of more than `days` days ago are deleted, and the oldest ones when all would have
 * more than `mostBytes`. A day that has so many alone takes no more lines.
 */
import { createReadStream } from 'node:fs'
import { readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { type Clock, day, type Milliseconds } from '../../../async/clock.ts'
import { repeat } from '../../../async/repeat.ts'
import { explainError, valueUnlessMissing } from '../../../errors.ts'
import { appendOwned, makeDirectory } from '../../../files/directory-owner.ts'
import type { Exchange } from '../../../http/message/message.ts'
import { parseUri } from '../../../http/message/target.ts'
import type { Logger } from '../../../log/log.ts'
import { recentEntries } from '../../../recent.ts'
import { packageNamed } from '../../archive/package-file.ts'
import { plainUri } from './plain.ts'

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
  /** The keys and clients that are noted. */
  readonly #seen = recentEntries<string, true>(most)
  readonly #lines: string[] = []
  /** The bytes of all files. */
  #bytes = 0
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
    const { key, outcome } = facts
    const { address } = request.client
    if (typeof key !== 'string' || request.method !== 'GET') return
    const seen = `${address} ${key}`
    if (this.#seen.get(seen) || this.#lines.length >= most || !this.#parts.isOn()) return
    const wasSent = status === 206 || (status === 200 && complete)
    if (!wasSent || (outcome !== 'hit' && outcome !== 'miss')) return
    const uri = /\.(?:[ud]?deb|dsc)\b/.test(key) ? parseUri(key) : { problem: 'no package' }
    if ('problem' in uri) return
    const tail = plainUri(uri).path.split('/').slice(-2).join('/')
    if (packageNamed(tail) === undefined) return
    this.#seen.set(seen, true)
    this.#lines.push(`\n${Math.floor(this.#parts.clock.now() / 1000)} ${address || '-'} ${tail}`)
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
    const today = fileName(clock.now())
    const tidied = `${today} ${isOn()}`
    const isNew = tidied !== this.#tidied
    if (isNew && !this.#failing) this.#seen.clear()
    if (!isOn()) {
      this.#lines.length = 0
      if (isNew) await rm(directory, { recursive: true, force: true })
    } else if (isNew || this.#lines.length > 0) {
      await makeDirectory(directory, 0o700)
      const { length } = this.#lines
      const text = this.#lines.join('')
      const room = mostBytes - text.length
      if (isNew || this.#bytes > room) this.#bytes = await removeOld(directory, clock.now(), room)
      if (this.#bytes > room) throw new Error(`${today} is full`)
      await appendOwned(join(directory, today), text, 0o600)
      this.#bytes += text.length
      this.#lines.splice(0, length)
    }
    this.#tidied = tidied
  }
}

/** Deletes files of too many days ago, and the oldest of those that have too many bytes. Answers the bytes of the others. */
async function removeOld(directory: string, now: Milliseconds, room: number): Promise<number> {
  const [first, today] = [fileName(now - days * day), fileName(now)]
  let [bytes, rest] = [0, 0]
  for (const name of await recordFiles(directory)) {
    const path = join(directory, name)
    const { size } = await stat(path)
    bytes += size
    if (name < first || (bytes > room && name !== today)) await rm(path, { force: true })
    else rest += size
  }
  return rest
}

const directoryName = 'given'
const suffix = '.v1'

function fileName(at: Milliseconds): string {
  return `${new Date(at).toISOString().slice(0, 10)}${suffix}`
}

/** The names of the files, the newest day first. */
async function recordFiles(directory: string): Promise<readonly string[]> {
  const found = await valueUnlessMissing(readdir(directory, { withFileTypes: true }))
  const files = (found ?? []).filter(one => one.isFile() && one.name.endsWith(suffix))
  return files
    .map(({ name }) => name)
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
