/**
 * The files of the bench: a path names its size, and from the path follow its bytes.
 * Nothing lies on disk, so the origin costs the same for a file that was never asked for.
 */
import { createHash } from 'node:crypto'
import { Noise } from '../../test/fixtures/chance/noise.ts'

/** A file in two pieces: its beginning, and a part of what all files share. */
export type Content = readonly [Buffer, Buffer]

const largest = 100_000_000
/** What a Debian package begins with: cachesvc does not store what does not. */
const magic = Buffer.from('!<arch>\n')

/** Path of a file of so many bytes. Files of different names have different bytes. */
export function pathOf(size: number, name: string): string {
  return `/debian/pool/main/b/bench/${name}.${size}_1.0_all.deb`
}

/** The same, sent at 50 MB/s. */
export function slowPathOf(size: number, name: string): string {
  return `/slow${pathOf(size, name)}`
}

/** Bytes a second of files below /slow/. */
export const slowRate = 50_000_000

export class Contents {
  readonly #noise = new Noise('bench').bytes(largest)

  /** The bytes of a path, or undefined when it names no file of the bench. */
  of(path: string): Content | undefined {
    const size = Number(/\.(\d+)_1\.0_all\.deb$/.exec(path)?.[1] ?? Number.NaN)
    if (Number.isNaN(size) || size > largest) return undefined
    const head = Buffer.concat([magic, createHash('sha256').update(path).digest()])
    return [head, this.#noise.subarray(head.length, size)]
  }
}
