/**
 * Finds the files below a directory, with what apt-cacher-ng noted about them. Reads no content.
 *
 * # Facts
 * - apt-cacher-ng keeps a file at `HOST/path`, or at `MIRROR/path` for mirrors it has merged under a name (`debrep`, `uburep`),
 *   with the path decoded. The port is not part of the name.
 * - Beside it stands `path.head` with the head of the response: the status, Content-Length, and X-Original-Source, the URL the
 *   file came from, with its path decoded.
 * - While a file arrives it already has its name, and is shorter than its Content-Length. apt keeps such files in `partial/`.
 * - Names at the top that begin with `_` are its own.
 */
import type { Stats } from 'node:fs'
import { lstat, opendir } from 'node:fs/promises'
import { join, relative, sep } from 'node:path'
import { readBounded } from '../../bounded-file.ts'
import { systemCode } from '../../errors.ts'

/** A file below the directory. */
export interface Found {
  /** From the directory on. */
  readonly path: string
  readonly size: number
  readonly modified: number
  readonly isFile: boolean
  /** Whether its name says that it is not whole. */
  readonly partial: boolean
}

/** The head that stands beside a file. */
export interface Head {
  readonly status: number
  readonly fields: ReadonlyArray<readonly [name: string, value: string]>
}

/** Every file below a directory, heads left out. Throws when the directory itself cannot be read. */
export async function* filesBelow(directory: string): AsyncGenerator<Found> {
  for await (const entry of await opendir(directory, { recursive: true })) {
    if (entry.isDirectory()) continue
    const absolute = join(entry.parentPath, entry.name)
    const path = relative(directory, absolute)
    const segments = path.split(sep)
    if (segments[0]?.startsWith('_') || entry.name.endsWith('.head')) continue
    const stats = await statsOf(absolute)
    if (stats === undefined) continue
    yield {
      path,
      size: stats.size,
      modified: stats.mtimeMs,
      isFile: stats.isFile(),
      partial: segments.includes('partial'),
    }
  }
}

async function statsOf(path: string): Promise<Stats | undefined> {
  try {
    return await lstat(path)
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined
    throw error
  }
}

const mostHeadBytes = 64 * 1024

/** The head beside a file; undefined when there is none that can be read. */
export async function headOf(path: string): Promise<Head | undefined> {
  let text: string
  try {
    const { bytes } = await readBounded(`${path}.head`, mostHeadBytes)
    text = bytes.toString('latin1')
  } catch {
    return undefined
  }
  const [first = '', ...lines] = text.split(/\r?\n/)
  const [, status] = /^HTTP\/1\.[01] (\d{3})(?: |$)/.exec(first) ?? []
  if (status === undefined) return undefined
  const fields: [string, string][] = []
  for (const line of lines) {
    if (line === '') break
    const [, name = '', value = ''] = /^([^:]+):[ \t]*(.*?)[ \t]*$/.exec(line) ?? []
    if (name !== '') fields.push([name, value])
  }
  return { status: Number(status), fields }
}

/**
 * The URL of a file by its place, decoded; undefined when its place tells none. Where the head names a source, the path must
 * agree with it, whatever the directory at the top is called.
 */
export function urlByPlace(path: string, source: string | undefined): string | undefined {
  const [top = '', ...rest] = path.split(sep)
  if (rest.length === 0) return undefined
  const below = rest.join('/')
  if (source !== undefined) {
    return /^https?:\/\//.test(source) && source.endsWith(`/${below}`) ? source : undefined
  }
  return /^[a-z0-9-]+(\.[a-z0-9-]+)+(:\d{1,5})?$/.test(top) ? `http://${top}/${below}` : undefined
}
