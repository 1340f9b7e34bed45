import t from 'tap'
import { Fields } from '../../../lib/http/message/field.ts'
import { framingOf, keepAliveTime, keepsConnection } from '../../../lib/http/wire/framing.ts'
import type { ResponseHead } from '../../../lib/http/wire/response-head.ts'

function head(lines: string, options: Partial<ResponseHead> = {}): ResponseHead {
  const flat = lines.split('\n').flatMap(line => (line === '' ? [] : line.split(': ')))
  return { version: '1.1', status: 200, reason: '', fields: Fields.fromFlat(flat), ...options }
}

t.test('where the content ends', t => {
  for (const [lines, framing] of [
    ['Content-Length: 5', { kind: 'length', length: 5 }],
    ['content-length: 0', { kind: 'length', length: 0 }],
    ['Content-Length: 5\nContent-Length: 5', { kind: 'length', length: 5 }],
    ['Content-Length: 5, 5 ,5', { kind: 'length', length: 5 }],
    ['Content-Length: 8999999999999999', { kind: 'length', length: 8_999_999_999_999_999 }],
    ['Transfer-Encoding: chunked', { kind: 'chunked' }],
    ['transfer-encoding: Chunked', { kind: 'chunked' }],
    ['', { kind: 'close' }],
  ] as const) {
    t.strictSame(framingOf('GET', head(lines)), framing, lines)
    t.strictSame(framingOf('HEAD', head(lines)), { kind: 'length', length: 0 }, `HEAD ${lines}`)
    for (const status of [204, 304]) {
      t.strictSame(framingOf('GET', head(lines, { status })), { kind: 'length', length: 0 })
    }
  }
  t.end()
})

t.test('framing in doubt is none', t => {
  for (const [lines, version] of [
    ['Content-Length: 5\nContent-Length: 6', '1.1'],
    ['Content-Length: 5, 05', '1.1'],
    ['Content-Length: -5', '1.1'],
    ['Content-Length: +5', '1.1'],
    ['Content-Length: 0x5', '1.1'],
    ['Content-Length: ', '1.1'],
    ['Content-Length: 9007199254740993', '1.1'],
    ['Content-Length: 18446744073709551621', '1.1'],
    ['Content-Length: 5\nTransfer-Encoding: chunked', '1.1'],
    ['Transfer-Encoding: gzip', '1.1'],
    ['Transfer-Encoding: gzip, chunked', '1.1'],
    ['Transfer-Encoding: chunked, chunked', '1.1'],
    ['Transfer-Encoding: chunked\nTransfer-Encoding: chunked', '1.1'],
    ['Transfer-Encoding: identity', '1.1'],
    ['Transfer-Encoding: ', '1.1'],
    ['Transfer-Encoding: chunked', '1.0'],
  ] as const) {
    t.match(framingOf('GET', head(lines, { version })), { problem: String }, lines)
    const bare = { kind: 'length', length: 0 }
    t.strictSame(framingOf('HEAD', head(lines, { version })), bare, 'no content, whatever it says')
    t.strictSame(framingOf('GET', head(lines, { version, status: 304 })), bare)
  }
  t.end()
})

t.test('what is wrong is what the log says', t => {
  for (const [lines, problem] of [
    ['Content-Length: 5\nContent-Length: 6', 'it has several lengths that differ'],
    ['Content-Length: five', 'its length is not a number'],
    ['Content-Length: five, five', 'its length is not a number'],
    ['Content-Length: 18446744073709551621', 'its length is too large to be counted'],
    ['Transfer-Encoding: gzip', 'its transfer coding is not chunked'],
    [
      'Transfer-Encoding: chunked\nTransfer-Encoding: chunked',
      'its transfer coding is chunked more than once',
    ],
    ['Transfer-Encoding: gzip, chunked', 'it has another transfer coding than chunked'],
  ] as const) {
    t.strictSame(framingOf('GET', head(lines)), { problem }, lines)
  }
  t.end()
})

t.test('whether the connection stays, and for how long', t => {
  for (const [lines, version, stays] of [
    ['', '1.1', true],
    ['', '1.0', false],
    ['Connection: keep-alive', '1.1', true],
    ['Connection: Keep-Alive', '1.0', true],
    ['Connection: close', '1.1', false],
    ['Connection: X-A, Close', '1.1', false],
    ['Connection: keep-alive, X-A', '1.0', true],
    ['Connection: X-A', '1.0', false],
    ['Connection: X-A', '1.1', true],
    ['Connection: keep-alive\nConnection: close', '1.1', false],
  ] as const) {
    t.equal(keepsConnection(head(lines, { version })), stays, lines)
  }
  t.equal(keepAliveTime(Fields.of(['Keep-Alive', 'max=9, timeout=5'])), 5000)
  t.equal(keepAliveTime(Fields.of(['Keep-Alive', 'timeout=0'])), 0)
  t.equal(keepAliveTime(Fields.of(['Keep-Alive', 'notimeout=5'])), undefined)
  t.equal(keepAliveTime(Fields.empty), undefined)
  t.end()
})
