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
import type { Disk, DiskFile } from '../disk/disk.ts'
import { isDigest, type Layout, temporarySuffix } from '../disk/layout.ts'
import { DiskHung } from '../disk/slots.ts'
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

/** Removes what there is of a download that will not be continued. */
export async function removePartial(disk: Disk, path: string): Promise<void> {
  await disk.remove(sidecarOf(path))
  await disk.remove(path)
}

/**
 * The partial downloads an earlier process left, by key; everything else in the directory goes. Answers also how much that was.
 * Only for the owner of the directory, before it writes.
 */
export async function findPartials(
  disk: Disk,
  layout: Layout,
): Promise<{ readonly partials: Map<string, Partial>; readonly removed: number }> {
  const partials = new Map<string, Partial>()
  const names = await disk.names(layout.temporary)
  for (const name of names.filter(one => one.endsWith(sidecarSuffix))) {
    const stem = basename(name, sidecarSuffix)
    const part = `${stem}${temporarySuffix}`
    const path = join(layout.temporary, part)
    const found = names.includes(part) ? await readSidecar(disk, path) : undefined
    const other = found && partials.get(found.key)
    if (found !== undefined && (other === undefined || other.bytes < found.bytes)) {
      partials.set(found.key, found)
    }
  }
  const kept = new Set([...partials.values()].flatMap(({ path }) => [path, sidecarOf(path)]))
  const rest = names.map(name => join(layout.temporary, name)).filter(path => !kept.has(path))
  for (const path of rest) await disk.removeTree(path)
  return { partials, removed: rest.length }
}

/**
 * Opens the file to go on writing behind what it has, and has the expectation hash that. Undefined when the bytes are not
 * those that were written.
 */
export async function openPartial(
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
