/** What a request looks like on the wire, whatever was asked before it. */
import t from 'tap'
import { wireRequestOf } from '../../../lib/http/client/request.ts'
import { Fields } from '../../../lib/http/message/field.ts'

function headFor(host: string | undefined, name = 'origin.test'): string {
  const uri = { scheme: 'http', host: name, port: 8080, path: '/' } as const
  const asked = { method: 'GET', uri, host, fields: Fields.empty, trusted: true }
  return wireRequestOf(asked, undefined, false).head
}

function lines(host: string): string {
  return `GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: keep-alive\r\n\r\n`
}

t.test('every request has its own Host', t => {
  for (const host of ['a.test', 'a.test', 'b.test', 'localhost', '', 'a.test', '']) {
    t.equal(headFor(host), lines(host), JSON.stringify(host))
  }
  t.equal(headFor(undefined), lines('origin.test:8080'))
  t.equal(headFor(undefined, 'other.test'), lines('other.test:8080'))
  t.end()
})

t.test('a Host that cannot be written fails its request, each time, and no other', t => {
  const evil = 'a.test\r\nX-Authproxy-User: root'
  t.throws(() => headFor(evil), TypeError)
  t.throws(() => headFor(evil), TypeError)
  t.equal(headFor('b.test'), lines('b.test'))
  t.throws(() => headFor(evil), TypeError)
  t.end()
})
