/**
 * Files that somebody else may have put in place, read whole and within a bound: a device never ends, a FIFO never begins, and
 * a file may grow while it is read.
 */
import { constants, type Stats } from 'node:fs'
import { open } from 'node:fs/promises'

export interface BoundedFile {
  readonly bytes: Buffer
  readonly stats: Stats
}

/** The content of a regular file of at most `limit` bytes. Throws what the file system throws, or one sentence. */
export async function readBounded(path: string, limit: number): Promise<BoundedFile> {
  // O_NONBLOCK: opening a FIFO would otherwise wait for somebody to write into it.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    const stats = await file.stat()
    if (!stats.isFile()) throw new Error(`${path} is not a file`)
    if (stats.size > limit) throw new Error(tooLarge(path, limit))
    // One byte more than it says to have shows whether it has grown.
    const blocks: Buffer[] = []
    for (let size = 0; ; ) {
      const block = Buffer.alloc(Math.min(limit - size, Math.max(stats.size - size, 4096)) + 1)
      const { bytesRead } = await file.read(block, 0, block.length)
      if (bytesRead === 0) return { bytes: Buffer.concat(blocks), stats }
      size += bytesRead
      if (size > limit) throw new Error(tooLarge(path, limit))
      blocks.push(block.subarray(0, bytesRead))
    }
  } finally {
    await file.close()
  }
}

function tooLarge(path: string, limit: number): string {
  const unit = limit >= 1024 * 1024 ? `${limit / (1024 * 1024)} MiB` : `${limit} bytes`
  return `${path} is larger than ${unit}`
}
