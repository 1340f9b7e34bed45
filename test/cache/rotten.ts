/**
 * Stored files that have rotted on the disk, on the wire: no client gets a complete wrong file, and the next request is right.
 */
import { readFile, writeFile } from 'node:fs/promises'
import t, { type Test } from 'tap'
import { TestCache } from '../fixtures/cache/cache.ts'
import { file, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'

const deb = '/debian/pool/main/h/hello_1_all.deb'
const MiB = 1024 * 1024

/** A cache that was stopped, and a byte of its only content changed, and that runs again. */
async function rotten(t: Test, length: number) {
  const content = Buffer.alloc(length, 'the quick brown fox ')
  const origin = await ScriptedOrigin.listen(t)
  origin.at(deb, file({ content, etag: '"1"' }))
  const cache = await TestCache.start(t, { origins: [origin] })
  await cache.warm(origin.url(deb))
  await cache.stop()
  for (const path of await cache.files('v2/blobs')) {
    const bytes = await readFile(path)
    bytes[length - 100_000] = 0
    await writeFile(path, bytes)
  }
  await cache.restart()
  return { content, cache, url: origin.url(deb), asked: () => origin.seen(deb).length }
}

t.test('a small file is fetched again before its first byte leaves', async t => {
  const { content, cache, url, asked } = await rotten(t, 200_000)
  const answer = await cache.get(url)
  t.equal(answer.fields.get('X-Cache'), 'MISS')
  t.ok(answer.content.equals(content))
  t.equal(asked(), 2)
})

t.test('a large file breaks off before its end, and the next request gets all of it', async t => {
  const { content, cache, url, asked } = await rotten(t, 5 * MiB)
  const client = await cache.client()
  await client.request('GET', url)
  t.equal((await client.head()).fields.get('X-Cache'), 'HIT')
  await t.rejects(client.bytes(content.length))
  const again = await cache.get(url)
  t.equal(again.fields.get('X-Cache'), 'MISS')
  t.ok(again.content.equals(content))
  t.equal(asked(), 2)
  t.equal(await cache.metric('cachesvc_damaged_contents'), 1)
})
