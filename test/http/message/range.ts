import t from 'tap'
import { Fields } from '../../../lib/http/message/field.ts'
import {
  type ContentRange,
  contentRange,
  maxRanges,
  parseContentRange,
  type Selection,
  selectRange,
  unsatisfiedRange,
} from '../../../lib/http/message/range.ts'
import { hostilePieces, seeded } from '../../fixtures/chance/seeded-random.ts'

function select(value: string | undefined, size: number, method = 'GET'): Selection {
  return selectRange({ method, fields: Fields.of(['Range', value]) }, size, true)
}

/** `whole`, `unsatisfiable`, or the ranges as `first-last` with commas between. */
function inWords(selection: Selection): string {
  if (selection.send !== 'ranges') return selection.send
  return selection.ranges.map(({ first, last }) => `${first}-${last}`).join(',')
}

t.test('what a Range selects of 10000 bytes (14.1.2)', t => {
  const huge = '9'.repeat(400)
  const table: ReadonlyArray<readonly [value: string | undefined, expected: string]> = [
    [undefined, 'whole'],
    // the examples of the standard
    ['bytes=0-499', '0-499'],
    ['bytes=500-999', '500-999'],
    ['bytes=-500', '9500-9999'],
    ['bytes=9500-', '9500-9999'],
    ['bytes=0-0,-1', '0-0,9999-9999'],
    ['bytes= 0-999, 4500-5499, -1000', '0-999,4500-5499,9000-9999'],
    ['bytes=500-600,601-999', '500-999'],
    ['bytes=500-700,601-999', '500-999'],
    // edges
    ['bytes=0-', '0-9999'],
    ['bytes=9999-', '9999-9999'],
    ['bytes=10000-', 'unsatisfiable'],
    ['bytes=10000-10001', 'unsatisfiable'],
    ['bytes=9999-20000', '9999-9999'],
    ['bytes=-0', 'unsatisfiable'],
    ['bytes=-10000', '0-9999'],
    ['bytes=-10001', '0-9999'],
    [`bytes=0-${huge}`, '0-9999'],
    [`bytes=${huge}-`, 'unsatisfiable'],
    [`bytes=${huge}-${huge}`, 'unsatisfiable'],
    [`bytes=-${huge}`, '0-9999'],
    ['bytes=007-0008', '7-8'],
    ['BYTES=1-2', '1-2'],
    // a set is satisfiable when one of its members is
    ['bytes=20000-,1-2', '1-2'],
    ['bytes=20000-,-0', 'unsatisfiable'],
    // empty list members do not count
    ['bytes=1-2', '1-2'],
    ['bytes=,1-2,,', '1-2'],
    ['bytes=1-2 ,\t300-301', '1-2,300-301'],
    // malformed: the field is ignored
    ['bytes=', 'whole'],
    ['bytes=,', 'whole'],
    ['bytes=-', 'whole'],
    ['bytes', 'whole'],
    ['bytes 1-2', 'whole'],
    ['bytes =1-2', 'whole'],
    ['1-2', 'whole'],
    ['', 'whole'],
    ['bytes=2-1', 'whole'],
    ['bytes=0-1,2-1', 'whole'],
    ['bytes=1-2,x', 'whole'],
    ['bytes=1--2', 'whole'],
    ['bytes=--2', 'whole'],
    ['bytes=1 - 2', 'whole'],
    ['bytes=+1-2', 'whole'],
    ['bytes=0x1-2', 'whole'],
    ['bytes=1.0-2', 'whole'],
    ['bytes=1e1-20', 'whole'],
    ['bytes=\u0661-2', 'whole'],
    ['bytes=\xa01-2', 'whole'],
    ['bytes=1-2, bytes=3-4', 'whole'],
    ['bytes=1-2;3-4', 'whole'],
    ['bytes="1-2"', 'whole'],
    // other units
    ['seconds=1-2', 'whole'],
    ['bytes2=1-2', 'whole'],
  ]
  for (const [value, expected] of table) {
    t.equal(inWords(select(value, 10_000)), expected, JSON.stringify(value))
  }
  t.end()
})

t.test('ranges that overlap or nearly touch are sent once, in the order they were asked for', t => {
  const table: ReadonlyArray<readonly [value: string, expected: string]> = [
    ['bytes=5000-5099,0-99', '5000-5099,0-99'],
    ['bytes=5000-5099,0-99,5050-5199', '5000-5199,0-99'],
    ['bytes=300-399,5000-5099,200-299', '200-399,5000-5099'],
    // a gap of 79 bytes is filled, one of 80 is not
    ['bytes=0-99,179-199', '0-199'],
    ['bytes=0-99,180-199', '0-99,180-199'],
    ['bytes=0-,0-,0-,-1', '0-9999'],
    ['bytes=100-200,100-200', '100-200'],
    ['bytes=0-9999,5000-5001', '0-9999'],
    ['bytes=0-1,2-3,4-5,6-7', '0-7'],
  ]
  for (const [value, expected] of table) t.equal(inWords(select(value, 10_000)), expected, value)
  t.end()
})

