import t from 'tap'
import {
  largeBlock,
  ReadAhead,
  type ReadableFile,
  ShortFile,
  smallBlock,
  trialBytes,
} from '../../../../lib/cache/store/content/blocks.ts'

/** A file of zeros that tells how much was asked of it. */
class Zeros implements ReadableFile {
  readonly size: number
  readonly buffers = new Set<Buffer>()
  reads = 0

  constructor(size: number) {
    this.size = size
  }

  async read(
    buffer: Buffer,
    _offset: number,
    length: number,
    position: number,
  ): Promise<{ bytesRead: number }> {
    this.reads += 1
    this.buffers.add(buffer)
    return { bytesRead: Math.max(0, Math.min(length, this.size - position)) }
  }
}

t.test('blocks are small until the reader has shown that it reads, then large', async t => {
  const file = new Zeros(trialBytes + 10 * largeBlock + 5)
  const blocks = new ReadAhead(file, 0, file.size)
  const sizes: number[] = []
  for (let block = await blocks.next(); block !== undefined; block = await blocks.next()) {
    sizes.push(block.length)
  }
  await blocks.close(true)
  const small = trialBytes / smallBlock
  t.ok(sizes.slice(0, small).every(size => size === smallBlock))
  t.ok(sizes.slice(small, -1).every(size => size === largeBlock))
  t.equal(sizes.at(-1), 5)
  t.equal(
    sizes.reduce((sum, size) => sum + size, 0),
    file.size,
  )
  t.equal(file.buffers.size, 3, 'one small buffer and two large ones')
})

t.test('a reader that never asks again costs one small block and no read ahead', async t => {
  const file = new Zeros(100 * largeBlock)
  const blocks = new ReadAhead(file, 0, file.size)
  await blocks.next()
  await new Promise(resolve => setImmediate(resolve))
  t.equal(file.reads, 1)
  await blocks.close(false)
})

t.test('large blocks are bounded; readers that find none go on in small ones', async t => {
  const readers = Array.from({ length: 200 }, () => {
    const file = new Zeros(trialBytes + 10 * largeBlock)
    return { file, blocks: new ReadAhead(file, 0, file.size) }
  })
  const large = new Set<Buffer>()
  for (const { file, blocks } of readers) {
    for (let taken = 0; taken < trialBytes + largeBlock; ) {
      taken += (await blocks.next())?.length ?? Number.POSITIVE_INFINITY
    }
    for (const buffer of file.buffers) if (buffer.length === largeBlock) large.add(buffer)
  }
  t.equal(large.size, 128)
  for (const { file, blocks } of readers) {
    let rest = 0
    for (let block = await blocks.next(); block !== undefined; block = await blocks.next()) {
      rest += block.length
    }
    t.ok(rest <= file.size - trialBytes - largeBlock)
    await blocks.close(true)
  }
  const file = new Zeros(trialBytes + 3 * largeBlock)
  const blocks = new ReadAhead(file, 0, file.size)
  let last = 0
  for (let block = await blocks.next(); block !== undefined; block = await blocks.next()) {
    last = block.length
  }
  t.equal(last, largeBlock, 'what was given back is there for the next reader')
  await blocks.close(true)
})

t.test(
  'however it ends, a large block is given back or let go, so there are always more',
  async t => {
    for (let n = 0; n < 300; n += 1) {
      const file = new Zeros(trialBytes + 2 * largeBlock)
      // Every third file is shorter than it should be.
      const blocks = new ReadAhead(file, 0, file.size + (n % 3 === 0 ? largeBlock : 0))
      let size = 0
      try {
        for (let block = await blocks.next(); block !== undefined; block = await blocks.next()) {
          size = Math.max(size, block.length)
          if (n % 3 === 1 && size === largeBlock) break
        }
      } catch (error) {
        t.ok(error instanceof ShortFile)
      }
      if (size !== largeBlock) t.fail(`reader ${n} found no large block`)
      await blocks.close(n % 3 === 2)
    }
  },
)
