import t from 'tap'
import { sortedEntries } from '../../../lib/cache/cli/list.ts'
import type { ListedEntry } from '../../../lib/cache/store/catalogue/catalogue.ts'

/** A store of so many entries in no order; many have the same size. */
function storeOf(amount: number) {
  const entries = Array.from({ length: amount }, (_, i): ListedEntry => {
    const at = (i * 7919) % amount
    const key = `http://archive.example.org/${String(at).padStart(6, '0')}`
    return { key, size: at % 10, digest: '0'.repeat(64), lastUsed: at }
  })
  let walks = 0
  return {
    entries,
    walks: () => walks,
    async *list() {
      walks += 1
      for (let at = 0; at < amount; at += 97) yield entries.slice(at, at + 97)
    },
  }
}

const bySize = (a: ListedEntry, b: ListedEntry) =>
  b.size - a.size || (a.key < b.key ? -1 : Number(a.key > b.key))

t.test('every entry comes once and in order, however few are sorted at once', async t => {
  const store = storeOf(1000)
  const expected = [...store.entries].sort(bySize)
  for (const most of [1, 7, 100, 333, 1000, 5000]) {
    const found: ListedEntry[] = []
    for await (const some of sortedEntries(store, () => true, bySize, most)) {
      t.ok(some.length <= most)
      found.push(...some)
    }
    t.strictSame(found, expected, `${most} at once`)
  }
})

t.test('what is sorted at once needs two walks', async t => {
  const store = storeOf(1000)
  const matches = (key: string) => key.endsWith('7')
  let count = 0
  for await (const some of sortedEntries(store, matches, bySize, 100)) count += some.length
  t.equal(count, 100)
  t.equal(store.walks(), 2)
})

t.test('parts of many entries are of about the size that is wanted', async t => {
  const sizes: number[] = []
  for await (const some of sortedEntries(storeOf(20_000), () => true, bySize, 5000)) {
    sizes.push(some.length)
  }
  t.equal(
    sizes.reduce((a, b) => a + b),
    20_000,
  )
  for (const size of sizes) t.ok(size < 10_000, String(size))
})

t.test('nothing that matches is nothing to print', async t => {
  for await (const some of sortedEntries(storeOf(10), () => false, bySize)) t.fail(String(some))
})
