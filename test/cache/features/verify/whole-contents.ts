/** What a verification has hashed is not hashed again when it is read, until that check is too old. */
import { writeFile } from 'node:fs/promises'
import t from 'tap'
import { verifyInThread } from '../../../../lib/cache/features/verify/thread.ts'
import { Layout } from '../../../../lib/cache/store/disk/disk.ts'
import { silentLog } from '../../../../lib/log/log.ts'
import { config } from '../../../fixtures/cache/cache-config.ts'
import { bytesOf, contentBytes, keep, opened } from '../../../fixtures/store/opened.ts'

const day = 86_400_000
const keyOf = (name: string): string => `http://archive.example.org/pool/${name}_1_all.deb`

t.test('a reader relies on the regular verification', async t => {
  const before = await opened(t)
  const [right, wrong] = [bytesOf(1000), bytesOf(1000)]
  const entry = await keep(before.store, keyOf('right'), right)
  const damaged = await keep(before.store, keyOf('damaged'), wrong)
  await before.store.close()
  const { directory } = before
  const layout = new Layout(directory)
  const flipped = (content: Buffer): Buffer => Buffer.from(content).fill(0, 500, 600)
  await writeFile(layout.blob(damaged.digest), flipped(wrong))
  const { store, clock } = await opened(t, { directory, memory: 0 })
  const found: string[] = []
  await verifyInThread({
    ...{ directory, rate: 0, settings: config(''), log: silentLog },
    signal: new AbortController().signal,
    onWrong: ({ digest }) => found.push(digest),
    onWhole: digests => store.noteChecked(digests),
  })
  t.strictSame(found, [damaged.digest])
  await writeFile(layout.blob(entry.digest), flipped(right))
  t.strictSame(
    await contentBytes(await store.content(entry)),
    flipped(right),
    'it counts as checked',
  )
  t.equal(await store.content(damaged), undefined, 'this one was not noted')
  clock.advance(day)
  t.equal(await store.content(entry), undefined)
  t.equal(store.damaged, 2)
})

t.test('a content that is not in the store is not noted', async t => {
  const { store } = await opened(t)
  store.noteChecked(['0'.repeat(64)])
  t.equal(store.damaged, 0)
})
