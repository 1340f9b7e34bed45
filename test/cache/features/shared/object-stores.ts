/**
 * The store against a real engine: the gateway of Ceph, where it is installed, or one whose bucket may be written to:
 *
 *     CACHESVC_TEST_BUCKET=http://127.0.0.1:8080/bucket AWS_ACCESS_KEY_ID=test:tester AWS_SECRET_ACCESS_KEY=testing \
 *       AWS_REGION=us-east-1 node dist/test/cache/features/shared/object-stores.js
 *
 * Contents, renewal and pointers; the last comment says whether the engine has conditional writes.
 */
import { hash, randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { SuiteRecord } from '../../../../lib/cache/features/shared/shared-store.ts'
import { directoryFor } from '../../../fixtures/cache/lab.ts'
import { cephBucket, noCeph, type RealBucket } from '../../../fixtures/features/shared/ceph-rgw.ts'
import { openNode } from '../../../fixtures/features/shared/node.ts'
import { eventually } from '../../../fixtures/process/ports.ts'

const {
  CACHESVC_TEST_BUCKET: given = '',
  AWS_REGION = 'us-east-1',
  AWS_ACCESS_KEY_ID = '',
  AWS_SECRET_ACCESS_KEY = '',
} = process.env
const skip = given === '' && noCeph

t.setTimeout(300_000)

const bucket = await bucketOf()

async function bucketOf(): Promise<RealBucket | undefined> {
  if (skip !== false) return undefined
  if (given === '') return cephBucket(t, directoryFor(t))
  return {
    ...{ url: given, region: AWS_REGION },
    environment: { AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY },
  }
}

/** What no earlier run has written. */
function fresh(name: string): string {
  return `${name} ${randomBytes(8).toString('hex')}`
}

function nodeOf(t: Test, name: string, settings = {}) {
  const directory = t.testdir({ [name]: {} })
  if (bucket === undefined) throw new Error('there is no bucket')
  const { environment } = bucket
  return openNode(t, bucket, { directory: `${directory}/${name}`, environment, settings })
}

t.test('what one node has stored, another takes', { skip }, async t => {
  const [one, two] = [await nodeOf(t, 'one'), await nodeOf(t, 'two')]
  const key = `http://a.example.org/${fresh('pool/a+b~1_all.deb').replace(' ', '')}`
  const content = fresh('content').repeat(10_000)
  one.stored.set(key, content)
  const entry = one.entryOf(key)
  t.equal(await one.shared.offer(entry), true, 'it is uploaded')
  t.equal((await two.shared.entry(key))?.digest, entry.digest)
  t.equal(await two.blob(entry.digest), content)
  t.equal(await two.blob(hash('sha256', fresh('absent'))), undefined)
  two.shared.wrong(entry.digest)
  const gone = async () => (await one.blob(entry.digest)) === undefined
  t.ok(await eventually(gone, 10_000), 'a wrong content is removed')
})

t.test('an object in use is renewed', { skip }, async t => {
  const one = await nodeOf(t, 'one', { expire: 4000 })
  const key = `http://a.example.org/${fresh('f').replace(' ', '')}`
  one.stored.set(key, fresh('content'))
  const entry = one.entryOf(key)
  await one.shared.offer(entry)
  // Last-Modified has whole seconds.
  await pause(3500)
  t.equal(await one.blob(entry.digest), one.stored.get(key))
  t.ok(await eventually(() => one.shared.state.renewed > 0, 10_000))
  t.equal(await one.blob(entry.digest), one.stored.get(key), 'it is what it was')
})

t.test('pointers, and entries that are replaced', { skip }, async t => {
  const [one, two] = [await nodeOf(t, 'one'), await nodeOf(t, 'two')]
  const { conditionalWrites, ahead } = one.shared.state
  if (given === '') t.equal(conditionalWrites, 'on')
  const id = hash('sha256', fresh('suite'))
  const release = [one.entryOf('http://a.example.org/dists/stable/InRelease')]
  const record: SuiteRecord = { release, date: 1000, adopted: 2000, node: 'one' }
  t.equal(await one.shared.suite(id), undefined)
  t.equal(await one.shared.swap(id, undefined, record), 'swapped')
  // Without conditional writes a node looks first.
  t.equal(await two.shared.swap(id, undefined, { ...record, node: 'two' }), 'lost')
  const pointer = await two.shared.suite(id)
  t.equal(pointer?.node, 'one')
  t.equal(await two.shared.swap(id, pointer, { ...record, date: 3000 }), 'swapped')
  const later = async () => (await one.shared.suite(id))?.date === 3000
  t.ok(await eventually(later, 10_000), 'the other node sees the newer pointer')

  const key = `http://a.example.org/${fresh('f').replace(' ', '')}`
  for (const content of ['of before', 'of now']) {
    one.stored.set(key, content)
    await one.shared.offer(one.entryOf(key))
    t.equal((await two.shared.entry(key))?.digest, hash('sha256', content), content)
  }
  t.comment(`conditional writes are ${conditionalWrites}; its clock is ${ahead} ms ahead`)
})
