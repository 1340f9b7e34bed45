/** How much of a download is written at once, and that the origin never waits for a write that does not begin. */
import t, { type Test } from 'tap'
import { socketBlock } from '../../../../lib/bytes/block-pool.ts'
import { Piece } from '../../../../lib/bytes/piece.ts'
import { type Grown, grown, KiB, pieceIn, settle } from '../../../fixtures/store/growing.ts'
import { openBelow, until } from '../../../fixtures/store/opened.ts'

const MiB = 1024 * KiB

/** Nothing is left of a download that is over and that no reader reads. */
async function leavesNothing(t: Test, { pool, directory, ended }: Grown): Promise<void> {
  await until(() => ended() && pool.used === 0)
  await until(async () => (await openBelow(directory)).length === 0)
  t.equal(pool.used, 0)
}

t.test('content that comes in small parts is written in large ones', async t => {
  const sizes: number[] = []
  const made = grown(t, {
    decide: call => {
      if (call === 'writev') sizes.push(made.download.size - made.download.file.written)
      return 'done'
    },
  })
  const { download, pool } = made
  for (let count = 0; count < 32; count += 1) {
    download.take(pieceIn(pool, Buffer.alloc(256 * KiB, count)))
    await settle()
  }
  await download.complete().kept
  t.ok(sizes.length > 0 && sizes.length <= 8)
  t.ok(
    sizes.every(size => size >= 1024 * KiB),
    sizes.join(),
  )
  await leavesNothing(t, made)
})

t.test('while others hold the blocks small parts are written, for the origin to go on', async t => {
  const made = grown(t, { memory: 8 * 1024 * KiB })
  const { download, pool } = made
  const others = Array.from({ length: 7 }, () => pool.take(socketBlock))
  t.ok(pool.scarce)
  for (let count = 0; count < 12; count += 1) {
    const ready = download.take(new Piece(Buffer.alloc(100 * KiB, count)))
    if (!ready) await new Promise<void>(resolve => download.whenReady(resolve))
  }
  await until(() => download.file.written > 512 * KiB)
  for (const other of others) other?.release()
  await download.complete().kept
  await leavesNothing(t, made)
})

t.test('blocks that come free while the file is being made hold no origin up', async t => {
  const made = grown(t, {
    memory: 8 * 1024 * KiB,
    decide: call => (call === 'open' ? 'hang' : 'done'),
  })
  const { download, pool, scripted } = made
  const others = Array.from({ length: 7 }, () => pool.take(socketBlock))
  while (download.take(new Piece(Buffer.alloc(100 * KiB)))) t.ok(download.size < MiB)
  let ready = false
  download.whenReady(() => {
    ready = true
  })
  t.notOk(ready)
  for (const other of others) other?.release()
  scripted.decide = () => 'done'
  scripted.release()
  await until(() => ready)
  await download.complete().kept
  await leavesNothing(t, made)
})

t.test(
  'blocks that become scarce before the origin waits hold it up no longer than a write',
  async t => {
    const made = grown(t, { memory: 8 * 1024 * KiB })
    const { download, pool } = made
    for (let count = 0; count < 8; count += 1) {
      t.ok(download.take(new Piece(Buffer.alloc(100 * KiB))))
    }
    const others = Array.from({ length: 7 }, () => pool.take(socketBlock))
    await new Promise<void>(resolve => download.whenReady(resolve))
    for (const other of others) other?.release()
    await download.complete().kept
    await leavesNothing(t, made)
  },
)
