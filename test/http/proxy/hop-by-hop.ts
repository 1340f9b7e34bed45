import t from 'tap'
import { Fields } from '../../../lib/http/message/field.ts'
import { connectionOptions, endToEndFields } from '../../../lib/http/proxy/hop-by-hop.ts'
import { hostilePieces, seeded } from '../../fixtures/chance/seeded-random.ts'

t.test('fields of one connection are dropped though Connection forgets to name them', t => {
  const names = [
    'Connection',
    'Keep-Alive',
    'Proxy-Connection',
    'TE',
    'Trailer',
    'Transfer-Encoding',
    'Upgrade',
    'Proxy-Authenticate',
    'Proxy-Authorization',
    'Proxy-Authentication-Info',
  ]
  for (const name of names) {
    for (const written of [name, name.toLowerCase(), name.toUpperCase()]) {
      const fields = Fields.of(['A', '1'], [written, 'x'], ['B', '2'])
      t.strictSame(endToEndFields(fields).flat, ['A', '1', 'B', '2'], written)
    }
  }
  t.end()
})

t.test('what Connection names goes no further, in every line and whatever its case', t => {
  const fields = Fields.of(
    ['connection', 'close, X-Hop'],
    ['x-hop', '1'],
    ['X-Keep', '2'],
    ['Connection', '"odd", ,x-other'],
    ['X-HOP', '3'],
    ['X-Other', '4'],
  )
  t.strictSame(endToEndFields(fields).flat, ['X-Keep', '2'])
  t.end()
})

t.test('Connection cannot take away what framing, routing, identity or storing rely on', t => {
  const names = [
    'Content-Length',
    'Content-Type',
    'Content-Encoding',
    'Content-Range',
    'Host',
    'Authorization',
    'WWW-Authenticate',
    'Cookie',
    'Set-Cookie',
    'Via',
    'Forwarded',
    'X-Forwarded-For',
    'X-Forwarded-Proto',
    'If-None-Match',
    'If-Range',
    'Range',
    'Cache-Control',
    'Vary',
    'ETag',
    'Last-Modified',
  ]
  for (const name of names) {
    const fields = Fields.of(['Connection', name], [name, 'x'])
    t.strictSame(endToEndFields(fields).flat, [name, 'x'], name)
  }
  t.end()
})

t.test('fields without anything to drop are handed back as they are', t => {
  const fields = Fields.of(['Host', 'a'], ['Accept', '*/*'])
  t.equal(endToEndFields(fields), fields)
  t.equal(endToEndFields(Fields.empty), Fields.empty)
  t.end()
})

t.test('connection options are read without regard to case', t => {
  const fields = Fields.of(['Connection', 'Keep-Alive'], ['connection', 'UPGRADE'])
  t.strictSame(connectionOptions(fields), ['keep-alive', 'upgrade'])
  t.strictSame(connectionOptions(Fields.empty), [])
  t.end()
})

t.test(
  'whatever Connection says, the protected fields arrive and the hop-by-hop ones do not',
  t => {
    const chance = seeded(4)
    const pieces = [...hostilePieces, 'host', 'content-length', 'te', 'close', ', ', ',']
    for (let i = 0; i < 3000; i += 1) {
      const fields = Fields.of(
        ['Host', 'a'],
        ['Connection', chance.text(pieces, 20)],
        ['Content-Length', '1'],
        ['TE', 'trailers'],
      )
      const kept = endToEndFields(fields).flat.join()
      if (kept !== 'Host,a,Content-Length,1') t.fail(JSON.stringify(fields.flat))
    }
    t.end()
  },
)
