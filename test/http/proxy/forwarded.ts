import t from 'tap'
import { Fields } from '../../../lib/http/message/field.ts'
import { clientOf, forwardedAddress } from '../../../lib/http/proxy/forwarded.ts'
import { AddressSet } from '../../../lib/ip.ts'

t.test('addresses are understood as proxies write them', t => {
  for (const [text, address] of [
    ['203.0.113.9', '203.0.113.9'],
    [' 203.0.113.9 ', '203.0.113.9'],
    ['203.0.113.9:4711', '203.0.113.9'],
    ['2001:DB8::1', '2001:db8::1'],
    ['[2001:db8::1]', '2001:db8::1'],
    ['[2001:db8::1]:443', '2001:db8::1'],
    ['"[2001:db8::1]:443"', '2001:db8::1'],
    ['::ffff:203.0.113.9', '203.0.113.9'],
    ['unknown', undefined],
    ['_hidden', undefined],
    ['127.1', undefined],
    ['', undefined],
    ['203.0.113.9 203.0.113.8', undefined],
  ] as const) {
    t.equal(forwardedAddress(text), address, text)
  }
  t.end()
})

t.test('52: the first forwarded address counts when the peer is trusted, else the peer', t => {
  const of = (peer: string, forwarded: string | undefined, trusted: readonly string[]) =>
    clientOf(
      { client: { address: peer, port: 1 }, fields: Fields.of(['X-Forwarded-For', forwarded]) },
      AddressSet.fromCidrs(trusted),
    ).address
  t.equal(of('192.0.2.1', '203.0.113.9, 192.0.2.7', ['192.0.2.1']), '203.0.113.9')
  t.equal(of('192.0.2.1', '203.0.113.9', ['192.0.2.2']), '192.0.2.1')
  t.equal(of('192.0.2.1', undefined, ['192.0.2.0/24']), '192.0.2.1')
  t.equal(of('192.0.2.1', 'unknown, 203.0.113.9', ['192.0.2.0/24']), '192.0.2.1')
  t.equal(of('192.0.2.1', '203.0.113.9', []), '192.0.2.1', 'nobody is trusted unless told')
  t.end()
})
