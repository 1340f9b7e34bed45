import t from 'tap'
import { Fields } from '../../../lib/http/message/field.ts'
import { lastChunk, requestHead } from '../../../lib/http/wire/framing.ts'

t.test('a request is written as it is told', t => {
  const fields = Fields.of(['Host', 'a'], ['X', '\xe4\tb'])
  t.equal(
    requestHead('GET', '/a?b="|', fields),
    'GET /a?b="| HTTP/1.1\r\nHost: a\r\nX: \xe4\tb\r\n\r\n',
  )
  t.equal(lastChunk(Fields.empty), '0\r\n\r\n')
  t.equal(lastChunk(Fields.of(['A', 'b'])), '0\r\nA: b\r\n\r\n')
  t.end()
})

t.test('what could be read as something else is not written', t => {
  const one = Fields.of(['Host', 'a'])
  for (const [method, target, fields] of [
    ['', '/', one],
    ['GET /', '/', one],
    ['G\r\n', '/', one],
    ['GET', '', one],
    ['GET', '/a b', one],
    ['GET', '/a\r\nX: y', one],
    ['GET', '/\xe4', one],
    ['GET', '/\u0120', one],
    ['GET', '/', Fields.of(['X\r\nY', 'a'])],
    ['GET', '/', Fields.of(['', 'a'])],
    ['GET', '/', Fields.of(['X', 'a\r\nY: b'])],
    ['GET', '/', Fields.of(['X', 'a\0'])],
    ['GET', '/', Fields.of(['X', '\u010a'])],
  ] as const) {
    t.throws(() => requestHead(method, target, fields), TypeError)
  }
  t.throws(() => lastChunk(Fields.of(['X', 'a\nb'])), TypeError)
  t.end()
})
