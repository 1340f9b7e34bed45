/**
 * Reads a whole file within a bound, even when the path is not a regular file: a device never ends, a FIFO may have no writer,
 * and a file may grow while it is read.
 */
import { constants, type Stats } from 'node:fs'
import { systemFiles } from './file-calls.ts'

/** The content of a regular file of at most `limit` bytes. Throws what the file system throws, or a sentence about the file. */
export async function readBounded(
  path: string,
  limit: number,
  { open } = systemFiles,
): Promise<{ readonly bytes: Buffer; readonly stats: Stats }> {
  // O_NONBLOCK: opening a FIFO would otherwise wait for a writer.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    const stats = await file.stat()
    if (!stats.isFile()) throw new Error('it is not a regular file')
    if (stats.size > limit) throw new Error(tooLarge(limit))
    // Reading one byte more than the size shows whether the file has grown.
    const blocks: Buffer[] = []
    for (let size = 0; ; ) {
      const block = Buffer.alloc(Math.min(limit - size, Math.max(stats.size - size, 4096)) + 1)
      const { bytesRead } = await file.read(block, 0, block.length)
      if (bytesRead === 0) return { bytes: Buffer.concat(blocks), stats }
      size += bytesRead
      if (size > limit) throw new Error(tooLarge(limit))
      blocks.push(block.subarray(0, bytesRead))
    }
  } finally {
    await file.close()
  }
}

function tooLarge(limit: number): string {
  const unit = limit >= 1024 * 1024 ? `${limit / (1024 * 1024)} MiB` : `${limit} bytes`
  return `it is larger than ${unit}`
}
