/**
 * Tries whether an engine obeys the conditions of writes: `If-None-Match: *`, and `If-Match` with a wrong and with the right version.
 *
 * # Facts
 * - Swift answers 501 to conditional writes. Some engines ignore the condition and write.
 * - Ceph RGW 16 and 18 compare `If-Match` with the entity tag without its quotes. The right tag in quotes is 412 there, so a trial with a wrong
 *   version alone does not notice it.
 * - Some engines ignore `If-Match` of DELETE, RGW among them. No request of ours relies on it.
 */
import { type Bucket, type BucketRefusal, bareTag, type ObjectWrite } from './bucket.ts'

/** How an engine takes the entity tag in `If-Match`: as it gives it, without quotes, or not at all. */
export type Conditions =
  | { readonly tags: 'quoted' | 'bare' }
  | { readonly tags: 'none'; readonly because: string }

const content = Buffer.from('{}\n')
const wrong = '0'.repeat(32)

/** Tries the engine with an object of this name, which no other node has. A refusal means that it is not known what the engine can do. */
export async function tryConditions(
  bucket: Bucket,
  name: string,
): Promise<Conditions | BucketRefusal> {
  const removed = await bucket.remove(name)
  if (removed.outcome !== 'done' && removed.outcome !== 'absent') return removed
  const found = await tried(bucket, name)
  await bucket.remove(name)
  return found
}

async function tried(bucket: Bucket, name: string): Promise<Conditions | BucketRefusal> {
  const write = (only: ObjectWrite['only']) => bucket.putJson(name, content, only)
  const first = await write('new')
  if (first.outcome === 'unsupported') {
    const plain = await write(undefined)
    return plain.outcome === 'done' ? none('it refuses conditional writes') : plain
  }
  // An object that was just removed may still be seen.
  if (first.outcome !== 'done' && first.outcome !== 'precondition') return first
  // The version as a later reader sees it.
  const there = await bucket.head(name)
  if (there.outcome !== 'done') return there
  const { etag } = there
  if (etag === '') return none('it gives no entity tags')
  let refused: BucketRefusal | undefined
  /** Writes with a condition that does not hold, or that holds. Answers whether the engine saw it so. */
  const obeys = async (only: ObjectWrite['only'], holds: boolean): Promise<boolean> => {
    const written = await write(only)
    const { outcome } = written
    if (outcome !== 'done' && outcome !== 'precondition' && outcome !== 'unsupported') {
      refused ??= written
    }
    return outcome === (holds ? 'done' : 'precondition')
  }
  const unheeded = none('it ignores conditions of writes')
  if (!(await obeys('new', false))) return refused ?? unheeded
  if (!(await obeys({ tag: `"${wrong}"` }, false))) return refused ?? unheeded
  if (await obeys({ tag: etag }, true)) return { tags: 'quoted' }
  if (refused !== undefined) return refused
  if (!(await obeys({ tag: bareTag(etag) }, true))) {
    return refused ?? none('it refuses a version that it returned itself')
  }
  return (await obeys({ tag: wrong }, false)) ? { tags: 'bare' } : (refused ?? unheeded)
}

function none(because: string): Conditions {
  return { tags: 'none', because }
}
