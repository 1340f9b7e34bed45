/**
 * The table of an index: found is what was added and nothing else, and a damaged file is none.
 */
import { createHash } from 'node:crypto'
import t from 'tap'
import { mostTableBytes, pathName, Table, TableBuilder } from '../../../lib/cache/suites/table.ts'

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

function tableOf(paths: Iterable<string>): Buffer {
  const builder = new TableBuilder()
  for (const path of paths) builder.add(path, { size: path.length, digest: digest(path) })
  return builder.finish()
}

t.test('what was added is found, what was not is not', async t => {
  for (const count of [0, 1, 2, 3, 1000, 5000]) {
    const paths = Array.from({ length: count }, (_, n) => `pool/main/p/p${n}/p${n}_1_all.deb`)
    const table = Table.read(tableOf(paths))
    t.equal(table?.count, count)
    const wrong = paths.filter(path => table?.find(pathName(path))?.digest !== digest(path))
    t.strictSame(wrong, [])
    for (let n = 0; n < 500; n += 1) {
      if (table?.find(pathName(`absent/${n}`)) !== undefined) t.fail(`absent/${n}`)
    }
  }
})

t.test('contents that an index names are known by their digest', async t => {
  for (const count of [0, 1, 2, 1000]) {
    const paths = Array.from({ length: count }, (_, n) => `p${n}`)
    const table = Table.read(tableOf(paths))
    const named = (text: string) => table?.names(Buffer.from(digest(text), 'hex'))
    t.ok(paths.every(path => named(path) === true))
    t.notOk(Array.from({ length: 200 }, (_, n) => `absent/${n}`).some(named))
  }
})

t.test('the largest sizes there are, with both digests', async t => {
  const builder = new TableBuilder()
  const size = 10 ** 14 - 1
  builder.add('large', { size, digest: digest('large') })
  builder.add('strong', { size, digest: digest('strong'), by: 'sha512' })
  const table = Table.read(builder.finish())
  t.strictSame(table?.find(pathName('large')), { size, digest: digest('large') })
  t.strictSame(table?.find(pathName('strong')), { size, digest: digest('strong'), by: 'sha512' })
  t.ok(table?.hasSha512)
  t.notOk(Table.read(tableOf(['sub/a']))?.hasSha512)
})

t.test('a table of another version is not read', async t => {
  const file = tableOf(['sub/a'])
  t.ok(Table.read(file))
  file.write('cachesvc-table-1', 'latin1')
  t.equal(Table.read(file), undefined)
})

t.test('a path named twice counts when both say the same, and not when they differ', async t => {
  const builder = new TableBuilder()
  const one = { size: 1, digest: digest('1') }
  builder.add('same', one)
  builder.add('other', one)
  builder.add('same', one)
  builder.add('other', { size: 2, digest: digest('2') })
  builder.add('other', one)
  const table = Table.read(builder.finish())
  t.equal(table?.count, 1)
  t.strictSame(table?.find(pathName('same')), one)
  t.equal(table?.find(pathName('other')), undefined)
})

t.test('the directory all paths lie in', async t => {
  const cases: ReadonlyArray<readonly [readonly string[], string]> = [
    [['a.deb', 'b.deb'], ''],
    [['sub/a.deb', 'sub/b.deb'], 'sub'],
    [['sub/x/a.deb', 'sub/x/y/b.deb'], 'sub/x'],
    [['sub/a.deb', 'subway/b.deb'], ''],
    [['sub/ü/a.deb', 'sub/ü/b.deb'], 'sub/ü'],
    [[], ''],
  ]
  for (const [paths, common] of cases) {
    t.equal(Table.read(tableOf(paths))?.common, common, paths.join(' '))
  }
})

t.test('a damaged file is no table, wherever the damage is', async t => {
  const whole = tableOf(['sub/a', 'sub/b', 'sub/c'])
  t.ok(Table.read(whole))
  for (let at = 0; at < whole.length; at += 1) {
    const damaged = Buffer.from(whole)
    damaged[at] = (damaged[at] ?? 0) ^ 1
    // The last four bytes of the header only say whether there are rows with a SHA-512.
    if (at >= 28 && at < 32) continue
    if (Table.read(damaged) !== undefined) t.fail(`byte ${at}`)
  }
  for (let length = 0; length < whole.length; length += 1) {
    if (Table.read(whole.subarray(0, length)) !== undefined) t.fail(`length ${length}`)
  }
  t.equal(Table.read(Buffer.concat([whole, Buffer.alloc(54)])), undefined)
})

t.test('an index whose table would be too large is refused', async t => {
  const builder = new TableBuilder(1000)
  const add = (n: number) => builder.add(`p${n}`, { size: n, digest: digest(`${n}`) })
  t.throws(() => {
    for (let n = 0; n < 20; n += 1) add(n)
  }, RangeError)
  t.ok(builder.finish().length <= 1000)
  t.equal(mostTableBytes(1000), 500)
  t.equal(mostTableBytes(2 ** 40), 64 * 1024 * 1024)
})
