import t from 'tap'
import { ChunkReader } from '../../../lib/http/wire/chunks.ts'

function read(text: string, reader = new ChunkReader()) {
  const bytes = Buffer.from(text, 'latin1')
  let content = ''
  const used = reader.read(bytes, (from, to) => {
    content += bytes.toString('latin1', from, to)
  })
  return { used, content, trailers: reader.trailers?.flat }
}

t.test('content comes without its coding, and the end with its trailer fields', t => {
  for (const [text, content, trailers] of [
    ['0\r\n\r\n', '', []],
    ['5\r\nhello\r\n0\r\n\r\n', 'hello', []],
    ['5\r\nhello\r\nA\r\n, worlds!?\r\n000\r\n\r\n', 'hello, worlds!?', []],
    ['5;a=b;c="d e\xe4"\r\nhello\r\n0;x\r\n\r\n', 'hello', []],
    ['1\r\n\r\r\n1\r\n\n\r\n0\r\nX-A: b\r\nx-c:d \r\n\r\n', '\r\n', ['X-A', 'b', 'x-c', 'd']],
    ['5 \t\r\nhello\r\n0  ;x\r\n\r\n', 'hello', []],
    ['00000000000a\r\n0123456789\r\n0\r\n\r\n', '0123456789', []],
  ] as const) {
    t.strictSame(read(text), { used: text.length, content, trailers }, JSON.stringify(text))
    t.match(read(`${text}HTTP/1.1`), { used: text.length, content }, 'and stops at its end')
  }
  t.strictSame(read('5\r\nhel'), { used: 6, content: 'hel', trailers: undefined })
  t.end()
})

t.test('what breaks the coding is refused at the byte that does', t => {
  const refused = [
    ...[
      'g',
      '\r',
      '\n',
      '-',
      ' ',
      ';',
      '5 5',
      '5 \n',
      '5\n',
      '5\rh',
      '5x',
      '0x',
      '5;a\n',
      '5;\0',
      '5;a\rb',
    ],
    ...['0'.repeat(14), '5\r\nhello0', '5\r\nhello\n', '5\r\nhello\rx', '5\r\nhello\r\n\r'],
    ...['0\r\n\n', '0\r\n:', '0\r\nA b', '0\r\nA: b\n', '0\r\nA: b\r\n ', '0\r\n\rx'],
  ]
  for (const text of refused) {
    t.equal(read(text).used, undefined, JSON.stringify(text))
    t.equal(read(text.slice(0, -1)).used, text.length - 1, JSON.stringify(text.slice(0, -1)))
  }
  t.end()
})

t.test('trailers do not frame', t => {
  for (const name of ['content-length', 'Transfer-Encoding']) {
    t.equal(read(`0\r\n${name}: 5\r\n\r\n`).used, undefined)
  }
  t.end()
})

t.test('extensions and trailers are bounded', t => {
  const chunk = (size: number) => `1;${'e'.repeat(size)}\r\nx\r\n`
  t.equal(read(chunk(4096) + chunk(4096)).used, 2 * chunk(4096).length)
  t.equal(read(chunk(4097)).used, undefined)
  t.equal(read(`0\r\n${'A: b\r\n'.repeat(201)}`).used, undefined)
  t.match(read(`0\r\n${'A: b\r\n'.repeat(200)}\r\n`).trailers, { length: 400 })
  t.equal(read(`0\r\nA: ${'b'.repeat(17_000)}`).used, undefined)
  const reader = new ChunkReader()
  t.equal(read(`0\r\nA: ${'b'.repeat(16_000)}`, reader).used, 16_006)
  t.equal(read('b'.repeat(1000), reader).used, undefined)
  t.end()
})
