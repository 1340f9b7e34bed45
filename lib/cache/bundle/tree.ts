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
import { lstat, opendir } from 'node:fs/promises'
import { join, relative, sep } from 'node:path'
import { systemCode } from '../../errors.ts'
import { readBounded } from '../../files/bounded-file.ts'
import { Fields } from '../../http/message/field.ts'

/** A file below the directory. */
export interface FoundFile {
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
  readonly fields: Fields
}

/** Every file below a directory, heads left out. Throws when the directory itself cannot be read. */
export async function* filesBelow(directory: string): AsyncGenerator<FoundFile> {
  for await (const entry of await opendir(directory, { recursive: true })) {
    if (entry.isDirectory()) continue
    const absolute = join(entry.parentPath, entry.name)
    const path = relative(directory, absolute)
    const segments = path.split(sep)
    if (segments[0]?.startsWith('_') || entry.name.endsWith('.head')) continue
    const stats = await lstat(absolute).catch((error: unknown) => {
      if (systemCode(error) !== 'ENOENT') throw error
    })
    if (!stats) continue
    const { size, mtimeMs: modified } = stats
    yield { path, size, modified, isFile: stats.isFile(), partial: segments.includes('partial') }
  }
}

const mostHeadBytes = 64 * 1024

/** The head beside a file; undefined when there is none that can be read. */
export async function headOf(path: string): Promise<Head | undefined> {
  const found = await readBounded(`${path}.head`, mostHeadBytes).catch(() => undefined)
  const [first = '', ...lines] = found?.bytes.toString('latin1').split(/\r?\n/) ?? []
  const [, status] = /^HTTP\/1\.[01] (\d{3})(?: |$)/.exec(first) ?? []
  if (status === undefined) return undefined
  const fields: [string, string][] = []
  for (const line of lines) {
    if (line === '') break
    const [, name = '', value = ''] = /^([^:]+):[ \t]*(.*?)[ \t]*$/.exec(line) ?? []
    if (name !== '') fields.push([name, value])
  }
  return { status: Number(status), fields: Fields.of(...fields) }
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

/** A decoded URL as it is written in a request. */
export function encodedUrl(url: string): string {
  const [, begin = '', path = ''] = /^([a-z]+:\/\/[^/]*)(.*)$/s.exec(url) ?? []
  return begin + path.split('/').map(encodeURIComponent).join('/')
}
