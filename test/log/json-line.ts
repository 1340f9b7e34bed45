import t from 'tap'
import { clean, cleanText, jsonLine } from '../../lib/log/redact.ts'
import { hostilePieces, seeded } from '../fixtures/chance/seeded-random.ts'

const frame = { level: 'info', time: '2025-01-01T00:00:00.000Z', message: 'request' }

/** What a line is, said the long way. */
function expected(message: string, facts: Readonly<Record<string, unknown>>): string {
  const { level, time } = frame
  return `${JSON.stringify({ level, time, ...clean(facts), message })}\n`
}

t.test('a line is the clean facts as JSON, whatever they are', t => {
  const table: ReadonlyArray<Readonly<Record<string, unknown>>> = [
    {},
    { a: 1, b: -0, c: 1e21, d: Number.NaN, e: Number.POSITIVE_INFINITY, f: 10n },
    { a: undefined, b: null, c: true, d: [1, 'x', undefined], e: { f: { g: { h: { i: 1 } } } } },
    { a: () => 1, b: Symbol('s'), c: new Date(0), d: Buffer.from('x') },
    { error: new Error('http://bob:secret@h/ failed', { cause: new Error('?token=secret') }) },
    { target: 'http://bob:secret@h.example.org/x?token=secret', agent: 'a "b" \\ \u2028\n\u0000é' },
    { password: 'secret', Cookie: 'secret', proxyAuthorization: 'secret', token: { a: 'secret' } },
    { long: 'x'.repeat(10_000), longer: `//u:secret@${'x'.repeat(10_000)}` },
    { constructor: 1, a: 'x', part: undefined },
    { level: 'forged', time: 'forged', message: 'forged', b: 1 },
    { '"': 1, 'a b': 'c', é: 'd', __proto__: 'e', [`${'n'.repeat(100)}`]: 1 },
  ]
  for (const [before, facts] of table.flatMap(one => table.map(other => [one, other] as const))) {
    t.equal(
      jsonLine(frame, facts, before),
      expected(frame.message, { ...before, ...facts }),
      'facts of a logger come first',
    )
  }
  for (const facts of table) {
    const line = jsonLine(frame, facts)
    t.equal(line, expected(frame.message, facts))
    const bare = { ...clean(facts), message: frame.message }
    t.strictSame(
      JSON.parse(jsonLine({ message: frame.message }, facts)),
      JSON.parse(JSON.stringify(bare)),
    )
    t.notMatch(line, 'secret')
  }
  t.end()
})

t.test('hostile texts, as values and as messages', t => {
  const chance = seeded(1)
  const wrong: string[] = []
  for (let i = 0; i < 20_000; i += 1) {
    const text = chance.mutate('http://archive.example.org/pool/a_1.deb', hostilePieces)
    const message = cleanText(text)
    const facts = { target: text, n: i }
    if (jsonLine({ ...frame, message }, facts) !== expected(message, facts)) wrong.push(text)
  }
  t.strictSame(wrong, [])
  t.end()
})
