import t from 'tap'
import {
  Fields,
  isToken,
  listMembers,
  sameName,
  splitUnquoted,
  trimWhitespace,
  unquote,
} from '../../../lib/http/message/field.ts'
import { hostilePieces, seeded } from '../../fixtures/chance/seeded-random.ts'

t.test('fields keep their order, their case and their repetitions', t => {
  const flat = ['Via', '1.1 a', 'ETag', '"x"', 'VIA', '1.1 b']
  const fields = Fields.fromFlat(flat)
  t.equal(fields.count, 3)
  t.equal(fields.flat, flat)
  t.strictSame(
    [...fields],
    [
      ['Via', '1.1 a'],
      ['ETag', '"x"'],
      ['VIA', '1.1 b'],
    ],
  )
  t.end()
})

t.test('lines that are made once are those made each time, and are refused at once', t => {
  const pairs = [
    ['Connection', 'keep-alive'],
    ['X', '\xe9'],
  ] as const
  const lasting = Fields.lasting(...pairs)
  t.equal(lasting.lines, Fields.of(...pairs).lines)
  t.equal(lasting.followedBy(['Y', '2']).lines, `${lasting.lines}Y: 2\r\n`)
  t.throws(() => Fields.lasting(['X', 'a\r\nY: b']), TypeError)
  t.throws(() => Fields.lasting(['X\r\nY', 'a']), TypeError)
  t.end()
})

t.test('what came of a change is kept, and so are lines that are asked for again', t => {
  let asked = 0
  const less = (fields: Fields) => {
    asked += 1
    return fields.without('X')
  }
  const fields = Fields.of(['X', '1'], ['Y', '2'])
  const changed = fields.through(less)
  t.strictSame(changed.flat, ['Y', '2'])
  t.equal(fields.through(less), changed)
  t.equal(asked, 1)
  t.equal(
    fields.through(same => same),
    fields,
  )
  t.strictSame(fields.through(less).flat, ['Y', '2'])
  t.equal(asked, 2)
  for (const _ of [1, 2, 3]) t.equal(fields.lines, 'X: 1\r\nY: 2\r\n')
  for (const _ of [1, 2, 3]) t.throws(() => Fields.fromFlat(['a b', 'c']).lines, TypeError)
  t.end()
})

t.test('names are found whatever their case, lines of one name are joined', t => {
  const fields = Fields.of(['Via', '1.1 a'], ['Left-Out', undefined], ['VIA', '1.1 b'], ['X', ''])
  t.equal(fields.get('via'), '1.1 a, 1.1 b')
  t.strictSame(fields.all('Via'), ['1.1 a', '1.1 b'])
  t.equal(fields.get('x'), '', 'an empty value is a value')
  t.ok(fields.has('X'))
  t.notOk(fields.has('left-out'))
  t.equal(fields.get('left-out'), undefined)
  t.strictSame(fields.all('left-out'), [])
  t.end()
})

t.test('a change gives new fields and leaves the old ones alone', t => {
  const fields = Fields.of(['A', '1'], ['B', '2'], ['a', '3'])
  t.strictSame(fields.with('A', '4').flat, ['B', '2', 'A', '4'])
  t.strictSame(fields.plus('A', '4').flat, ['A', '1', 'B', '2', 'a', '3', 'A', '4'])
  t.strictSame(fields.without('a', 'c').flat, ['B', '2'])
  t.equal(fields.without('A', 'B'), Fields.empty)
  t.strictSame(fields.flat, ['A', '1', 'B', '2', 'a', '3'])
  t.equal(Fields.fromFlat([]), Fields.empty)
  t.end()
})

t.test('a flat list with a name and no value does not break a scan', t => {
  const fields = Fields.fromFlat(['A', '1', 'B'])
  t.equal(fields.get('b'), undefined)
  t.notOk(fields.has('b'))
  t.strictSame([...fields], [['A', '1']])
  t.end()
})

t.test('names and tokens', t => {
  t.ok(sameName('ETag', 'etag'))
  t.notOk(sameName('ETag', 'etags'))
  for (const good of ['a', 'X-Y', "!#$%&'*+-.^_`|~09Az"]) t.ok(isToken(good), good)
  for (const bad of ['', 'a b', 'a:', 'a,b', '"a"', 'ä', 'a\n', '(a)']) {
    t.notOk(isToken(bad), JSON.stringify(bad))
  }
  t.end()
})

