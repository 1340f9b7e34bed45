/** However the network cuts a response into parts, it is read as the same response. */
import t from 'tap'
import { readResponse } from '../../fixtures/http/read-response.ts'

// A busy machine has a minute for what takes seconds.
t.setTimeout(600_000)

const responses: ReadonlyArray<readonly [what: string, text: string, end?: string]> = [
  ['a length', 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: \t a b \r\n\r\nhello'],
  ['more than its length', 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\n'],
  ['no content', 'HTTP/1.1 204 No Content\r\nServer: a\r\n\r\n'],
  ['the end of the connection', 'HTTP/1.0 200 OK\r\nX:\r\n\r\nhello\r\n\r\n'],
  [
    'chunks and trailers',
    'HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n5;a="b"\r\nhello\r\n0a\r\n\r\n12345678\r\n0\r\nX: y\r\n\r\nmore',
  ],
  [
    'interim responses',
    'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 \r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx',
  ],
  ['a cut head', 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y', 'cut'],
  ['cut content', 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell', 'cut'],
  [
    'cut chunks',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n',
    'cut',
  ],
  [
    'another version',
    'HTTP/1.1 100 A\r\n\r\nHTTP/2.0 200 OK\r\n\r\n',
    'its status line is not that of HTTP/1.1 or 1.0',
  ],
  ['a folded line', 'HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n', 'a field of its head is folded'],
  [
    'two framings',
    'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n',
    'it has both a length and a transfer coding',
  ],
  [
    'a bad chunk',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX',
    'its content breaks the framing',
  ],
]

for (const [what, text, end = 'whole'] of responses) {
  t.test(what, t => {
    const bytes = Buffer.from(text, 'latin1')
    const whole = readResponse([bytes])
    t.equal(whole.end, end)
    const expected = JSON.stringify(whole)
    let cases = 0
    for (let a = 0; a <= bytes.length; a += 1) {
      for (let b = a; b <= bytes.length; b += 1) {
        const parts = [bytes.subarray(0, a), bytes.subarray(a, b), bytes.subarray(b)]
        const read = readResponse(parts)
        if (JSON.stringify(read) !== expected) t.strictSame(read, whole, `cut at ${a} and ${b}`)
        cases += 1
      }
    }
    const each = [...bytes].map((_, at) => bytes.subarray(at, at + 1))
    t.strictSame(readResponse(each), whole, 'byte by byte')
    t.ok(cases > bytes.length)
    t.end()
  })
}
