import t from 'tap'
import { isDigest, Layout, shards } from '../../../../lib/cache/store/disk/disk.ts'

t.test('names are what docs/decisions/0027 says', t => {
  const layout = new Layout('/cache')
  const abc = 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'
  t.equal(layout.log, '/cache/v2/entries.log')
  t.equal(layout.snapshot, '/cache/v2/entries.index')
  t.equal(layout.blob(abc), `/cache/v2/blobs/ba/${abc}`)
  const temporary = [layout, layout, new Layout('/cache')].map(one => one.temporaryFile())
  t.ok(temporary.every(name => /^\/cache\/v2\/tmp\/[0-9a-f]{32}\.part$/.test(name)))
  t.equal(new Set(temporary).size, 3)
  t.equal(layout.tag, '/cache/CACHEDIR.TAG')
  t.equal(shards.length, 256)
  t.strictSame([shards[0], shards[171], shards[255]], ['00', 'ab', 'ff'])
  t.end()
})

t.test('only lower-case hex of the right length is a digest', t => {
  t.ok(isDigest('a'.repeat(64)))
  for (const not of ['', 'A'.repeat(64), 'a'.repeat(63), 'a'.repeat(65), `${'a'.repeat(64)}\n`]) {
    t.notOk(isDigest(not), JSON.stringify(not))
  }
  t.end()
})
