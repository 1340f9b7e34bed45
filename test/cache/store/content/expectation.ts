import { createHash } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import t from 'tap'
import { Layout } from '../../../../lib/cache/store/disk/disk.ts'
import { grown, hand, KiB, settle } from '../../../fixtures/store/growing.ts'
import { bytesOf, openBelow, opened, pour, sha256, until } from '../../../fixtures/store/opened.ts'

t.test('the last block is held back until the digest is known to be right', async t => {
  const content = bytesOf(300 * KiB)
  for (const algorithm of ['md5', 'sha1', 'sha256', 'sha512'] as const) {
    const hex = createHash(algorithm).update(content).digest('hex')
    const { download } = grown(t, {
      expected: { digest: { algorithm, hex }, size: content.length },
    })
    const reader = hand(download)
    await pour(download, content)
    await reader.takeUntil(236 * KiB)
    let more = false
    const next = reader.take().then(() => {
      more = true
    })
    await settle()
    t.notOk(more, `${algorithm}: nothing beyond`)
    t.equal(reader.size, 236 * KiB)
    const completion = download.complete()
    await next
    t.ok((await reader.takeAll()).equals(content))
    t.equal(completion.digest, sha256(content))
  }
})

t.test('without a length the last block so far is the one held back', async t => {
  const content = bytesOf(100 * KiB)
  const { download } = grown(t, {
    expected: { digest: { algorithm: 'sha256', hex: sha256(content).toUpperCase() } },
  })
  const reader = hand(download)
  await pour(download, content.subarray(0, 64 * KiB))
  const first = reader.take()
  await pour(download, content.subarray(64 * KiB))
  await first
  t.equal(reader.size, 36 * KiB)
  download.complete()
  t.ok((await reader.takeAll()).equals(content))
})

t.test('wrong content: readers are cut before the end and nothing is stored', async t => {
  const { store, directory } = await opened(t)
  const content = bytesOf(200 * KiB)
  const wrong = Buffer.from(content)
  wrong[17] = (wrong[17] ?? 0) ^ 1
  const download = store.download({
    expected: { digest: { algorithm: 'sha256', hex: sha256(content) } },
    length: wrong.length,
  })
  const reader = hand(download)
  await pour(download, wrong)
  await reader.takeUntil(136 * KiB)
  const cut = t.rejects(reader.take(), { code: 'wrong-digest' })
  t.throws(() => download.complete(), { code: 'wrong-digest', fault: 'upstream' })
  await cut
  t.equal(reader.size, 136 * KiB)
  t.notOk(download.canJoin(0))
  await t.rejects(hand(download).take(), { code: 'wrong-digest' })
  const layout = new Layout(directory)
  t.strictSame(await readdir(layout.temporary), [])
  t.strictSame(await readdir(layout.blobs), [])
  await until(async () => (await openBelow(directory)).length === 0)
})

t.test('too little, too much, and a length that cannot be right', async t => {
  const { store, directory } = await opened(t)
  const wrongSize = { code: 'wrong-size', fault: 'upstream' }
  const short = store.download({ length: 10 })
  await pour(short, Buffer.alloc(9))
  t.throws(() => short.complete(), { ...wrongSize, facts: { found: 9, expected: 10 } })
  const long = store.download({ expected: { size: 10 } })
  await pour(long, Buffer.alloc(9))
  await t.rejects(pour(long, Buffer.alloc(2)), {
    ...wrongSize,
    facts: { found: 11, expected: 10 },
  })
  await t.rejects(pour(long, Buffer.alloc(1)), wrongSize, 'and it stays failed')
  t.throws(() => store.download({ length: 5, expected: { size: 7 } }), wrongSize)
  t.strictSame(await readdir(new Layout(directory).temporary), [])
})

t.test('a wrong digest is caught in a relay too', async t => {
  const { download } = grown(t, {
    noDisk: true,
    expected: { digest: { algorithm: 'sha1', hex: '0'.repeat(40) } },
  })
  const reader = hand(download)
  await pour(download, bytesOf(1000))
  const cut = t.rejects(reader.take(), { code: 'wrong-digest' })
  t.throws(() => download.complete(), { code: 'wrong-digest' })
  await cut
  t.equal(reader.size, 0)
})
