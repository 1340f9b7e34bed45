import { createHash } from 'node:crypto'
import t from 'tap'
import {
  dumpedWords,
  EntryTable,
  type Row,
  RowTable,
} from '../../../../lib/cache/store/catalogue/entry-table.ts'
import { nameOf } from '../../../../lib/cache/store/key.ts'
import { seeded } from '../../../fixtures/chance/seeded-random.ts'

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
  const table = new EntryTable()
  t.equal(table.find(nameOf('a')), undefined)
  const put = row('a', 7, { offset: 2 ** 40 + 1, size: 2 ** 41 + 3, used: 2 ** 31 + 5 })
  t.equal(table.put(put), undefined)
  const at = table.find(nameOf('a')) ?? -1
  const found = {
    name: table.name(at),
    offset: table.offset(at),
    length: table.length(at),
    used: table.used(at),
    digest: table.digest(at),
    size: table.size(at),
  }
  t.strictSame(found, put)
  table.use(at, 9)
  table.place(at, 500, 60)
  t.strictSame([table.used(at), table.offset(at), table.length(at), table.live], [9, 500, 60, 60])
  table.place(at, -1, 60)
  t.equal(table.live, 0, 'what is not written takes no room')
})

t.test('a content is referenced until the last of its entries goes', async t => {
  const table = new EntryTable()
  for (const key of ['a', 'b', 'c']) table.put(row(key, 5))
  table.put(row('d', 6))
  t.match(table, { count: 4, contents: 2, bytes: 11 })
  t.strictSame(
    table
      .referring(digestOf(5))
      .map(one => table.name(one))
      .sort(),
    ['a', 'b', 'c'].map(nameOf).sort(),
  )
  t.equal(table.remove(table.find(nameOf('b')) ?? -1), undefined)
  t.equal(table.put(row('a', 6)), undefined, 'c still names it')
  t.equal(table.put(row('c', 6)), digestOf(5))
  t.notOk(table.references(digestOf(5)))
  t.match(table, { count: 3, contents: 1, bytes: 6 })
})

t.test('entries that disagree about a size count as the first', async t => {
  const table = new EntryTable()
  table.put(row('a', 5, { size: 100 }))
  table.put(row('b', 5, { size: 7 }))
  table.put(row('b', 5, { size: 8 }))
  t.equal(table.bytes, 100)
  table.remove(table.find(nameOf('a')) ?? -1)
  table.remove(table.find(nameOf('b')) ?? -1)
  t.match(table, { count: 0, contents: 0, bytes: 0, live: 0 })
})

t.test('a random life agrees with plain maps', async t => {
  for (let seed = 1; seed <= 3; seed += 1) {
    const chance = seeded(seed)
    const table = new EntryTable()
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
        freed = table.put(put)
      } else if (before !== undefined) {
        plain.delete(name)
        freed = table.remove(table.find(name) ?? -1)
      }
      const gone = before !== undefined && (step % 50 === 0 || freed !== undefined)
      if (gone && freed !== undefined) t.equal(freed, before.digest)
      if (gone && named(before.digest) !== table.references(before.digest)) t.fail(`step ${step}`)
    }
    const values = [...plain.values()]
    const contents = new Map(values.map(one => [one.digest, one.size]))
    t.equal(table.count, plain.size)
    t.equal(table.contents, contents.size)
    t.equal(
      table.bytes,
      [...contents.values()].reduce((a, b) => a + b, 0),
    )
    t.equal(
      table.live,
      values.reduce((sum, one) => sum + one.length, 0),
    )
    t.equal([...table.rows()].length, plain.size)
    const wrong = values.filter(one => {
      const at = table.find(one.name)
      return at === undefined || table.offset(at) !== one.offset || table.digest(at) !== one.digest
    })
    t.strictSame(wrong, [])
    const again = new EntryTable()
    const words = new Uint32Array(dumpedWords)
    for (const one of table.rows()) {
      table.dump(one, words, 0)
      again.load(words, 0)
    }
    const { count, contents: different, bytes, live } = table
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
