/**
 * Large downloads that a crash broke off, on the wire: what was certain on disk is not fetched again, unless the origin has
 * something else now.
 */
import { readFile, writeFile } from 'node:fs/promises'
import t, { type Test } from 'tap'
import { ManualClock } from '../../lib/async/clock.ts'
import { TestCache } from '../fixtures/cache/cache.ts'
import { file, reply, type Script, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'
import { Gate } from '../fixtures/time/gate.ts'

const deb = '/debian/pool/main/h/hello_1_all.deb'
const MiB = 1024 * 1024
const content = Buffer.alloc(20 * MiB, 'the quick brown fox ')

/** A cache that was killed when 12 of 20 MiB had come, and runs again. */
async function killed(t: Test) {
  const origin = await ScriptedOrigin.listen(t)
  const clock = new ManualClock(Date.now())
  const cache = await TestCache.start(t, { origins: [origin], clock })
  const gate = new Gate()
  const fields = { ETag: '"1"', 'Content-Type': 'application/vnd.debian.binary-package' }
  origin.at(deb, reply({ content, fields, pauses: [{ at: 12 * MiB, gate }] }))
  const client = await cache.client()
  await client.request('GET', origin.url(deb))
  await client.head()
  await client.bytes(11 * MiB)
  await cache.until(async () => (await parts(cache)).some(path => path.endsWith('.json')))
  const left = await Promise.all(
    (await parts(cache)).map(async path => [path, await readFile(path)] as const),
  )
  // A stop clears up, a kill does not: what lay there is put back.
  await cache.stop()
  for (const [path, bytes] of left) await writeFile(path, bytes)
  await cache.restart()
  const again = async (script: Script) => {
    origin.at(deb, script)
    const answer = await cache.warm(origin.url(deb))
    return { answer, asked: origin.seen(deb).slice(1) }
  }
  return { origin, cache, again }
}

function parts(cache: TestCache): Promise<readonly string[]> {
  return cache.files('v2/tmp')
}

t.test('the rest is asked for, and the whole is served and stored', async t => {
  const { origin, cache, again } = await killed(t)
  const { answer, asked } = await again(file({ content, etag: '"1"' }))
  t.ok(answer.content.equals(content))
  t.equal(answer.fields.get('Content-Type'), 'application/vnd.debian.binary-package')
  t.equal(asked.length, 1)
  t.match(asked[0]?.fields.get('Range'), /^bytes=\d{7,}-$/)
  t.equal(asked[0]?.fields.get('If-Range'), '"1"')
  const hit = await cache.get(origin.url(deb))
  t.equal(hit.fields.get('X-Cache'), 'HIT')
  t.ok(hit.content.equals(content))
  t.strictSame(await parts(cache), [])
})

const others: ReadonlyArray<readonly [string, Script]> = [
  ['other content', file({ content: 'changed', etag: '"2"' })],
  ['no ranges', reply({ content: 'changed', fields: { ETag: '"1"' } })],
  [
    'a part that begins elsewhere',
    file({ content: 'changed', etag: '"1"', ranges: 'wrong-start' }),
  ],
]
for (const [name, script] of others) {
  t.test(`an origin that has ${name} is asked for the whole`, async t => {
    const { cache, again } = await killed(t)
    const { answer } = await again(script)
    t.equal(answer.text, 'changed')
    t.strictSame(await parts(cache), [])
  })
}
