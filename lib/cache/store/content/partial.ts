/**
 * Large downloads that a crash has broken off, kept so that they can be continued.
 *
 * # Format
 * Beside `tmp/<name>.part` lies `tmp/<name>.json`, a line of JSON with its checksum (record.ts), written whole after the
 * first `bytes` of the other file were flushed:
 *
 *     {"partial":1,"key":"http://…","fields":{"ETag":"\"1\""},"length":104857600,"bytes":16777216,"sha256":"9f86…"}
 *
 * The bytes are hashed again before they are used.
 */
import { basename, join } from 'node:path'
import { isCount, isRecord } from '../../../json.ts'
import { seal, unseal } from '../catalogue/record.ts'
import { type Disk, type DiskFile, DiskHung, type Surroundings } from '../disk/disk.ts'
import { isDigest, temporarySuffix } from '../disk/layout.ts'
import type { Expectation } from './expectation.ts'

/** What a download is to be continued by. */
export interface Continuation {
  readonly key: string
  /** Fields of the origin's response by name: what the next request is made of, and the entry. */
  readonly fields: Readonly<Record<string, string>>
}

/** What lies in the directory. */
export interface Partial extends Continuation {
  readonly path: string
  readonly length: number | undefined
  readonly bytes: number
  readonly sha256: string
}

const version = 1

/** A smaller download is fetched again. */
export const worthKeeping = 8 * 1024 * 1024

const sidecarSuffix = '.json'

/** Notes what the file of a download has for certain. Rejects when the disk fails. */
export async function savePartial(disk: Disk, { path, ...partial }: Partial): Promise<void> {
  const sidecar = sidecarOf(path)
  const file = await disk.open(`${sidecar}.new`, 'writing')
  try {
    await file.truncate(0)
    await file.put(seal({ partial: version, ...partial }), 0)
  } finally {
    file.close()
  }
  await disk.rename(`${sidecar}.new`, sidecar)
}

/** What crashes have left of large downloads, until it is continued or removed. */
export class Partials {
  readonly #around: Pick<Surroundings, 'disk' | 'layout'>
  #byKey: Map<string, Partial> = new Map()
  /** Those that are just being read again. */
  readonly #resuming = new Set<Partial>()

  constructor(around: Pick<Surroundings, 'disk' | 'layout'>) {
    this.#around = around
  }

  /**
   * Finds what an earlier process left, to be continued; everything else in the directory goes. Answers how much that was. Only
   * for the owner of the directory, before it writes.
   */
  async find(): Promise<number> {
    const { disk, layout } = this.#around
    const names = await disk.names(layout.temporary)
    for (const name of names.filter(one => one.endsWith(sidecarSuffix))) {
      const part = `${basename(name, sidecarSuffix)}${temporarySuffix}`
      const path = join(layout.temporary, part)
      const found = names.includes(part) ? await readSidecar(disk, path) : undefined
      const other = found && this.#byKey.get(found.key)
      if (found !== undefined && (other === undefined || other.bytes < found.bytes)) {
        this.#byKey.set(found.key, found)
      }
    }
    const kept = new Set([...this.#byKey.values()].flatMap(({ path }) => [path, sidecarOf(path)]))
    const rest = names.map(name => join(layout.temporary, name)).filter(path => !kept.has(path))
    for (const path of rest) await disk.removeTree(path)
    return rest.length
  }

  get(key: string): Partial | undefined {
    return this.#byKey.get(key)
  }

  /** Takes one out, to be continued or removed. Answers whether it was still there. */
  take({ key }: Partial): boolean {
    return this.#byKey.delete(key)
  }

  get bytes(): number {
    let sum = 0
    for (const { bytes } of this.#byKey.values()) sum += bytes
    for (const { bytes } of this.#resuming) sum += bytes
    return sum
  }

  isResuming(path: string): boolean {
    return [...this.#resuming].some(partial => isOf(path, partial.path))
  }

  /** Removes one of them. Answers whether there was any. Rejects when the disk fails. */
  async drop(): Promise<boolean> {
    const [partial] = this.#byKey.values()
    if (partial === undefined) return false
    this.take(partial)
    await this.remove(partial)
    return true
  }

  /** Removes the files of one that will not be continued. Rejects when the disk fails. */
  async remove({ path }: Pick<Partial, 'path'>): Promise<void> {
    const { disk } = this.#around
    await disk.remove(sidecarOf(path))
    await disk.remove(path)
  }

  /** A file in the directory of downloads was removed. */
  removed(path: string): void {
    for (const partial of this.#byKey.values()) if (isOf(path, partial.path)) this.take(partial)
  }

  /** The download of this key is fetched anew: what there is of it is not wanted. */
  forget(key: string): void {
    const partial = this.#byKey.get(key)
    if (partial === undefined) return
    this.take(partial)
    void this.remove(partial).catch(() => undefined)
  }

  /**
   * Opens the file of one that was taken, to go on writing behind what it has, and has the expectation hash that. Undefined when
   * the bytes are not those that were written.
   */
  async reopen(partial: Partial, expectation: Expectation): Promise<DiskFile | undefined> {
    this.#resuming.add(partial)
    try {
      return await openPartial(this.#around.disk, partial, expectation)
    } finally {
      this.#resuming.delete(partial)
    }
  }
}

async function openPartial(
  disk: Disk,
  { path, bytes, sha256 }: Partial,
  expectation: Expectation,
): Promise<DiskFile | undefined> {
  const file = await disk.open(path, 'writing')
  let right = false
  try {
    for (let at = 0; at < bytes; ) {
      const piece = await file.bytes(at, Math.min(pieceBytes, bytes - at))
      if (piece.length === 0) break
      at += piece.length
      expectation.update(piece, at)
    }
    if (expectation.digestSoFar() !== sha256) return undefined
    await file.truncate(bytes)
    right = true
    return file
  } finally {
    if (!right) file.close()
  }
}

const pieceBytes = 1024 * 1024

/** What cannot be read is no reason not to start. */
async function readSidecar(disk: Disk, path: string): Promise<Partial | undefined> {
  let file: DiskFile | undefined
  try {
    file = await disk.open(sidecarOf(path), 'reading')
    const { size } = await file.look()
    const value = unseal(await file.bytes(0, Math.min(size, mostSidecar)))
    if (value?.['partial'] !== version) return undefined
    const { key, fields, length, bytes, sha256 } = value
    if (typeof key !== 'string' || !isTexts(fields) || !isCount(bytes)) return undefined
    if (typeof sha256 !== 'string' || !isDigest(sha256)) return undefined
    if (length !== undefined && !isCount(length)) return undefined
    return { path, key, fields, length, bytes, sha256 }
  } catch (error) {
    if (error instanceof DiskHung) throw error
    return undefined
  } finally {
    file?.close()
  }
}

const mostSidecar = 64 * 1024

function isTexts(value: unknown): value is Readonly<Record<string, string>> {
  return isRecord(value) && Object.values(value).every(one => typeof one === 'string')
}

/** The file beside a temporary one. */
export function sidecarOf(path: string): string {
  return `${path.slice(0, -temporarySuffix.length)}${sidecarSuffix}`
}

/** Whether a path is that of a temporary file or of the file beside it. */
export function isOf(path: string, temporary: string): boolean {
  return path === temporary || path === sidecarOf(temporary)
}
