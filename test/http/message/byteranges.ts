import t from 'tap'
import { frameByteRanges } from '../../../lib/http/message/range.ts'

t.test('the frame reads as in RFC 9110 section 14.6 and its length is exact', t => {
  const content = Buffer.from('0123456789')
  const ranges = [
    { first: 7, last: 9 },
    { first: 0, last: 0 },
  ]
  const frame = frameByteRanges({ ranges, size: 10, contentType: 'text/plain', boundary: 'SEP' })
  t.equal(frame.contentType, 'multipart/byteranges; boundary=SEP')
  const blocks = frame.parts.flatMap(({ head, range }) => [
    head,
    content.subarray(range.first, range.last + 1),
  ])
  const message = Buffer.concat([...blocks, frame.end])
  t.equal(
    message.toString('latin1'),
    [
      '--SEP',
      'Content-Type: text/plain',
      'Content-Range: bytes 7-9/10',
      '',
      '789',
      '--SEP',
      'Content-Type: text/plain',
      'Content-Range: bytes 0-0/10',
      '',
      '0',
      '--SEP--',
      '',
    ].join('\r\n'),
  )
  t.equal(frame.length, message.length)
  t.end()
})

t.test('without a content type the parts have none, and large sizes stay exact', t => {
  const size = 5_000_000_000
  const ranges = [{ first: 0, last: 4_000_000_000 }]
  const frame = frameByteRanges({ ranges, size, contentType: undefined, boundary: 'a-1' })
  const head = '--a-1\r\nContent-Range: bytes 0-4000000000/5000000000\r\n\r\n'
  t.equal(frame.parts[0]?.head.toString(), head)
  t.equal(frame.length, head.length + 4_000_000_001 + '\r\n--a-1--\r\n'.length)
  t.end()
})

t.test('bytes above ASCII in a stored content type keep their length', t => {
  const ranges = [{ first: 0, last: 0 }]
  const frame = frameByteRanges({ ranges, size: 1, contentType: 'x/\xe4', boundary: 'a' })
  t.equal(
    frame.parts[0]?.head.length,
    '--a\r\nContent-Type: x/?\r\n'.length + 'Content-Range: bytes 0-0/1\r\n\r\n'.length,
  )
  t.end()
})

t.test('boundaries and content types that could break out are refused', t => {
  const input = { ranges: [{ first: 0, last: 0 }], size: 1, contentType: 'a/b', boundary: 'a' }
  for (const boundary of ['', 'a b', 'a\r\nX: y', '"a"', 'a'.repeat(71)]) {
    t.throws(() => frameByteRanges({ ...input, boundary }), RangeError, JSON.stringify(boundary))
  }
  t.throws(() => frameByteRanges({ ...input, contentType: 'a/b\r\nX: y' }), RangeError)
  t.end()
})
