/**
 * Writes the members of a bundle to a directory or a tar archive, which has a temporary name until it is complete. The command may run
 * as root in a directory that others write to, so the temporary name is random and is created exclusively: nothing of others is
 * followed, overwritten or removed.
 */
import { randomBytes } from 'node:crypto'
import { type FileHandle, mkdir, open, readdir, rename, rm, rmdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Failure, systemCode } from '../../../errors.ts'
import { tarEnd, tarHeader, tarPadding } from './tar.ts'

type Pieces = AsyncIterable<Uint8Array> | Iterable<Uint8Array>

export interface Sink {
  /** Writes a member of this size. In an archive, shorter content is filled up. Longer content is an error. */
  member(name: string, size: number, content: Pieces): Promise<void>
  /** Removes a member whose content was wrong. In an archive it stays. */
  retract(name: string): Promise<void>
  /** Gives the bundle its name. */
  finish(): Promise<void>
  /** Removes the unfinished bundle. */
  abandon(): Promise<void>
}

/** Opens a tar archive if the name ends in `.tar`, else a directory. Throws a Failure when the path exists already. */
export async function openSink(path: string, now: number): Promise<Sink> {
  await mustNotExist(path)
  return path.endsWith('.tar') ? tarSink(path, now) : directorySink(path)
}

async function tarSink(path: string, now: number): Promise<Sink> {
  const part = temporaryName(path)
  const file = await open(part, 'wx')
  return {
    async member(name, size, content) {
      await file.writeFile(tarHeader(name, size, now))
      const written = await write(file, size, content)
      for (let left = size - written; left > 0; left -= filler.length) {
        await file.writeFile(filler.subarray(0, left))
      }
      await file.writeFile(tarPadding(size))
    },
    retract: async () => undefined,
    async finish() {
      await file.writeFile(tarEnd)
      await file.sync()
      await file.close()
      await rename(part, path)
    },
    async abandon() {
      await file.close()
      await rm(part, { force: true })
    },
  }
}

const filler = Buffer.alloc(64 * 1024)

async function directorySink(path: string): Promise<Sink> {
  const part = temporaryName(path)
  await mkdir(part)
  return {
    async member(name, size, content) {
      const to = join(part, name)
      await mkdir(dirname(to), { recursive: true })
      const file = await open(to, 'wx', 0o644)
      try {
        await write(file, size, content)
        await file.sync()
      } finally {
        await file.close()
      }
    },
    retract: name => rm(join(part, name), { force: true }),
    finish: () => rename(part, path),
    abandon: () => rm(part, { recursive: true, force: true }),
  }
}

function temporaryName(path: string): string {
  return `${path}.${randomBytes(6).toString('hex')}.part`
}

async function write(file: FileHandle, size: number, content: Pieces): Promise<number> {
  let written = 0
  for await (const piece of content) {
    written += piece.length
    if (written > size) throw new Error(`a content has more than its ${size} bytes`)
    await file.writeFile(piece)
  }
  return written
}

/** Throws when the path exists. An empty directory counts as none, and is removed. */
async function mustNotExist(path: string): Promise<void> {
  try {
    if ((await readdir(path)).length === 0) return await rmdir(path)
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return
    if (systemCode(error) !== 'ENOTDIR') throw error
  }
  const sentence = `${path} exists: name another place, or remove it first.`
  throw new Failure(sentence, { code: 'bundle-exists' })
}
