/**
 * Tries the engine of a bucket with an object of this node. The trial finds out whether the engine obeys `If-None-Match: *` and `If-Match` in a
 * write.
 */
import { probeName } from '../objects.ts'
import type { Bucket, BucketRefusal, ObjectWrite } from './bucket.ts'

/** The result of a trial. `because` says why the engine has no conditional writes. With a refusal this is not known. */
type EngineTrial =
  | { readonly conditional: true }
  | { readonly conditional: false; readonly because: string }
  | BucketRefusal

/** Writes an object. Then tries to write it again as a new object, and with a wrong version. */
export async function tryEngine(bucket: Bucket, node: string): Promise<EngineTrial> {
  const name = probeName(node)
  const write = (only: ObjectWrite['only']) => bucket.putJson(name, Buffer.from('{}\n'), only)
  const removed = await bucket.remove(name)
  if (removed.outcome !== 'done' && removed.outcome !== 'absent') return removed
  const first = await write('new')
  const without = { conditional: false, because: 'it refuses conditional writes' } as const
  if (first.outcome === 'unsupported') {
    const plain = await write(undefined)
    return plain.outcome === 'done' ? without : plain
  }
  // An object of an earlier run of this node may still exist.
  if (first.outcome !== 'done' && first.outcome !== 'precondition') return first
  const again = [await write('new'), await write({ etag: `"${'0'.repeat(32)}"` })]
  await bucket.remove(name)
  let refused: BucketRefusal | undefined
  for (const written of again) {
    if (written.outcome === 'done')
      return { conditional: false, because: 'it ignores conditions of writes' }
    if (written.outcome === 'unsupported') return without
    if (written.outcome !== 'precondition') refused ??= written
  }
  return refused ?? { conditional: true }
}
