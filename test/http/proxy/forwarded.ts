import t from 'tap'
import { Fields } from '../../../lib/http/message/field.ts'
import { clientOf, forwardedAddress, withoutForwarding } from '../../../lib/http/proxy/forwarded.ts'
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

t.test('52: whatever claims to know the client goes, in any spelling', t => {
  const fields = Fields.of(
    ['X-Forwarded-For', '1'],
    ['x_forwarded_proto', '2'],
    ['FORWARDED', '3'],
    ['X-Real.IP', '4'],
    ['X-Forwarded-Fortune', '5'],
  )
  t.same([...withoutForwarding(fields)], [['X-Forwarded-Fortune', '5']])
  t.end()
})

t.test('what a client says of proxies and prefixes does not go on', t => {
  const names = ['Proxy', 'PROXY', 'X-Forwarded-Prefix', 'X_Forwarded_Prefix']
  const fields = Fields.of(...names.map(name => [name, 'x'] as const), ['Proxy-Status', 'kept'])
  t.same(withoutForwarding(fields).flat, ['Proxy-Status', 'kept'])
  t.end()
})

t.test('a name goes in every spelling of its separators, and a longer one stays', t => {
  const names = [
    'X-Original-Forwarded-For',
    'X-Real-IP',
    'Forwarded',
    'Proxy',
    'X-Envoy-Original-Path',
  ]
  for (const name of names) {
    for (const separator of [...'-_.~!']) {
      const spelt = name.replaceAll('-', separator).toUpperCase()
      t.equal(withoutForwarding(Fields.of([spelt, 'x'])).count, 0, spelt)
      t.equal(withoutForwarding(Fields.of([`${spelt}-${name}`, 'x'])).count, 1, spelt)
    }
  }
  t.end()
})
