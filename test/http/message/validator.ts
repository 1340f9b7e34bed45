import t from 'tap'
import { Fields } from '../../../lib/http/message/field.ts'
import {
  type EntityTag,
  formatEntityTag,
  isLastModifiedStrong,
  parseEntityTag,
  parseEntityTags,
  strongMatch,
  validatorsOf,
  weakMatch,
} from '../../../lib/http/message/precondition.ts'
import { hostilePieces, seeded } from '../../fixtures/chance/seeded-random.ts'
import { cpuTimeOf } from '../../fixtures/time/cpu-time.ts'

const weak = (opaque: string): EntityTag => ({ weak: true, opaque })
const strong = (opaque: string): EntityTag => ({ weak: false, opaque })
const now = Date.UTC(2025, 10, 20)

t.test('entity tags of RFC 9110 section 8.8.3', t => {
  const table: ReadonlyArray<readonly [text: string, tag: EntityTag | undefined]> = [
    ['"xyzzy"', strong('xyzzy')],
    ['W/"xyzzy"', weak('xyzzy')],
    ['""', strong('')],
    ['"a,b\\"', strong('a,b\\')],
    ['"\xe4"', strong('\xe4')],
    ['w/"xyzzy"', undefined],
    ['W/ "xyzzy"', undefined],
    ['xyzzy', undefined],
    ['"xyzzy', undefined],
    ['"xy zzy"', undefined],
    ['"xy"zzy"', undefined],
    ['"x"\n', undefined],
    ['"\x7f"', undefined],
    ['"x", "y"', undefined],
    ['*', undefined],
    ['', undefined],
  ]
  for (const [text, tag] of table) {
    t.strictSame(parseEntityTag(text), tag, JSON.stringify(text))
    if (tag !== undefined) t.equal(formatEntityTag(tag), text)
  }
  t.end()
})

t.test('the comparisons of section 8.8.3.2', t => {
  const table: ReadonlyArray<
    readonly [a: EntityTag, b: EntityTag, strong: boolean, weak: boolean]
  > = [
    [weak('1'), weak('1'), false, true],
    [weak('1'), weak('2'), false, false],
    [weak('1'), strong('1'), false, true],
    [strong('1'), weak('1'), false, true],
    [strong('1'), strong('1'), true, true],
    [strong('1'), strong('2'), false, false],
  ]
  for (const [a, b, strongly, weakly] of table) {
    const name = `${formatEntityTag(a)} and ${formatEntityTag(b)}`
    t.equal(strongMatch(a, b), strongly, name)
    t.equal(weakMatch(a, b), weakly, name)
  }
  t.end()
})

t.test('lists of entity tags', t => {
  const table: ReadonlyArray<
    readonly [value: string, tags: '*' | readonly EntityTag[] | undefined]
  > = [
    ['*', '*'],
    ['"a"', [strong('a')]],
    [
      '"xyzzy", W/"r2d2xxxx",\t"c3p,iozzzz\\"',
      [strong('xyzzy'), weak('r2d2xxxx'), strong('c3p,iozzzz\\')],
    ],
    [', "a",, "b" ,', [strong('a'), strong('b')]],
    ['"a" "b"', undefined],
    ['"a", b', undefined],
    ['"a", *', undefined],
    ['"a', undefined],
    ['W/', undefined],
    [' , ', undefined],
    ['', undefined],
  ]
  for (const [value, tags] of table) t.strictSame(parseEntityTags(value), tags, value)
  t.end()
})

t.test('Last-Modified is strong when its second was over at the Date it came with (8.8.2.2)', t => {
  t.notOk(isLastModifiedStrong({}))
  t.notOk(isLastModifiedStrong({ date: now }))
  t.ok(isLastModifiedStrong({ lastModified: now }), 'whoever gives no Date vouches for it')
  t.ok(isLastModifiedStrong({ lastModified: now - 1000, date: now }))
  t.notOk(isLastModifiedStrong({ lastModified: now, date: now }))
  t.notOk(isLastModifiedStrong({ lastModified: now + 1000, date: now }))
  t.end()
})

t.test('validators are read from fields, malformed ones count as missing', t => {
  const good = Fields.of(
    ['ETag', 'W/"a"'],
    ['Last-Modified', 'Thu, 20 Nov 2025 00:00:00 GMT'],
    ['Date', 'Thu, 20 Nov 2025 00:00:01 GMT'],
  )
  t.strictSame(validatorsOf(good, now), { etag: weak('a'), lastModified: now, date: now + 1000 })
  const bad = Fields.of(['ETag', 'a'], ['Last-Modified', 'today'], ['Date', '0'])
  const none = { etag: undefined, lastModified: undefined, date: undefined }
  t.strictSame(validatorsOf(bad, now), none)
  t.strictSame(validatorsOf(Fields.empty, now), none)
  t.end()
})

t.test('hostile lists never throw, good ones survive writing and reading', t => {
  const chance = seeded(6)
  const samples = ['"a", W/"b", "c,\\"', '*', '""']
  for (let i = 0; i < 4000; i += 1) {
    const value = chance.mutate(chance.pick(samples), hostilePieces)
    const tags = parseEntityTags(value)
    if (tags === undefined || tags === '*') continue
    const again = parseEntityTags(tags.map(formatEntityTag).join(', '))
    if (JSON.stringify(again) !== JSON.stringify(tags)) t.fail(JSON.stringify(value))
  }
  t.end()
})

t.test('a very long run of spaces or quotes takes no time', async t => {
  const time = await cpuTimeOf(() => {
    for (const value of [' '.repeat(50_000), '"a" '.repeat(20_000), '"'.repeat(50_001)]) {
      parseEntityTags(`"a",${value}x`)
    }
  })
  t.ok(time < 2000, `${time} ms`)
})

t.test('a list of more than a thousand entity tags does not count', t => {
  const tags = (count: number) => parseEntityTags('"a",'.repeat(count))
  t.equal(tags(1000)?.length, 1000)
  t.equal(tags(1001), undefined)
  t.end()
})
