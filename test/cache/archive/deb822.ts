import t from 'tap'
import { type StanzaOptions, stanzas, stanzasOf } from '../../../lib/cache/archive/deb822.ts'
import { seeded } from '../../fixtures/chance/seeded-random.ts'

type Told = Readonly<Record<string, string | true>>

const read = (text: string, options?: StanzaOptions): readonly Told[] =>
  stanzasOf(Buffer.from(text), options).map(({ fields, damaged }) => ({
    ...Object.fromEntries(fields),
    ...(damaged ? { damaged } : {}),
  }))

async function* pieces(content: Buffer, size: number) {
  for (let at = 0; at < content.length; at += size) yield content.subarray(at, at + size)
}

t.test('fields, folded values, comments and stanzas', async t => {
  const table: ReadonlyArray<readonly [string, readonly Told[]]> = [
    ['', []],
    ['\n\n\n', []],
    ['A: b', [{ a: 'b' }]],
    ['A: b\n', [{ a: 'b' }]],
    ['A:b\nC:\t d \n', [{ a: 'b', c: 'd' }]],
    ['A: b\n\n\nA: c\n', [{ a: 'b' }, { a: 'c' }]],
    ['A: b\r\nC: d\r\n\r\nA: e\r\n', [{ a: 'b', c: 'd' }, { a: 'e' }]],
    ['A: b\n c\n  d\n\te\nF: g\n', [{ a: 'b\nc\nd\ne', f: 'g' }]],
    ['A:\n b\n', [{ a: '\nb' }]],
    ['# comment\nA: b\n# comment\n c\n', [{ a: 'b\nc' }]],
    ['A: b: c\n', [{ a: 'b: c' }]],
    ['A: b\n \nC: d\n', [{ a: 'b\n', c: 'd' }]],
    ['SHA256: x\nsha256: y\n', [{ sha256: 'x', damaged: true }]],
    ['nonsense\nA: b\n', [{ a: 'b', damaged: true }]],
    [': b\n', [{ damaged: true }]],
    [' leading\nA: b\n', [{ a: 'b' }]],
  ]
  for (const [text, expected] of table) t.strictSame(read(text), expected, text)
  t.match(read('A: Grüße\n'), [{ a: 'Grüße' }], 'values are UTF-8')
  t.match(read('A: Città\n e Libertà\r\n'), [{ a: 'Città\ne Libertà' }], 'to their last byte')
})

t.test('only wanted fields are kept, in any case', async t => {
  const text = 'Package: a\nFILENAME: x\n folded\nSize: 1\n folded\nDescription: y\n long\nA: z\n'
  t.strictSame(read(text, { wanted: ['Filename', 'A'] }), [{ filename: 'x\nfolded', a: 'z' }])
  t.strictSame(read('Package: a\n\nPackage: b\n', { wanted: ['Size'] }), [{}, {}])
})

t.test('what is too long is dropped, and the rest goes on', async t => {
  const long = 'x'.repeat(100)
  t.strictSame(read(`A: ${long}\nB: c\n\nA: d\n`, { maxField: 50 }), [
    { b: 'c', damaged: true },
    { a: 'd' },
  ])
  t.strictSame(read(`A: ${' y\n'.repeat(60)}B: c\n`, { maxField: 50 }), [{ b: 'c', damaged: true }])
  const three = ['A', 'B', 'C'].map(name => `${name}: ${'x'.repeat(40)}\n`).join('')
  t.match(read(three, { maxField: 50, maxStanza: 100 }), [{ a: /x/, b: /x/, damaged: true }])
  const endless = async function* () {
    for (let n = 0; n < 200; n += 1) yield Buffer.alloc(1 << 20, 'x')
    yield Buffer.from('\n\nA: b\n')
  }
  const found = []
  for await (const stanza of stanzas(endless())) found.push(stanza)
  t.equal(found.length, 2, 'a line without end takes no more memory than the bound')
  t.ok(process.memoryUsage().rss < 600e6)
})

t.test('pieces of any size give the same', async t => {
  const text = Buffer.from('A: b\r\n c\n\n#x\nD: grün\nE:\n f\n\n\nG: h')
  const whole = stanzasOf(text)
  for (let size = 1; size <= text.length; size += 1) {
    const found = []
    for await (const stanza of stanzas(pieces(text, size))) found.push(stanza)
    t.strictSame(found, whole, `${size}`)
  }
})

t.test('nothing is thrown, whatever comes', async t => {
  const chance = seeded(822)
  const pieces = ['A', ':', ' ', '\n', '\r', '\t', '#', '\0', '\u00ff', '-', 'Size: 1\n', '\n\n']
  for (let n = 0; n < 500; n += 1) {
    const content = Buffer.from(chance.text(pieces, 200), 'latin1')
    t.doesNotThrow(() => stanzasOf(content, { maxField: 20, maxStanza: 60 }))
  }
})
