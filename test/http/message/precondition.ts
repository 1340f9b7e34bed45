import t from 'tap'
import { Fields } from '../../../lib/http/message/field.ts'
import {
  ifRangeHolds,
  statusByPreconditions,
  type Validators,
} from '../../../lib/http/message/precondition.ts'
import { hostilePieces, seeded } from '../../fixtures/chance/seeded-random.ts'

const now = Date.UTC(2025, 10, 20)
const same = 'Wed, 01 Jan 2025 00:00:00 GMT'
const sameOldStyle = 'Wednesday, 01-Jan-25 00:00:00 GMT'
const before = 'Tue, 31 Dec 2024 23:59:59 GMT'
const after = 'Wed, 01 Jan 2025 00:00:01 GMT'
const lastModified = Date.UTC(2025, 0, 1)

const both: Validators = { etag: { weak: false, opaque: 'a' }, lastModified }
const weakTag: Validators = { etag: { weak: true, opaque: 'a' }, lastModified }
const dateOnly: Validators = { lastModified }
const none: Validators = {}
const absent = undefined

/** Conditions are written as field lines with bars between them; 200 stands for going on. */
type Row = readonly [method: string, lines: string, of: Validators | undefined, status: number]

function check(name: string, role: 'origin' | 'cache', rows: readonly Row[]): void {
  t.test(name, t => {
    for (const [method, lines, validators, status] of rows) {
      const pairs = lines.split(' | ').map(line => line.split(': ', 2))
      const fields = Fields.fromFlat(['Host', 'a', ...pairs.flat()])
      const found = statusByPreconditions({ method, fields }, { validators, role }, now)
      t.equal(found, status, `${method} ${lines} ${JSON.stringify(validators)}`)
    }
    t.end()
  })
}

check('If-None-Match (13.1.2)', 'cache', [
  ['GET', '', both, 200],
  ['GET', 'If-None-Match: "a"', both, 304],
  ['HEAD', 'If-None-Match: "a"', both, 304],
  ['GET', 'If-None-Match: W/"a"', both, 304],
  ['GET', 'If-None-Match: "a"', weakTag, 304],
  ['GET', 'If-None-Match: "b", "a"', both, 304],
  ['GET', 'If-None-Match: "b" | if-none-match: "a"', both, 304],
  ['GET', 'If-None-Match: "b"', both, 200],
  ['GET', 'If-None-Match: "A"', both, 200],
  ['GET', 'If-None-Match: "a"', dateOnly, 200],
  ['GET', 'If-None-Match: "a"', absent, 200],
  ['GET', 'If-None-Match: a', both, 200],
  ['GET', 'If-None-Match: *', none, 304],
  ['GET', 'If-None-Match: *', absent, 200],
  ['PUT', 'If-None-Match: *', both, 412],
  ['PUT', 'If-None-Match: *', absent, 200],
  ['DELETE', 'If-None-Match: "a"', both, 412],
])

check('If-Modified-Since (13.1.3)', 'cache', [
  ['GET', `If-Modified-Since: ${same}`, dateOnly, 304],
  ['HEAD', `If-Modified-Since: ${same}`, dateOnly, 304],
  ['GET', `If-Modified-Since: ${sameOldStyle}`, dateOnly, 304],
  ['GET', `If-Modified-Since: ${after}`, dateOnly, 304],
  ['GET', `If-Modified-Since: ${before}`, dateOnly, 200],
  ['POST', `If-Modified-Since: ${same}`, dateOnly, 200],
  ['GET', 'If-Modified-Since: yesterday', dateOnly, 200],
  ['GET', `If-Modified-Since: ${same} | If-Modified-Since: ${same}`, dateOnly, 200],
  ['GET', `If-Modified-Since: ${same}`, none, 200],
  ['GET', `If-Modified-Since: ${same}`, absent, 200],
])

check('If-None-Match, even a malformed one, puts If-Modified-Since out of force', 'cache', [
  ['GET', `If-None-Match: "b" | If-Modified-Since: ${same}`, both, 200],
  ['GET', `If-None-Match: ??? | If-Modified-Since: ${same}`, both, 200],
  ['GET', `If-None-Match: "a" | If-Modified-Since: ${before}`, both, 304],
])

