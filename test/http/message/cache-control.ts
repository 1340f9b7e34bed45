import t from 'tap'
import {
  ageOf,
  parseDeltaSeconds,
  type RequestDirectives,
  type ResponseDirectives,
  requestDirectives,
  responseDirectives,
} from '../../../lib/http/message/cache-control.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import { hostilePieces, seeded } from '../../fixtures/chance/seeded-random.ts'

const askNothing = requestDirectives(Fields.empty)
const demandNothing = responseDirectives(Fields.empty)

t.test('without Cache-Control nothing is asked or demanded', t => {
  t.notOk(Object.values(askNothing).some(Boolean))
  t.notOk(Object.values(demandNothing).flat().some(Boolean))
  t.end()
})

t.test('what requests ask (RFC 9111 section 5.2.1)', t => {
  const table: ReadonlyArray<readonly [value: string, asked: Partial<RequestDirectives>]> = [
    ['max-age=0', { maxAge: 0 }],
    ['no-cache', { noCache: true }],
    ['no-store', { noStore: true }],
    ['No-Cache, MAX-AGE=5', { noCache: true, maxAge: 5 }],
    ['only-if-cached, max-stale', { onlyIfCached: true, maxStale: Number.POSITIVE_INFINITY }],
    ['max-stale=60, min-fresh=30, stale-if-error=10', { maxStale: 60, minFresh: 30 }],
    ['max-age="10"', { maxAge: 10 }],
    [' ,, max-age=1 ,', { maxAge: 1 }],
    // the first counts
    ['max-age=5, max-age=0', { maxAge: 5 }],
    ['max-stale, max-stale=5', { maxStale: Number.POSITIVE_INFINITY }],
    // what cannot be read is 0
    ['max-age', { maxAge: 0 }],
    ['max-age=', { maxAge: 0 }],
    ['max-age=-1', { maxAge: 0 }],
    ['max-age=1.5', { maxAge: 0 }],
    ['max-age=1e3', { maxAge: 0 }],
    ['max-age= 10', { maxAge: 0 }],
    ['max-age =10', { maxAge: 10 }],
    ['max-age=ten', { maxAge: 0 }],
    ['max-age="10', { maxAge: 0 }],
    ["max-age='10'", { maxAge: 0 }],
    ['max-stale=soon', { maxStale: 0 }],
    ['max-age=99999999999999999999', { maxAge: 2 ** 31 }],
    // unknown or malformed members change nothing
    ['community="UCI, no-cache", x y, =, "no-store"', {}],
    ['', {}],
  ]
  for (const [value, asked] of table) {
    const found = requestDirectives(Fields.of(['Cache-Control', value]))
    t.strictSame(found, { ...askNothing, ...asked }, JSON.stringify(value))
  }
  t.end()
})

t.test('Pragma: no-cache counts when there is no Cache-Control, and for requests only', t => {
  const pragma = (value: string) => Fields.of(['Pragma', value])
  t.ok(requestDirectives(pragma('no-cache')).noCache)
  t.ok(requestDirectives(pragma('x="y", No-Cache')).noCache)
  t.notOk(requestDirectives(pragma('cache')).noCache)
  t.notOk(requestDirectives(pragma('no-cache').plus('Cache-Control', 'max-age=9')).noCache)
  t.notOk(responseDirectives(pragma('no-cache')).noCache)
  t.end()
})

t.test('what responses demand (section 5.2.2)', t => {
  const table: ReadonlyArray<readonly [value: string, demanded: Partial<ResponseDirectives>]> = [
    ['max-age=60, s-maxage=120', { maxAge: 60, sMaxAge: 120 }],
    ['public, max-age=31536000, immutable', { maxAge: 31_536_000 }],
    ['must-revalidate, proxy-revalidate', { mustRevalidate: true, proxyRevalidate: true }],
    ['no-transform, must-understand, no-store', { mustUnderstand: true, noStore: true }],
    ['stale-while-revalidate=5, stale-if-error="6"', {}],
    ['s-maxage=x', { sMaxAge: 0 }],
    ['private', { private: true }],
    ['no-cache', { noCache: true }],
    ['private="X-A, Set-Cookie"', { privateFields: ['x-a', 'set-cookie'] }],
    ['no-cache="Set-Cookie", max-age=1', { noCacheFields: ['set-cookie'], maxAge: 1 }],
    ['no-cache=Set-Cookie', { noCacheFields: ['set-cookie'] }],
    ['private="a", private="b"', { privateFields: ['a', 'b'] }],
    // the stricter reading of what is said twice or cannot be read
    ['private="a", private', { private: true }],
    ['no-cache, no-cache="a"', { noCache: true }],
    ['private=""', { private: true }],
    ['private="a b"', { private: true }],
    ['private="a', { private: true }],
    ['no-cache="', { noCache: true }],
  ]
  for (const [value, demanded] of table) {
    const found = responseDirectives(Fields.of(['Cache-Control', value]))
    t.strictSame(found, { ...demandNothing, ...demanded }, value)
  }
  const lines = Fields.of(['Cache-Control', 'max-age=5'], ['cache-control', 'no-store'])
  t.strictSame(responseDirectives(lines), { ...demandNothing, maxAge: 5, noStore: true })
  t.end()
})

t.test('Age (section 5.1)', t => {
  const table: ReadonlyArray<readonly [lines: readonly string[], age: number]> = [
    [[], 0],
    [['17'], 17],
    [['17, 4'], 17],
    [['17', '4'], 17],
    [['-1'], 0],
    [['x', '4'], 0],
    [['1.5'], 0],
    [[''], 0],
    [['99999999999'], 2 ** 31],
  ]
  for (const [lines, age] of table) {
    t.equal(
      ageOf(Fields.of(...lines.map(value => ['Age', value] as const))),
      age,
      lines.join(' | '),
    )
  }
  t.equal(parseDeltaSeconds('2147483648'), 2 ** 31)
  t.equal(parseDeltaSeconds(' 1'), undefined)
  t.end()
})

t.test('hostile values never throw and never give a negative or unknown duration', t => {
  const chance = seeded(9)
  const pieces = [...hostilePieces, 'max-age=', 'max-stale', 'private=', 'no-cache', ', ', '"']
  for (let i = 0; i < 4000; i += 1) {
    const fields = Fields.of(['Cache-Control', chance.text(pieces, 12)])
    const both = [requestDirectives(fields), responseDirectives(fields)].flatMap(Object.values)
    if (both.some(value => typeof value === 'number' && !(value >= 0)))
      t.fail(JSON.stringify(fields))
  }
  t.end()
})

t.test('a thousand directives of a request are read, and all of a response', t => {
  const fields = (before: number) => Fields.of(['Cache-Control', `${'a, '.repeat(before)}no-store`])
  t.ok(requestDirectives(fields(999)).noStore)
  t.notOk(requestDirectives(fields(1000)).noStore)
  t.ok(responseDirectives(fields(5000)).noStore)
  t.end()
})
