/**
 * Tries what the engine of a bucket can do: whether `If-None-Match: *` and `If-Match` decide on a write, with an object of this node alone.
 */
import { hash } from 'node:crypto'
import { probeName, types } from '../objects.ts'
import type { Bucket, BucketRefusal, Put } from './bucket.ts'

/** `because`: why it has no conditional writes. A refusal says nothing of them. */
type EngineTrial =
  | { readonly conditional: true }
  | { readonly conditional: false; readonly because: string }
  | BucketRefusal

/** Writes an object, and tries to write it once more as new, and as another version than it is. */
export async function tryEngine(bucket: Bucket, node: string): Promise<EngineTrial> {
  const name = probeName(node)
  const bytes = Buffer.from('{}\n')
  const write = (only: Put['only']) =>
    bucket.put({
      name,
      digest: hash('sha256', bytes),
      type: types.json,
      content: { kind: 'bytes', bytes },
      ...(only && { only }),
    })
  const removed = await bucket.remove(name)
  if (removed.outcome !== 'done' && removed.outcome !== 'absent') return removed
  const first = await write('new')
  const without = { conditional: false, because: 'it refuses conditional writes' } as const
  if (first.outcome === 'unsupported') return withPlainWrites(await write(undefined), without)
  // What an earlier run of this node has left may be there still.
  if (first.outcome !== 'done' && first.outcome !== 'precondition') return first
  const second = await write('new')
  const third = await write({ etag: `"${'0'.repeat(32)}"` })
  await bucket.remove(name)
  for (const { outcome } of [second, third]) {
    if (outcome === 'done')
      return { conditional: false, because: 'it ignores conditions of writes' }
    if (outcome === 'unsupported') return without
  }
  if (second.outcome === 'done' || second.outcome === 'precondition') {
    return third.outcome === 'done' || third.outcome === 'precondition'
      ? { conditional: true }
      : third
  }
  return second
}

function withPlainWrites(
  written: { readonly outcome: 'done' } | BucketRefusal,
  found: EngineTrial,
): EngineTrial {
  return written.outcome === 'done' ? found : written
}
