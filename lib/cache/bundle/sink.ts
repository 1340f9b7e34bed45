/**
 * Writes the members of a bundle to a directory or a tar archive, under a temporary name until it is whole.
 */
import { once } from 'node:events'
import { createWriteStream, type WriteStream } from 'node:fs'
import { mkdir, open, readdir, rename, rm, rmdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Failure, systemCode } from '../../errors.ts'
import { tarEnd, tarHeader, tarPadding } from './tar.ts'

export interface Sink {
  /** Writes a member of this size. Content that is shorter is filled up; what is longer is an error. */
  member(name: string, size: number, content: AsyncIterable<Uint8Array>): Promise<void>
  /** Forgets a member whose content was wrong, where that can be done. */
  retract(name: string): Promise<void>
  /** Gives the bundle its name. */
  finish(): Promise<void>
  /** Removes what there is of it. */
  abandon(): Promise<void>
}

/** A tar archive when the name ends in `.tar`, a directory otherwise. Throws a Failure when there is one already. */
export function openSink(path: string, now: number): Promise<Sink> {
  return path.endsWith('.tar') ? TarSink.open(path, now) : DirectorySink.open(path)
}

class TarSink implements Sink {
  readonly #path: string
  readonly #stream: WriteStream
  readonly #now: number

  private constructor(path: string, stream: WriteStream, now: number) {
    this.#path = path
    this.#stream = stream
    this.#now = now
  }

  static async open(path: string, now: number): Promise<TarSink> {
    await mustNotExist(path)
    const stream = createWriteStream(`${path}.part`, { flush: true })
    await once(stream, 'open')
    // Every write tells its error to the caller that waits for it.
    stream.on('error', () => undefined)
    return new TarSink(path, stream, now)
  }

  async member(name: string, size: number, content: AsyncIterable<Uint8Array>): Promise<void> {
    await this.#write(tarHeader(name, size, this.#now))
    const written = await sized(size, content, chunk => this.#write(chunk))
    for (let left = size - written; left > 0; left -= filler.length) {
      await this.#write(filler.subarray(0, Math.min(left, filler.length)))
    }
    await this.#write(tarPadding(size))
  }

  async retract(): Promise<void> {}

  async finish(): Promise<void> {
    await this.#write(tarEnd)
    this.#stream.end()
    await once(this.#stream, 'close')
    await rename(`${this.#path}.part`, this.#path)
  }

  async abandon(): Promise<void> {
    this.#stream.destroy()
    await rm(`${this.#path}.part`, { force: true })
  }

  async #write(bytes: Uint8Array): Promise<void> {
    if (bytes.length === 0) return
    await new Promise<void>((resolve, reject) => {
      this.#stream.write(bytes, error => (error ? reject(error) : resolve()))
    })
  }
}

const filler = Buffer.alloc(64 * 1024)

class DirectorySink implements Sink {
  readonly #path: string

  private constructor(path: string) {
    this.#path = path
  }

  static async open(path: string): Promise<DirectorySink> {
    await mustNotExist(path)
    await rm(`${path}.part`, { recursive: true, force: true })
    await mkdir(`${path}.part`)
    return new DirectorySink(path)
  }

  async member(name: string, size: number, content: AsyncIterable<Uint8Array>): Promise<void> {
    const path = this.#at(name)
    await mkdir(dirname(path), { recursive: true })
    const file = await open(path, 'wx', 0o644)
    try {
      await sized(size, content, async chunk => {
        await file.writeFile(chunk)
      })
      await file.sync()
    } finally {
      await file.close()
    }
  }

  retract(name: string): Promise<void> {
    return rm(this.#at(name), { force: true })
  }

  async finish(): Promise<void> {
    await rename(`${this.#path}.part`, this.#path)
  }

  abandon(): Promise<void> {
    return rm(`${this.#path}.part`, { recursive: true, force: true })
  }

  #at(name: string): string {
    return join(`${this.#path}.part`, name)
  }
}

/** Writes the content; answers how many bytes there were. */
async function sized(
  size: number,
  content: AsyncIterable<Uint8Array>,
  write: (chunk: Uint8Array) => Promise<void>,
): Promise<number> {
  let written = 0
  for await (const chunk of content) {
    written += chunk.length
    if (written > size) throw new Error(`a content has more than its ${size} bytes`)
    await write(chunk)
  }
  return written
}

/** An empty directory is taken for none. */
async function mustNotExist(path: string): Promise<void> {
  try {
    if ((await readdir(path)).length === 0) return await rmdir(path)
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return
    if (systemCode(error) !== 'ENOTDIR') throw error
  }
  throw new Failure(`${path} exists: name another place, or remove it first.`, {
    code: 'bundle-exists',
    fault: 'internal',
    publicText: 'The bundle exists already.',
  })
}