t.test('lists are split at commas that stand outside quoted strings', t => {
  const table: ReadonlyArray<readonly [value: string, members: readonly string[]]> = [
    ['', []],
    [' , ,', []],
    ['a', ['a']],
    ['a, b ,\tc', ['a', 'b', 'c']],
    ['foo , ,bar,charlie', ['foo', 'bar', 'charlie']],
    ['a="x, y", b', ['a="x, y"', 'b']],
    ['"a\\", b", c', ['"a\\", b"', 'c']],
    ['a, "never ends, b', ['a', '"never ends, b']],
    ['a, "ends with a backslash\\', ['a', '"ends with a backslash\\']],
    ['a\\, b', ['a\\', 'b']],
    ['\xa0a, b\x0b', ['\xa0a', 'b\x0b']],
  ]
  for (const [value, members] of table) t.strictSame(listMembers(value), members, value)
  t.strictSame(splitUnquoted('a; b=";" ;', ';'), ['a', 'b=";"', ''])
  t.end()
})

t.test('only spaces and tabs are optional whitespace', t => {
  t.equal(trimWhitespace(' \t a b\t '), 'a b')
  t.equal(trimWhitespace(' \t '), '')
  t.equal(trimWhitespace('\xa0a\x0b\r'), '\xa0a\x0b\r')
  t.end()
})

t.test('quoted strings lose their quotes and escapes, other text is none', t => {
  const table: ReadonlyArray<readonly [text: string, meaning: string | undefined]> = [
    ['""', ''],
    ['"a b,\t"', 'a b,\t'],
    ['"a\\"b\\\\c\\d"', 'a"b\\cd'],
    ['"\xe4"', '\xe4'],
    ['a', undefined],
    ['"', undefined],
    ['"a', undefined],
    ['"a\\"', undefined],
    ['"a"b', undefined],
    ['"a" ', undefined],
    ['"a\nb"', undefined],
    ['"\0"', undefined],
  ]
  for (const [text, meaning] of table) t.equal(unquote(text), meaning, JSON.stringify(text))
  t.end()
})

t.test('hostile lists never throw, and members joined again give the same members', t => {
  const chance = seeded(1)
  for (let i = 0; i < 3000; i += 1) {
    const value = chance.text(hostilePieces, 30)
    const members = listMembers(value)
    const again = listMembers(members.join(', '))
    if (JSON.stringify(again) !== JSON.stringify(members)) t.fail(JSON.stringify(value))
    unquote(value)
  }
  t.end()
})

/** The rule before any thought of what a long list costs. */
function plainPieces(value: string, separator: ',' | ';'): readonly string[] {
  const pieces = ['']
  let quoted = false
  for (let i = 0; i < value.length; i += 1) {
    let text = value.charAt(i)
    if (text === separator && !quoted) {
      pieces.push('')
      continue
    }
    if (quoted && text === '\\') {
      i += 1
      text += value.charAt(i)
    } else if (text === '"') quoted = !quoted
    pieces.push((pieces.pop() ?? '') + text)
  }
  return pieces.map(piece => piece.replace(/^[\t ]+/, '').replace(/[\t ]+$/, ''))
}

t.test('lists are split as the plain rule splits them, and no further than is asked', t => {
  const chance = seeded(38)
  const pieces = [...',;"\\ \ta', 'bc', ', ', '"a,b"', '"\\""']
  for (let i = 0; i < 20_000; i += 1) {
    const value = chance.text(i % 4 === 0 ? hostilePieces : pieces, 12)
    const members = plainPieces(value, ',').filter(member => member !== '')
    const most = chance.below(5)
    const read = [splitUnquoted(value, ','), splitUnquoted(value, ';'), listMembers(value)]
    const plain = [plainPieces(value, ','), plainPieces(value, ';'), members]
    const [found, expected] = [
      [...read, listMembers(value, most)],
      [...plain, members.slice(0, most)],
    ].map(lists => JSON.stringify(lists))
    if (found !== expected) t.equal(found, expected, value)
  }
  t.end()
})
