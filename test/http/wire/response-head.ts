import t from 'tap'
import { Fields } from '../../../lib/http/message/field.ts'
import { ResponseHeadReader } from '../../../lib/http/wire/response-head.ts'

const limits = { bytes: 400, lines: 10 }

function read(text: string) {
  return new ResponseHeadReader(limits).read(Buffer.from(text, 'latin1'))
}

t.test('heads as servers send them are taken', t => {
  for (const [text, head] of [
    ['HTTP/1.1 200 OK\r\n\r\n', { version: '1.1', status: 200, reason: 'OK' }],
    ['HTTP/1.0 404 Not Found\r\n\r\n', { version: '1.0', status: 404, reason: 'Not Found' }],
    ['HTTP/1.1 200 \r\n\r\n', { reason: '' }],
    ['HTTP/1.1 200\r\n\r\n', { status: 200, reason: '' }],
    ['HTTP/1.1 999 \xe4\t!\r\n\r\n', { status: 999, reason: '\xe4\t!' }],
    ['HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n', { status: 103 }],
  ] as const) {
    t.match(read(text), { head, used: text.length }, JSON.stringify(text))
  }
  const fields =
    'X-A: b\r\nx-a:c\r\nEmpty:\r\nSpace: \t \r\nETag:  "1 2"\t \r\nLatin: \xe4\xff\ta\r\n'
  const spaced = read('HTTP/1.1 200 OK\r\nX-Old : 1\r\nA\t \t:b\r\n\r\n')
  if (typeof spaced === 'string' || 'problem' in spaced) throw new Error('not taken')
  t.strictSame(spaced.head.fields.flat, ['X-Old', '1', 'A', 'b'], 'RFC 9112 section 5.1')
  const reading = read(`HTTP/1.1 200 OK\r\n${fields}\r\nmore`)
  if (typeof reading === 'string' || 'problem' in reading) throw new Error('not taken')
  t.strictSame(reading.head.fields.flat, [
    ...['X-A', 'b', 'x-a', 'c', 'Empty', '', 'Space', '', 'ETag', '"1 2"', 'Latin', '\xe4\xff\ta'],
  ])
  t.equal(reading.used, `HTTP/1.1 200 OK\r\n${fields}\r\n`.length)
  t.end()
})

t.test('what breaks the grammar is refused at the byte that does', t => {
  const line = 'HTTP/1.1 200 OK\r\n'
  const refused = [
    'S',
    '\r',
    'h',
    'HTTP/2',
    'HTTP/1.2',
    'HTTP/1.1\t',
    'HTTP/1.1 0',
    'HTTP/1.1 20\r',
    'HTTP/1.1 2000',
    'HTTP/1.1 200\n',
    'HTTP/1.1 200 O\0',
    'HTTP/1.1 200 O\x7f',
    'HTTP/1.1 200 OK\n',
    'HTTP/1.1 200 OK\rX',
    ...[':', ' ', 'A b', 'A\0', '\xe4', 'A\r', '\n', '\rX'].map(text => line + text),
    ...['A: b\0', 'A: b\x01', 'A: b\x7f', 'A: b\n', 'A: b\rc'].map(text => line + text),
    `${line}A: b\r\n `,
    `${line}A: b\r\n\n`,
    `${line}A: b\r\n\rX`,
  ]
  for (const text of refused) {
    const name = JSON.stringify(text)
    t.match(read(text), { problem: String, tooLarge: false }, name)
    t.equal(text.length === 1 ? 'incomplete' : read(text.slice(0, -1)), 'incomplete', name)
  }
  t.end()
})

t.test('every field that is taken can be written as it came, without another look', t => {
  for (let code = 0; code < 256; code += 1) {
    const char = String.fromCharCode(code)
    for (const line of [`a${char}b: c`, `${char}: c`, `a: b${char}c`, `a: ${char}`]) {
      const reading = read(`HTTP/1.1 200 OK\r\n${line}\r\n\r\n`)
      if (typeof reading === 'string' || 'problem' in reading) continue
      const { fields } = reading.head
      t.equal(fields.lines, Fields.fromFlat(fields.flat).lines, `${code}: ${line}`)
    }
  }
  t.throws(() => Fields.fromFlat(['a b', 'c']).lines)
  t.end()
})

t.test('bytes and lines are bounded', t => {
  const line = 'HTTP/1.1 200 OK\r\n'
  const filled = (size: number) => `${line}A: ${'b'.repeat(size - line.length - 7)}\r\n\r\n`
  t.match(read(filled(limits.bytes)), { used: limits.bytes })
  t.match(read(filled(limits.bytes + 1)), { tooLarge: true })
  t.equal(read(filled(limits.bytes + 9).slice(0, limits.bytes)), 'incomplete')
  t.match(read(filled(limits.bytes + 9).slice(0, limits.bytes + 1)), { tooLarge: true })
  const many = (count: number) => `${line}${'A: b\r\n'.repeat(count)}\r\n`
  t.match(read(many(limits.lines)), { used: many(limits.lines).length })
  t.match(read(many(limits.lines + 1)), { tooLarge: true })
  t.end()
})

t.test('heads of the same bytes in a row are one object, and no others are', t => {
  const reader = new ResponseHeadReader({ bytes: 20_000, lines: 10 })
  const next = (text: string) => {
    const reading = reader.read(Buffer.from(text, 'latin1'))
    if (typeof reading === 'string' || 'problem' in reading) throw new Error('not taken')
    return reading
  }
  const head = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\nDate: a\r\n\r\n'
  const first = next(`${head}more`)
  t.strictSame(next(`${head}else`), first)
  t.equal(next(head).head, first.head)
  for (const other of [
    head.replace('200', '201'),
    head.replace('4', '5'),
    head.replace('Date', 'date'),
  ]) {
    t.match(next(other), { used: head.length })
    t.not(next(head).head, first.head, 'only the last one is kept')
    t.strictSame(next(head).head, first.head)
  }
  // In parts it is read anew, whatever was kept.
  t.equal(reader.read(Buffer.from(head.slice(0, 30))), 'incomplete')
  t.match(next(head.slice(30)), { head: first.head, used: head.length - 30 })
  const known = next(head).head
  t.equal(reader.read(Buffer.from(head.slice(0, -1))), 'incomplete')
  t.match(next('\nx'), { used: 1 })
  t.ok(known)
  const large = `HTTP/1.1 200 OK\r\nA: ${'b'.repeat(9000)}\r\n\r\n`
  t.not(next(large).head, next(large).head, 'large ones are not kept')
  t.end()
})

t.test('one head after the other, and none is read again from its first byte', t => {
  const reader = new ResponseHeadReader({ bytes: 1 << 20, lines: 1000 })
  const text = `HTTP/1.1 200 OK\r\nA: ${'b'.repeat(200_000)}\r\n\r\n`
  for (const round of [1, 2]) {
    const bytes = Buffer.from(text)
    for (let at = 0; at + 1 < bytes.length; at += 1) {
      if (reader.read(bytes.subarray(at, at + 1)) !== 'incomplete') t.fail(`at ${at}`)
    }
    // Were every byte looked at again for each that comes, this would take minutes.
    t.match(reader.read(bytes.subarray(-1)), { head: { status: 200 }, used: 1 }, `round ${round}`)
  }
  t.end()
})
