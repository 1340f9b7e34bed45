import t from 'tap'
import { bytesOf, keep, opened, sha256 } from '../../../fixtures/store/opened.ts'

const day = 86_400_000

t.test('of each package the newest versions stay, and what clients use', async t => {
  const { store, clock } = await opened(t)
  const pool = 'http://archive.example.org/pool/main/h/hello'
  const files = [
    'hello_2.9_amd64.deb',
    'hello_2.10~rc1_amd64.deb',
    'hello_2.10_amd64.deb',
    'hello_2.10+b1_amd64.deb',
    'hello_2.9_arm64.deb',
    'hello-doc_1.0_all.deb',
    'hello_1%3a0.1_i386.deb',
    'hello_9.0_i386.deb',
    'hello_8.0_i386.deb',
    'hello_2.10.orig.tar.xz',
  ]
  for (const file of files) await keep(store, `${pool}/${file}`, bytesOf(100))
  await keep(store, 'http://other.example.org/hello_1.0_amd64.deb', bytesOf(100))
  clock.advance(8 * day)
  await keep(store, `${pool}/hello_0.1_amd64.deb`, bytesOf(100))
  t.match(await store.sweep({ versions: 2, now: clock.now() }), { entriesRemoved: 3 })
  const gone = files.filter(file => store.peek(`${pool}/${file}`) === undefined)
  t.strictSame(gone, ['hello_2.9_amd64.deb', 'hello_2.10~rc1_amd64.deb', 'hello_8.0_i386.deb'])
})

t.test('a kept generation does not grow old, and a named version stays', async t => {
  const { store, clock } = await opened(t)
  const [release, named, old] = [bytesOf(10), bytesOf(20), bytesOf(30)]
  const keyOf = (version: number): string => `http://archive.example.org/pool/a_${version}_all.deb`
  await keep(store, 'http://archive.example.org/dists/stable/InRelease', release)
  for (const [n, content] of [old, named, bytesOf(40)].entries()) {
    await keep(store, keyOf(n), content)
  }
  const standing = (digest: string) =>
    digest === sha256(release) ? 'generation' : digest === sha256(named) ? 'named' : 'unknown'
  clock.advance(31 * day)
  await store.sweep({ versions: 1, standing, now: clock.now() })
  t.equal(store.peek(keyOf(0)), undefined)
  t.ok(store.peek(keyOf(1)))
  await store.sweep({ unusedDays: 30, standing, now: clock.now() })
  t.match(store.usage(), { objects: 1, bytes: 10 })
})
