import { createHash } from 'node:crypto'
import { mkdir, rm, truncate, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { BlockPool, fileBlock, socketBlock } from '../../../../lib/bytes/block-pool.ts'
import { iterate, type Source } from '../../../../lib/bytes/source.ts'
import {
  type Extent,
  OpenContent,
  OpenFiles,
  SharedBlocks,
} from '../../../../lib/cache/store/content/open-content.ts'
import { Disk, Layout } from '../../../../lib/cache/store/disk/disk.ts'
import { silentLog } from '../../../../lib/log/log.ts'
import { scriptedFiles } from '../../../fixtures/store/files.ts'
import { bytesOf, collect, openBelow, until } from '../../../fixtures/store/opened.ts'
import { ManualClock } from '../../../fixtures/time/manual-clock.ts'

interface Made {
  readonly content: OpenContent
  readonly bytes: Buffer
  readonly pool: BlockPool
  readonly scripted: ReturnType<typeof scriptedFiles>
  readonly path: string
  reads(): number
  idle(): boolean
  extent: Extent
}

/** A test that leaves neither readers nor blocks behind. */
function trial(
  name: string,
  body: (t: Test, make: (size: number, limit?: number) => Promise<Made>) => Promise<void>,
): void {
  t.test(name, async t => {
    const directory = t.testdir({})
    const opened: Made[] = []
    await body(t, async (size, limit) => {
      const one = await made(directory, size, limit)
      opened.push(one)
      return one
    })
    for (const { content, pool, idle } of opened) {
      t.equal(pool.used, 0, 'no block is left')
      t.ok(idle())
      // The file stays open as long as it has a reader.
      content.close()
    }
    await until(async () => (await openBelow(directory)).length === 0)
  })
}

async function made(directory: string, size: number, limit = 64 * 1024 * 1024): Promise<Made> {
  const path = join(directory, 'content')
  const bytes = bytesOf(size)
  await writeFile(path, bytes)
  const scripted = scriptedFiles()
  const disk = new Disk({ clock: new ManualClock(0), files: scripted.files })
  const pool = new BlockPool({ limit })
  const file = await disk.open(path, 'reading')
  let idle = false
  const content = new OpenContent(
    file,
    new SharedBlocks(pool),
    () => made.extent,
    () => {
      idle = true
    },
  )
  const reads = () => scripted.calls.filter(call => call.startsWith('readv')).length
  const made: Made = {
    content,
    bytes,
    pool,
    scripted,
    path,
    reads,
    idle: () => idle,
    extent: { readable: size, whole: true },
  }
  return made
}

const all = (source: Source): Promise<Buffer> => collect(iterate(source))

/** A reader driven by hand. */
function stepwise(source: Source) {
  const blocks = iterate(source)
  let size = 0
  return {
    async upTo(wanted: number) {
      while (size < wanted) {
        const { done, value } = await blocks.next()
        if (done === true) return
        size += value.length
      }
    },
    leave: () => blocks.return?.(),
  }
}

trial('the whole and every part come as they are, in large reads', async (t, make) => {
  const size = 10 * fileBlock + 77
  const { content, bytes, reads } = await make(size)
  t.ok((await all(content.read(0, size))).equals(bytes))
  t.equal(reads(), 3)
  const parts: [number, number][] = [
    [0, 1],
    [size - 1, size],
    [5, 5],
    [fileBlock - 1, fileBlock + 1],
    [fileBlock, 3 * fileBlock],
    [100, size - 100],
    [3 * fileBlock + 5, size],
  ]
  for (const [first, end] of parts) {
    t.ok(
      (await all(content.read(first, end))).equals(bytes.subarray(first, end)),
      `${first}-${end}`,
    )
  }
})

trial('readers who are near each other share what was read', async (t, make) => {
  const size = 12 * fileBlock
  const { content, bytes, reads } = await make(size)
  const found = await Promise.all(Array.from({ length: 6 }, () => all(content.read(0, size))))
  t.ok(found.every(one => one.equals(bytes)))
  t.equal(reads(), 3, 'as many reads as one of them makes')
})

trial(
  'one that is a little behind takes what was kept, one far behind reads again',
  async (t, make) => {
    const size = 100 * fileBlock
    const { content, reads, pool } = await make(size)
    const ahead = stepwise(content.read(0, size))
    const behind = stepwise(content.read(0, size))
    await ahead.upTo(40 * fileBlock)
    const before = reads()
    await behind.upTo(30 * fileBlock)
    t.equal(reads(), before)
    await ahead.upTo(size)
    t.ok(pool.used <= 70 * fileBlock, 'memory stays bounded')
    await behind.upTo(size)
    t.ok(reads() > 25)
    await ahead.leave()
    await behind.leave()
  },
)

trial(
  'a reader alone keeps nothing, and one that leaves takes along what was read for it',
  async (t, make) => {
    const size = 40 * fileBlock
    const { content, pool } = await make(size)
    const reader = stepwise(content.read(0, size))
    await reader.upTo(20 * fileBlock)
    t.ok(pool.used <= 8 * fileBlock)
    await reader.leave()
    const leaving = content.read(0, size)
    leaving.next(() => t.fail('it has left'))
    leaving.close()
    leaving.close()
    await until(() => pool.used === 0)
  },
)

trial('without blocks reading goes on in small pieces', async (t, make) => {
  const size = 5 * fileBlock + 9
  const { content, bytes, pool } = await make(size, 0)
  const taken = [pool.take(socketBlock), pool.take(socketBlock)]
  t.ok((await all(content.read(3, size))).equals(bytes.subarray(3)))
  for (const block of taken) block?.release()
  t.ok((await all(content.read(3, size))).equals(bytes.subarray(3)), 'one at a time')
})

trial('what others keep gives way to what is needed now', async (t, make) => {
  const size = 8 * fileBlock
  const { content, bytes, pool } = await make(size, 16 * fileBlock)
  const [one, other] = [stepwise(content.read(0, size)), stepwise(content.read(0, size))]
  await one.upTo(4 * fileBlock)
  const taken = []
  for (let block = pool.take(socketBlock); block !== undefined; block = pool.take(socketBlock))
    taken.push(block)
  t.ok((await all(content.read(0, size))).equals(bytes))
  for (const block of taken) block.release()
  await one.leave()
  await other.leave()
})

trial('a file that is too short breaks off, and says so', async (t, make) => {
  const size = 20 * fileBlock
  const { content, path } = await make(size)
  const failures: Error[] = []
  const reader = stepwise(content.read(0, size, error => failures.push(error)))
  await reader.upTo(fileBlock)
  await truncate(path, 10 * fileBlock + 10)
  await t.rejects(reader.upTo(size), {
    name: 'ShortFile',
    message: `the file ends at byte ${10 * fileBlock + 10} and should reach ${size}`,
  })
  t.equal(failures.length, 1)
})

trial('a read that gives fewer bytes is gone on with', async (t, make) => {
  const size = 6 * fileBlock
  const { content, bytes, scripted } = await make(size)
  scripted.decide = (call, _about, count) =>
    call === 'readv' && count % 3 !== 0 ? { part: 100_000 } : 'done'
  t.ok((await all(content.read(0, size))).equals(bytes))
})

trial('an error is told to those who wait for it, and to no one later', async (t, make) => {
  const size = 6 * fileBlock
  const { content, bytes, scripted } = await make(size)
  for (const code of ['EIO', 'ESTALE']) {
    scripted.decide = () => ({ code })
    const both = [content.read(0, size), content.read(10, size), content.read(5, 9)].map(all)
    for (const one of both) await t.rejects(one, { code })
    scripted.decide = () => 'done'
    t.ok((await all(content.read(0, size))).equals(bytes))
  }
})

trial('a block is not used again while a read into it hangs', async (t, make) => {
  const size = 6 * fileBlock
  const { content, scripted, pool } = await make(size)
  scripted.decide = call => (call === 'readv' ? 'hang' : 'done')
  const source = content.read(0, size)
  source.next(() => t.fail('it has left'))
  source.close()
  t.equal(pool.used, 4 * fileBlock)
  scripted.release()
  await until(() => pool.used === 0)
})

trial('a file that grows is read as far as it goes', async (t, make) => {
  const size = 5 * fileBlock + 100
  const made1 = await make(size)
  const { content, bytes } = made1
  for (const readable of [10, fileBlock + 5, 3 * fileBlock, size]) {
    made1.extent = { readable, whole: false }
    t.ok(
      (await all(content.read(0, readable))).equals(bytes.subarray(0, readable)),
      String(readable),
    )
  }
  made1.extent = { readable: size, whole: true }
  t.ok((await all(content.read(7, size))).equals(bytes.subarray(7)))
})

trial(
  'a reader of the last bytes, who has not begun, makes the others keep nothing',
  async (t, make) => {
    const size = 12 * fileBlock
    const { content, bytes, pool } = await make(size)
    const cut = size - 64 * 1024
    const last = content.read(cut, size)
    const before = stepwise(content.read(0, cut))
    await before.upTo(10 * fileBlock)
    t.ok(pool.used <= 4 * fileBlock, `${pool.used} bytes of blocks`)
    await before.upTo(cut)
    await before.leave()
    t.ok((await all(last)).equals(bytes.subarray(cut)))
  },
)

t.test('a file that is read later is open from the start, and may lose its name', async t => {
  const directory = t.testdir({})
  const clock = new ManualClock(0)
  const disk = new Disk({ clock })
  const layout = new Layout(directory)
  const bytes = bytesOf(1000)
  const digest = createHash('sha256').update(bytes).digest('hex')
  await mkdir(dirname(layout.blob(digest)), { recursive: true })
  await writeFile(layout.blob(digest), bytes)
  const blocks = new SharedBlocks(new BlockPool({ limit: 64 * 1024 * 1024 }))
  const files = new OpenFiles({ clock, disk, layout, blocks, log: silentLog })
  const open = await files.open({ digest, size: bytes.length, first: 0, end: bytes.length })
  if (open === undefined) throw new Error('the file is not there')
  // Its time without readers is over, so that it is opened again.
  files.close()
  const source = open({ first: 900, end: 1000 })
  await until(async () => (await openBelow(directory)).length === 1)
  await rm(layout.blob(digest))
  t.ok((await all(source)).equals(bytes.subarray(900)))
  const left = open({ first: 0, end: 10 })
  left.close()
  files.close()
  await until(async () => (await openBelow(directory)).length === 0)
})
