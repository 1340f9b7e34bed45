/**
 * Content of any size that costs nothing to keep: the same block again and again.
 */
import { Readable } from 'node:stream'

const block = Buffer.alloc(64 * 1024, 'All work and no play makes a dull download. ')

/** A stream of exactly so many bytes, made as fast as they are read. */
export function flow(size: number): Readable {
  return Readable.from(blocks(size), { objectMode: false })
}

function* blocks(size: number): Generator<Buffer> {
  let left = size
  while (left > 0) {
    const part = left < block.length ? block.subarray(0, left) : block
    left -= part.length
    yield part
  }
}