check('If-Match (13.1.1) and If-Unmodified-Since (13.1.4) at an origin server', 'origin', [
  ['GET', 'If-Match: "a"', both, 200],
  ['GET', 'If-Match: "b", "a"', both, 200],
  ['GET', 'If-Match: *', none, 200],
  ['GET', 'If-Match: "b"', both, 412],
  ['GET', 'If-Match: "a"', weakTag, 412],
  ['GET', 'If-Match: W/"a"', both, 412],
  ['GET', 'If-Match: *', absent, 412],
  ['GET', 'If-Match: rubbish', both, 412],
  ['GET', `If-Unmodified-Since: ${same}`, dateOnly, 200],
  ['GET', `If-Unmodified-Since: ${after}`, dateOnly, 200],
  ['GET', `If-Unmodified-Since: ${before}`, dateOnly, 412],
  ['PUT', `If-Unmodified-Since: ${before}`, dateOnly, 412],
  ['GET', 'If-Unmodified-Since: rubbish', dateOnly, 200],
  ['GET', `If-Unmodified-Since: ${before}`, none, 200],
])

check('the order of section 13.2.2', 'origin', [
  // If-Match present: If-Unmodified-Since is not asked.
  ['GET', `If-Unmodified-Since: ${before} | If-Match: "a"`, both, 200],
  ['GET', `If-Unmodified-Since: ${same} | If-Match: "b"`, both, 412],
  // A true If-Match goes on to If-None-Match and If-Modified-Since.
  ['GET', 'If-None-Match: "a" | If-Match: "a"', both, 304],
  ['GET', 'If-None-Match: "a" | If-Match: "b"', both, 412],
  ['GET', `If-Modified-Since: ${same} | If-Match: "a"`, both, 304],
  ['GET', `If-Modified-Since: ${same} | If-Unmodified-Since: ${same}`, both, 304],
  ['GET', `If-Modified-Since: ${before} | If-Unmodified-Since: ${same}`, both, 200],
])

check('a cache leaves If-Match and If-Unmodified-Since to the origin server', 'cache', [
  ['GET', 'If-Match: "b"', both, 200],
  ['GET', `If-Unmodified-Since: ${before}`, both, 200],
  ['GET', 'If-Match: "b" | If-None-Match: "a"', both, 304],
])

check('CONNECT, OPTIONS and TRACE have no preconditions (13.2.1)', 'origin', [
  ['CONNECT', 'If-None-Match: * | If-Match: "b"', both, 200],
  ['OPTIONS', 'If-None-Match: * | If-Match: "b"', both, 200],
  ['TRACE', 'If-None-Match: * | If-Match: "b"', both, 200],
])

t.test('If-Range (13.1.5)', t => {
  const table: ReadonlyArray<readonly [value: string | undefined, of: Validators, holds: boolean]> =
    [
      [undefined, none, true],
      [same, dateOnly, true],
      [sameOldStyle, dateOnly, true],
      [same, { lastModified, date: lastModified + 1000 }, true],
      [same, { lastModified, date: lastModified }, false],
      [before, dateOnly, false],
      [after, dateOnly, false],
      [same, none, false],
      ['"a"', both, true],
      ['"b"', both, false],
      ['W/"a"', both, false],
      ['"a"', weakTag, false],
      ['W/"a"', weakTag, false],
      ['"a"', dateOnly, false],
      ['rubbish', both, false],
      ['*', both, false],
      ['"a", "b"', both, false],
      ['', both, false],
    ]
  for (const [value, validators, holds] of table) {
    const fields = Fields.of(['If-Range', value])
    t.equal(ifRangeHolds(fields, validators, now), holds, `${value} ${JSON.stringify(validators)}`)
  }
  t.end()
})

t.test('hostile conditions never throw and never bring a 412 from a cache to a GET', t => {
  const chance = seeded(7)
  const names = [
    'If-Match',
    'If-None-Match',
    'If-Modified-Since',
    'If-Unmodified-Since',
    'If-Range',
  ]
  for (let i = 0; i < 4000; i += 1) {
    const value = () => chance.mutate(chance.pick(['"a"', '*', same, '']), hostilePieces)
    const fields = Fields.of([chance.pick(names), value()], [chance.pick(names), value()])
    const validators = chance.below(4) === 0 ? absent : chance.pick([both, dateOnly, none])
    const request = { method: 'GET', fields }
    const status = statusByPreconditions(request, { validators, role: 'cache' }, now)
    if (status === 412) t.fail(JSON.stringify(fields.flat))
    ifRangeHolds(fields, validators ?? none, now)
  }
  t.end()
})
