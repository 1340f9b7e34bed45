/**
 * Tries the engine of a bucket with an object of this node. The trial finds out whether the engine obeys `If-None-Match: *` and `If-Match` in a
 * write.
 */
import { hash } from 'node:crypto'
import { probeName, types } from '../objects.ts'
import type { Bucket, BucketRefusal, ObjectWrite } from './bucket.ts'

/** The result of a trial. `because` says why the engine has no conditional writes. With a refusal this is not known. */
type EngineTrial =
  | { readonly conditional: true }
  | { readonly conditional: false; readonly because: string }
  | BucketRefusal

/** Writes an object. Then tries to write it again as a new object, and with a wrong version. */
export async function tryEngine(bucket: Bucket, node: string): Promise<EngineTrial> {
  const name = probeName(node)
  const bytes = Buffer.from('{}\n')
  const write = (only: ObjectWrite['only']) =>
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
  // An object of an earlier run of this node may still exist.
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
