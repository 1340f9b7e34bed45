import { readFile, writeFile } from 'node:fs/promises'
import t, { type Test } from 'tap'
import { iterate } from '../../../../lib/bytes/source.ts'
import { Layout } from '../../../../lib/cache/store/disk/disk.ts'
import type { Content } from '../../../../lib/http/message/message.ts'
import { scriptedFiles } from '../../../fixtures/store/files.ts'
import { bytesOf, contentBytes, keep, opened, until } from '../../../fixtures/store/opened.ts'

const key = 'http://archive.example.org/pool/a_1_all.deb'
const MiB = 1 << 20
const day = 86_400_000

/** Content that lies on the disk since before the start of the store, with a byte flipped there. */
async function rotten(t: Test, size: number, at = Math.floor(size / 2)) {
  const content = bytesOf(size)
  const before = await opened(t)
  const entry = await keep(before.store, key, content)
  await keep(before.store, `${key}?twin`, content)
  await before.store.close()
  const path = new Layout(before.directory).blob(entry.digest)
  const flipped = Buffer.from(content)
  flipped[at] = (flipped[at] ?? 0) ^ 1
  await writeFile(path, flipped)
  const { directory } = before
  return { ...(await opened(t, { directory })), entry, content, path }
}

/** What a client gets before the content breaks off or ends. */
async function taken(content: Content | undefined): Promise<{ bytes: number; error?: unknown }> {
  if (content?.kind !== 'stream') throw new Error('it is not a stream')
  let bytes = 0
  try {
    for await (const block of iterate(content.open())) bytes += block.length
    return { bytes }
  } catch (error) {
    return { bytes, error }
  }
}

t.test('small content that has rotted is absent, and so are all entries that name it', async t => {
  const { store, entry, content, log } = await rotten(t, 20_000)
  t.equal(await store.content(entry), undefined)
  t.equal(await store.get(key), undefined)
  t.equal(await store.get(`${key}?twin`), undefined)
  t.equal(store.damaged, 1)
  t.ok(log.lines.some(({ message }) => /is damaged/.test(message)))
  const again = await keep(store, key, content)
  t.ok((await contentBytes(await store.content(again)))?.equals(content))
})

t.test('of large content that has rotted no client gets the end; the next asks anew', async t => {
  for (const at of [0, 3 * MiB, 5 * MiB - 1]) {
    const { store, entry, content } = await rotten(t, 5 * MiB, at)
    const clients = await Promise.all([0, 0, MiB, 5 * MiB - 10].map(n => store.content(entry, n)))
    const results = await Promise.all(clients.map(taken))
    for (const [n, { bytes, error }] of results.entries()) {
      t.match(error, { code: 'damaged-content' })
      t.ok(bytes <= 5 * MiB - 64 * 1024, `${n}: ${bytes}`)
    }
    t.equal(await store.get(key), undefined)
    t.equal(await store.get(`${key}?twin`), undefined)
    t.equal(store.damaged, 1)
    const again = await keep(store, key, content)
    t.ok((await contentBytes(await store.content(again)))?.equals(content))
  }
})

t.test('a part that ends before the end of the content begins a background check', async t => {
  const { store, entry, clock } = await rotten(t, 5 * MiB)
  await taken(await store.content(entry, 0, 99_999))
  await until(async () => {
    clock.advance(1)
    return (await store.get(key)) === undefined
  })
  t.equal(store.damaged, 1)
})

t.test('right content is whole, and hashed once for all who read it', async t => {
  const { store, entry, content, path } = await rotten(t, 5 * MiB)
  await writeFile(path, content)
  const readers = await Promise.all([0, 0, 0, 2 * MiB].map(first => store.content(entry, first)))
  const found = await Promise.all(readers.map(contentBytes))
  for (const [n, bytes] of found.entries()) {
    t.ok(bytes?.equals(content.subarray(n === 3 ? 2 * MiB : 0)))
  }
  await writeFile(path, Buffer.alloc(5 * MiB))
  t.match(await taken(await store.content(entry)), { bytes: 5 * MiB, error: undefined })
  t.equal(store.damaged, 0)
})

t.test('what was downloaded is known to be right for a while, then it is hashed again', async t => {
  const { store, directory, clock } = await opened(t)
  const content = bytesOf(5 * MiB)
  const entry = await keep(store, key, content)
  const path = new Layout(directory).blob(entry.digest)
  const flipped = Buffer.from(content)
  flipped[7] = (flipped[7] ?? 0) ^ 1
  await writeFile(path, flipped)
  clock.advance(day / 2)
  t.match(await taken(await store.content(entry)), { bytes: 5 * MiB, error: undefined })
  clock.advance(day / 2)
  t.match(await taken(await store.content(entry)), { error: { code: 'damaged-content' } })
})

t.test('hot content is hashed in the background before its check is too old', async t => {
  const { store, directory, clock } = await opened(t)
  const content = bytesOf(5 * MiB)
  const entry = await keep(store, key, content)
  store.recheckAfter(1000)
  clock.advance(800)
  await taken(await store.content(entry))
  // 5 MiB at 64 MiB a second.
  for (let n = 0; n < 100; n += 1) {
    await new Promise(resolve => setImmediate(resolve))
    await readFile(new Layout(directory).blob(entry.digest))
    clock.advance(1)
  }
  clock.advance(200)
  await writeFile(new Layout(directory).blob(entry.digest), Buffer.alloc(5 * MiB))
  t.match(await taken(await store.content(entry)), { bytes: 5 * MiB, error: undefined })
})

