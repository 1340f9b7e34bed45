import { createHash } from 'node:crypto'
import t from 'tap'
import { Index, nameOf, type Row } from '../../../../lib/cache/store/catalogue/index.ts'
import { RowTable } from '../../../../lib/cache/store/catalogue/row-table.ts'
import { dumpedWords } from '../../../../lib/cache/store/catalogue/rows.ts'
import { seeded } from '../../../fixtures/seeded-random.ts'

const digestOf = (n: number): string => createHash('sha256').update(String(n)).digest('hex')

function row(key: string, content: number, changes: Partial<Row> = {}): Row {
  const name = nameOf(key)
  return {
    name,
    offset: 10,
    length: 100,
    used: 1,
    digest: digestOf(content),
    size: content,
    ...changes,
  }
}

t.test('an entry is found by its name and gives what was put', async t => {
  const index = new Index()
  t.equal(index.find(nameOf('a')), undefined)
  const put = row('a', 7, { offset: 2 ** 40 + 1, size: 2 ** 41 + 3, used: 2 ** 31 + 5 })
  t.equal(index.put(put), undefined)
  const at = index.find(nameOf('a')) ?? -1
  const found = {
    name: index.name(at),
    offset: index.offset(at),
    length: index.length(at),
    used: index.used(at),
    digest: index.digest(at),
    size: index.size(at),
  }
  t.strictSame(found, put)
  index.use(at, 9)
  index.place(at, 500, 60)
  t.strictSame([index.used(at), index.offset(at), index.length(at), index.live], [9, 500, 60, 60])
  index.place(at, -1, 60)
  t.equal(index.live, 0, 'what is not written takes no room')
})

t.test('a content is referenced until the last of its entries goes', async t => {
  const index = new Index()
  for (const key of ['a', 'b', 'c']) index.put(row(key, 5))
  index.put(row('d', 6))
  t.match(index, { count: 4, contents: 2, bytes: 11 })
  t.strictSame(
    index
      .referring(digestOf(5))
      .map(one => index.name(one))
      .sort(),
    ['a', 'b', 'c'].map(nameOf).sort(),
  )
  t.equal(index.remove(index.find(nameOf('b')) ?? -1), undefined)
  t.equal(index.put(row('a', 6)), undefined, 'c still names it')
  t.equal(index.put(row('c', 6)), digestOf(5))
  t.notOk(index.references(digestOf(5)))
  t.match(index, { count: 3, contents: 1, bytes: 6 })
})

t.test('entries that disagree about a size count as the first', async t => {
  const index = new Index()
  index.put(row('a', 5, { size: 100 }))
  index.put(row('b', 5, { size: 7 }))
  index.put(row('b', 5, { size: 8 }))
  t.equal(index.bytes, 100)
  index.remove(index.find(nameOf('a')) ?? -1)
  index.remove(index.find(nameOf('b')) ?? -1)
  t.match(index, { count: 0, contents: 0, bytes: 0, live: 0 })
})

t.test('a random life agrees with plain maps', async t => {
  for (let seed = 1; seed <= 3; seed += 1) {
    const chance = seeded(seed)
    const index = new Index()
    const plain = new Map<string, Row>()
    for (let step = 0; step < 6_000; step += 1) {
      const key = `k${chance.below(3000)}`
      const name = nameOf(key)
      const before = plain.get(name)
      const named = (digest: string) => [...plain.values()].some(one => one.digest === digest)
      let freed: string | undefined
      if (chance.below(3) > 0) {
        const content = chance.below(400)
        const put = row(key, content, { offset: step, length: 1 + chance.below(900), used: step })
        plain.set(name, put)
        freed = index.put(put)
      } else if (before !== undefined) {
        plain.delete(name)
        freed = index.remove(index.find(name) ?? -1)
      }
      const gone = before !== undefined && (step % 50 === 0 || freed !== undefined)
      if (gone && freed !== undefined) t.equal(freed, before.digest)
      if (gone && named(before.digest) !== index.references(before.digest)) t.fail(`step ${step}`)
    }
    const values = [...plain.values()]
    const contents = new Map(values.map(one => [one.digest, one.size]))
    t.equal(index.count, plain.size)
    t.equal(index.contents, contents.size)
    t.equal(
      index.bytes,
      [...contents.values()].reduce((a, b) => a + b, 0),
    )
    t.equal(
      index.live,
      values.reduce((sum, one) => sum + one.length, 0),
    )
    t.equal([...index.rows()].length, plain.size)
    const wrong = values.filter(one => {
      const at = index.find(one.name)
      return at === undefined || index.offset(at) !== one.offset || index.digest(at) !== one.digest
    })
    t.strictSame(wrong, [])
    const again = new Index()
    const words = new Uint32Array(dumpedWords)
    for (const one of index.rows()) {
      index.dump(one, words, 0)
      again.load(words, 0)
    }
    const { count, contents: different, bytes, live } = index
    t.match(again, { count, contents: different, bytes, live }, 'what was dumped is loaded')
  }
})

t.test('rows whose hashes collide are all found, whichever goes', async t => {
  const hashes = [5, 5, 5, 6, 63, 63, 0, 1, 5]
  for (let gone = 0; gone < hashes.length; gone += 1) {
    const table = new RowTable()
    for (const [one, hash] of hashes.entries()) table.add(one, hash)
    table.replace(gone, hashes[gone] ?? 0, undefined)
    const found = [...hashes].map((hash, one) => table.find(hash, row => row === one))
    t.strictSame(
      found,
      hashes.map((_, one) => (one === gone ? undefined : one)),
    )
  }
})