t.test('a Range of very many pieces is ignored', t => {
  const pieces = (count: number) =>
    `bytes=${Array.from({ length: count }, (_, i) => `${i * 500}-${i * 500}`).join(',')}`
  t.match(select(pieces(maxRanges), 10_000), { send: 'ranges', ranges: { length: maxRanges } })
  t.equal(inWords(select(pieces(maxRanges + 1), 10_000)), 'whole')
  t.equal(inWords(select(`bytes=${'0-,'.repeat(1300)}`, 10_000)), 'whole')
  t.equal(inWords(select(`bytes=${','.repeat(1300)}1-2`, 10_000)), '1-2')
  t.end()
})

t.test('Range counts for GET only, when If-Range holds, and not for empty content', t => {
  t.equal(inWords(select('bytes=0-1', 10, 'HEAD')), 'whole')
  t.equal(inWords(select('bytes=0-1', 10, 'POST')), 'whole')
  const request = { method: 'GET', fields: Fields.of(['Range', 'bytes=0-1']) }
  t.equal(inWords(selectRange(request, 10, false)), 'whole')
  t.equal(inWords(select('bytes=0-', 0)), 'whole')
  t.equal(inWords(select('bytes=-5', 0)), 'whole')
  t.equal(inWords(select('bytes=-5', 1)), '0-0')
  t.end()
})

t.test('Content-Range is written and read (14.4)', t => {
  t.equal(contentRange({ first: 0, last: 499 }, 1234), 'bytes 0-499/1234')
  t.equal(unsatisfiedRange(1234), 'bytes */1234')
  const range = (first: number, last: number, size: number | undefined): ContentRange => ({
    first,
    last,
    size,
  })
  const table: ReadonlyArray<readonly [value: string, expected: ContentRange | undefined]> = [
    ['bytes 42-1233/1234', range(42, 1233, 1234)],
    ['bytes 42-1233/*', range(42, 1233, undefined)],
    ['Bytes 0-0/1', range(0, 0, 1)],
    ['bytes */1234', undefined],
    ['bytes */0', undefined],
    ['bytes 42-1233/1233', undefined],
    ['bytes 2-1/10', undefined],
    ['bytes */*', undefined],
    ['bytes 1-2', undefined],
    ['bytes=1-2/3', undefined],
    ['bytes 1-/3', undefined],
    ['bytes -2/3', undefined],
    ['bytes 1 - 2/3', undefined],
    ['bytes 1-2/3, bytes 1-2/3', undefined],
    ['bytes 1-2/9007199254740993', undefined],
    ['bytes 1-9007199254740993/*', undefined],
    ['lines 1-2/3', undefined],
    ['', undefined],
  ]
  for (const [value, expected] of table) t.strictSame(parseContentRange(value), expected, value)
  t.end()
})

t.test('whatever is asked, what is selected lies inside, apart, and never exceeds the whole', t => {
  const chance = seeded(8)
  const pieces = ['-', ',', ', ', '0', '1', '7', '99', '500', '1000', '5000', '99999', '0-0']
  const kinds = { whole: 0, ranges: 0, unsatisfiable: 0 }
  for (let i = 0; i < 8000; i += 1) {
    const size = chance.below(3) === 0 ? chance.below(100) : 6000
    const value = `bytes=${chance.mutate(chance.text(pieces, 14), chance.below(3) === 0 ? hostilePieces : pieces)}`
    const selection = select(value, size)
    kinds[selection.send] += 1
    if (selection.send !== 'ranges') continue
    const ranges = selection.ranges.toSorted((a, b) => a.first - b.first)
    let end = -1
    for (const { first, last } of ranges) {
      if (!(first > end && last >= first && last < size))
        t.fail(`${JSON.stringify(value)} of ${size}`)
      end = last
    }
    for (const part of ranges) {
      const read = parseContentRange(contentRange(part, size))
      if (read?.first !== part.first || read.last !== part.last) t.fail(JSON.stringify(part))
    }
    parseContentRange(chance.mutate('bytes 42-1233/1234', hostilePieces))
  }
  for (const [kind, count] of Object.entries(kinds)) t.ok(count > 100, `${kind}: ${count}`)
  t.end()
})

t.test('empty members of a set are none of its pieces', t => {
  const fields = Fields.of(['Range', `bytes=${', '.repeat(5000)}0-0,${','.repeat(5000)}`])
  t.same(selectRange({ method: 'GET', fields }, 100, true), {
    send: 'ranges',
    ranges: [{ first: 0, last: 0 }],
  })
  t.end()
})
