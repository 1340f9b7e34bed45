import t from 'tap'
import {
  type Block,
  BlockPool,
  fileBlock,
  smallBlock,
  socketBlock,
} from '../../lib/bytes/block-pool.ts'
import { Piece } from '../../lib/bytes/piece.ts'

function taken(pool: BlockPool): Block {
  const block = pool.take(socketBlock)
  if (block === undefined) throw new Error('no block is free')
  return block
}

t.test('a block goes back when its last holder lets go, and is used again', t => {
  const pool = new BlockPool({ limit: 4 * socketBlock })
  const block = taken(pool)
  t.equal(block.memory.length, socketBlock)
  const piece = new Piece(block.memory.subarray(0, 10), block)
  const second = piece.slice(2, 4)
  piece.release()
  t.equal(pool.used, socketBlock)
  second.release()
  t.equal(pool.used, 0)
  t.equal(pool.take(socketBlock)?.memory, block.memory)
  t.end()
})

t.test('there are no more blocks than the limit, and who waits is told in turn', t => {
  const pool = new BlockPool({ limit: 2 * socketBlock })
  const first = pool.take(socketBlock)
  const second = pool.take(socketBlock)
  t.equal(pool.take(socketBlock), undefined)
  t.ok(pool.scarce)
  first?.release()
  second?.release()
  t.notOk(pool.scarce)
  t.end()
})

t.test('spare blocks of one size give way to the other', t => {
  const limit = 4 * socketBlock
  const pool = new BlockPool({ limit })
  const small = Array.from({ length: 8 }, () => pool.take(fileBlock))
  t.equal(pool.used, limit)
  for (const block of small) block?.release()
  const [large] = [pool.take(socketBlock)]
  const again = Array.from({ length: 6 }, () => pool.take(fileBlock))
  t.equal(
    new Set([...small, ...again].map(block => block?.memory)).size,
    8,
    'six are left of eight',
  )
  t.equal(pool.take(fileBlock), undefined)
  for (const block of again) block?.release()
  large?.release()
  t.end()
})

t.test('what was used last is kept when spare blocks of another size fill their share', t => {
  const all = 64
  const pool = new BlockPool({ limit: 2 * all * socketBlock })
  const large = Array.from({ length: all }, () => pool.take(socketBlock))
  for (const block of large) block?.release()
  const small = pool.take(smallBlock)
  small?.release()
  t.equal(pool.take(smallBlock)?.memory, small?.memory)
  const again = Array.from({ length: all }, () => pool.take(socketBlock)?.memory)
  const kept = new Set(large.map(block => block?.memory))
  t.equal(again.filter(memory => kept.has(memory)).length, all - 1)
  t.end()
})

t.test('it is scarce as soon as no block for a socket fits', t => {
  const pool = new BlockPool({ limit: socketBlock })
  t.notOk(pool.scarce)
  const block = pool.take(fileBlock)
  t.equal(pool.take(socketBlock), undefined)
  t.ok(pool.scarce)
  block?.release()
  t.end()
})

t.test('a block released too often is an error, before two owners write into it', t => {
  const block = new BlockPool({ limit: 0 }).take(socketBlock)
  block?.release()
  t.throws(() => block?.release(), /more often/)
  t.end()
})

t.test('pieces that lie side by side in one block become one', t => {
  const pool = new BlockPool({ limit: 0 })
  const block = taken(pool)
  block.retain()
  const left = new Piece(block.memory.subarray(0, 5), block)
  const right = new Piece(block.memory.subarray(5, 9), block)
  t.ok(left.precedes(right))
  t.notOk(right.precedes(left))
  t.notOk(new Piece(Buffer.alloc(5)).precedes(new Piece(Buffer.alloc(5))))
  block.memory.write('123456789', 'latin1')
  const both = left.joined(right)
  t.equal(both.bytes.toString('latin1'), '123456789')
  both.release()
  t.equal(pool.used, 0)
  t.end()
})