t.test('content in memory is not hashed again', async t => {
  const { store, clock, directory } = await opened(t)
  const content = bytesOf(1000)
  const entry = await keep(store, key, content)
  for (let n = 0; n < 2; n += 1) await store.content(entry)
  await writeFile(new Layout(directory).blob(entry.digest), Buffer.alloc(1000))
  clock.advance(2 * day)
  t.ok((await contentBytes(await store.content(entry)))?.equals(content))
})

/** Right contents of these sizes that lie on the disk since before the start of the store. */
async function unchecked(t: Test, sizes: readonly number[]) {
  const before = await opened(t)
  const { directory } = before
  const kept = []
  for (const [n, size] of sizes.entries()) {
    const content = bytesOf(size)
    const entry = await keep(before.store, `${key}?${n}`, content)
    kept.push({ content, entry, path: new Layout(directory).blob(entry.digest) })
  }
  await before.store.close()
  const scripted = scriptedFiles()
  return { ...(await opened(t, { directory, files: scripted.files })), kept, scripted }
}

t.test('a check no client waits for holds no client back', async t => {
  const { store, kept } = await unchecked(t, [MiB, MiB, MiB, 2 * MiB, 2 * MiB])
  // The clock stands still, so these checks do as well.
  for (const { entry } of kept.slice(0, 3)) await taken(await store.content(entry, 0, 0))
  for (const { entry, content } of kept.slice(3)) {
    t.ok((await contentBytes(await store.content(entry)))?.equals(content))
  }
  const [first] = kept
  t.ok(
    (await contentBytes(await store.content(first?.entry ?? raise())))?.equals(
      first?.content ?? raise(),
    ),
  )
})

t.test('a background check stands still while a client waits for another', async t => {
  const { store, kept, scripted, clock } = await unchecked(t, [17 * MiB, MiB])
  const [large = raise(), small = raise()] = kept
  scripted.decide = (call, about) => (call === 'readv' && about === small.path ? 'hang' : 'done')
  await taken(await store.content(large.entry, 0, 0))
  const content = contentBytes(await store.content(small.entry))
  const reads = () => scripted.calls.filter(call => call === `readv ${large.path}`).length
  const advance = async (): Promise<void> => {
    for (let n = 0; n < 200; n += 1) {
      clock.advance(1)
      await new Promise(resolve => setImmediate(resolve))
    }
  }
  await advance()
  const before = reads()
  await advance()
  t.equal(reads(), before)
  scripted.decide = () => 'done'
  scripted.release()
  t.ok((await content)?.equals(small.content))
  await until(async () => {
    await advance()
    return reads() > before
  })
})

/** Two contents of a size of which clients wait for checks that hang, and another one. */
async function crowded(t: Test, size: number) {
  const made = await unchecked(t, [size, size, MiB])
  const { store, kept, scripted } = made
  const [one = raise(), two = raise(), other = raise()] = kept
  scripted.decide = (call, about) => (call === 'readv' && about !== other.path ? 'hang' : 'done')
  const waiting = await Promise.all([one, two].map(({ entry }) => store.content(entry)))
  const clients = waiting.map(contentBytes)
  t.teardown(() => Promise.all(clients))
  const goOn = (): void => {
    scripted.decide = () => 'done'
    scripted.release()
  }
  t.teardown(goOn)
  return { ...made, ...other, goOn }
}

t.test('small content does not wait behind large content', async t => {
  const { store, entry, content, goOn } = await crowded(t, 17 * MiB)
  t.ok((await contentBytes(await store.content(entry)))?.equals(content))
  goOn()
})

t.test('a client waits ten seconds at most for a check', async t => {
  const { store, entry, content, clock, goOn } = await crowded(t, 2 * MiB)
  let over = false
  const client = contentBytes(await store.content(entry)).finally(() => {
    over = true
  })
  await until(() => {
    clock.advance(500)
    return over
  })
  t.ok((await client)?.equals(content))
  t.equal(store.damaged, 0)
  goOn()
})

t.test('content that is evicted while its check waits is given whole', async t => {
  const { store, entry, content, goOn } = await crowded(t, 2 * MiB)
  const source = await store.content(entry)
  const client = contentBytes(source)
  await store.evict(entry.key, { digest: entry.digest, content: true })
  goOn()
  t.ok((await client)?.equals(content))
  t.equal(store.damaged, 0)
})

t.test('a client that leaves gives up its place', async t => {
  const { store, entry, scripted, path, clock, goOn } = await crowded(t, 2 * MiB)
  const content = await store.content(entry)
  if (content?.kind !== 'stream') throw new Error('it is not a stream')
  const source = content.open()
  source.close()
  goOn()
  await until(() => {
    clock.advance(1)
    return scripted.calls.includes(`readv ${path}`)
  })
  t.equal(store.damaged, 0)
})

function raise(): never {
  throw new Error('it is not there')
}
