import t from 'tap'
import { BlockPool, smallBlock, socketBlock } from '../../lib/bytes/block-pool.ts'
import { Landing, scratchBuffer } from '../../lib/bytes/landing.ts'
import type { Piece } from '../../lib/bytes/piece.ts'

function makeLanding(limit = 8) {
  const pool = new BlockPool({ limit: limit * socketBlock })
  return { pool, landing: new Landing(pool) }
}

/** A read of these bytes, as a piece. */
function reads(landing: Landing, bytes: Buffer, most?: number): Piece {
  const room = landing.room(most)
  bytes.copy(room)
  return landing.piece(landing.landed(bytes.length))
}

t.test('a small rest has memory of its own, exactly as much as it needs', t => {
  const { pool, landing } = makeLanding()
  t.equal(landing.room(5).length, 5)
  const first = reads(landing, Buffer.from('he'), 5)
  t.ok(landing.hasRoom(3))
  t.equal(landing.room(3).length, 3)
  const second = reads(landing, Buffer.from('llo'), 3)
  t.equal(pool.used, 0)
  t.ok(first.precedes(second))
  t.equal(first.joined(second).bytes.toString(), 'hello')
  t.end()
})

t.test('a large rest is read into blocks, which the pieces hold', t => {
  const { pool, landing } = makeLanding()
  const most = 10 * socketBlock
  t.equal(landing.room(most).length, socketBlock)
  const first = reads(landing, Buffer.alloc(socketBlock - 1000, 'a'), most)
  t.equal(landing.room(most).length, socketBlock, 'what little is left of a block is left')
  const second = reads(landing, Buffer.alloc(100, 'b'), most)
  t.equal(pool.used, 2 * socketBlock)
  landing.close()
  t.equal(pool.used, 2 * socketBlock)
  first.release()
  t.equal(second.bytes.toString(), 'b'.repeat(100))
  second.release()
  t.equal(pool.used, 0)
  t.end()
})

t.test('while little comes nothing is held, and what comes is copied', t => {
  const { pool, landing } = makeLanding()
  const piece = reads(landing, Buffer.from('event'))
  t.equal(landing.room().buffer, scratchBuffer().buffer)
  scratchBuffer().fill(0)
  t.equal(piece.bytes.toString(), 'event')
  t.equal(pool.used, 0)
  t.end()
})

t.test('when much comes it goes into blocks, and when it ebbs they are let go', t => {
  const { pool, landing } = makeLanding()
  const much = Buffer.alloc(200_000)
  reads(landing, much).release()
  t.equal(pool.used, 0)
  reads(landing, much).release()
  t.equal(pool.used, socketBlock)
  for (let i = 0; i < 3; i += 1) reads(landing, Buffer.from('a')).release()
  t.equal(pool.used, 0)
  t.end()
})

t.test('what comes at once is copied into a block, and less is read while blocks are scarce', t => {
  const { pool, landing } = makeLanding(2)
  const content = Buffer.alloc(100_000, 'c')
  const piece = reads(landing, content)
  scratchBuffer().fill(0)
  t.ok(piece.bytes.equals(content))
  t.ok(piece.keepsBlock)
  t.equal(pool.used, smallBlock, 'the connection itself keeps none')
  const held = pool.take(socketBlock)
  t.ok(pool.scarce)
  t.equal(landing.room().length, smallBlock)
  held?.release()
  piece.release()
  t.ok(landing.room().length > smallBlock)
  t.equal(pool.used, 0)
  t.end()
})

t.test('without a free block a read goes into ordinary memory', t => {
  const { pool, landing } = makeLanding(2)
  const held = [pool.take(socketBlock), pool.take(socketBlock)]
  const most = 10 * socketBlock
  t.equal(landing.room(most).length, smallBlock)
  reads(landing, Buffer.alloc(smallBlock), most).release()
  for (const block of held) block?.release()
  landing.room(most)
  t.equal(pool.used, socketBlock, 'and into a block as soon as there is one')
  landing.close()
  t.equal(pool.used, 0)
  t.end()
})

t.test('when blocks are scarce a large rest is read into small ones', t => {
  const { pool, landing } = makeLanding()
  while (!pool.scarce) pool.take(socketBlock)
  const { used } = pool
  const most = 10 * socketBlock
  t.equal(landing.room(most).length, smallBlock)
  const piece = reads(landing, Buffer.from('hello'), most)
  t.equal(pool.used, used + smallBlock)
  landing.close()
  piece.release()
  t.equal(pool.used, used)
  t.end()
})

t.test('what lay in shared memory is copied into a block of its size', t => {
  const { pool, landing } = makeLanding()
  const small = reads(landing, Buffer.alloc(smallBlock, 'a'))
  t.equal(pool.used, smallBlock)
  const large = reads(new Landing(pool), Buffer.alloc(smallBlock + 1, 'b'))
  t.equal(pool.used, smallBlock + socketBlock)
  small.release()
  large.release()
  t.equal(pool.used, 0)
  t.end()
})

t.test('a rest that fits a small block is read into one', t => {
  const { pool, landing } = makeLanding()
  const bytes = Buffer.alloc(100_000, 'c')
  const piece = reads(landing, bytes, bytes.length + 1)
  t.equal(pool.used, smallBlock)
  t.ok(piece.bytes.equals(bytes))
  piece.release()
  landing.close()
  t.equal(pool.used, 0)
  t.end()
})
