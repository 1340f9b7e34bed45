import { isIP as isIPOfNode } from 'node:net'
import t from 'tap'
import {
  AddressSet,
  isIP,
  isPublicAddress,
  networkOf,
  normaliseAddress,
  parseNetwork,
} from '../lib/ip.ts'
import { hostilePieces, seeded } from './fixtures/chance/seeded-random.ts'

t.test('the addresses of one client', async t => {
  for (const [address, network] of [
    ['192.0.2.1', '192.0.2.1'],
    ['::ffff:192.0.2.1', '::ffff:192.0.2.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::'],
    ['2001:db8:1:2::1', '2001:db8:1:2::'],
    ['unknown', 'unknown'],
  ] as const) {
    t.equal(networkOf(address), network)
  }
})

t.test('an address has one spelling', async t => {
  for (const [text, normal] of [
    ['192.0.2.1', '192.0.2.1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['::FFFF:c000:0201', '192.0.2.1'],
    ['0:0:0:0:0:ffff:192.0.2.1', '192.0.2.1'],
    ['[2001:db8::1]', '2001:db8::1'],
    ['2001:DB8:0:0:0:0:0:1', '2001:db8::1'],
    ['2001:0db8::0001:0000', '2001:db8::1:0'],
    ['2001:db8:0:1:1:1:1:1', '2001:db8:0:1:1:1:1:1'],
    ['2001:0:0:1:0:0:0:1', '2001:0:0:1::1'],
    ['2001:db8:0:0:1:0:0:1', '2001:db8::1:0:0:1'],
    ['10:0:0:100:0:0:0:5', '10:0:0:100::5'],
    ['fe80::1%eth0', 'fe80::1'],
    ['fe80:0:0:0:0:0:0:0', 'fe80::'],
    ['::', '::'],
    ['::1', '::1'],
    ['::192.0.2.1', '::192.0.2.1'],
    ['64:ff9b::192.0.2.33', '64:ff9b::c000:221'],
    ['1:2:3:4:5:6:7:8', '1:2:3:4:5:6:7:8'],
    ['1:2:3:4:5:6:7::', '1:2:3:4:5:6:7:0'],
  ] as const) {
    t.equal(normaliseAddress(text), normal, text)
    t.equal(normaliseAddress(normal), normal, `${normal} stays`)
  }
})

t.test('what is no address has none', async t => {
  const texts = ['', 'archive.example.org', '127.1', '0x7f.0.0.1', '2130706433', '01.2.3.4']
  const more = [
    '1.2.3',
    '1.2.3.256',
    '[192.0.2.1]',
    '1::2::3',
    '::1%',
    '[::1',
    '192.0.2.1:80',
    ' ::1',
  ]
  for (const text of [...texts, ...more]) {
    t.equal(normaliseAddress(text), undefined, text)
    t.equal(isPublicAddress(text), false, text)
  }
})

t.test('the edges of what is not public', async t => {
  // Each row: last public before, first inside, last inside, first public after.
  for (const row of [
    [undefined, '0.0.0.0', '0.255.255.255', '1.0.0.0'],
    ['9.255.255.255', '10.0.0.0', '10.255.255.255', '11.0.0.0'],
    ['100.63.255.255', '100.64.0.0', '100.127.255.255', '100.128.0.0'],
    ['126.255.255.255', '127.0.0.0', '127.255.255.255', '128.0.0.0'],
    ['169.253.255.255', '169.254.0.0', '169.254.255.255', '169.255.0.0'],
    ['172.15.255.255', '172.16.0.0', '172.31.255.255', '172.32.0.0'],
    ['191.255.255.255', '192.0.0.0', '192.0.0.255', '192.0.1.0'],
    ['192.88.98.255', '192.88.99.0', '192.88.99.255', '192.88.100.0'],
    ['192.167.255.255', '192.168.0.0', '192.168.255.255', '192.169.0.0'],
    ['198.17.255.255', '198.18.0.0', '198.19.255.255', '198.20.0.0'],
    ['223.255.255.255', '224.0.0.0', '255.255.255.255', undefined],
    [undefined, '::', '1fff:ffff::1', '2000::'],
    ['2000:ffff::1', '2001:1::', '2001:1ff:ffff::', '2001:200::'],
    ['3fff:ffff::1', '4000::', 'ffff::1', undefined],
  ] as const) {
    const [before, first, last, after] = row
    t.equal(isPublicAddress(first), false, first)
    t.equal(isPublicAddress(last), false, last)
    if (before !== undefined) t.equal(isPublicAddress(before), true, before)
    if (after !== undefined) t.equal(isPublicAddress(after), true, after)
  }
})

t.test('by name: loopback, unique-local, link-local, site-local, multicast, discard', async t => {
  const private6 = ['::1', 'fc00::1', 'fd12:3456::1', 'fe80::1', 'fe80::1%lo', 'fec0::1', 'ff02::1']
  for (const address of [
    ...private6,
    '100::1',
    '64:ff9b:1::a00:1',
    '::ffff:0:192.0.2.1',
    '5f00::1',
  ]) {
    t.equal(isPublicAddress(address), false, address)
  }
})

t.test('documentation ranges count as public', async t => {
  for (const address of ['192.0.2.1', '198.51.100.7', '203.0.113.9', '2001:db8::1', '3fff::1']) {
    t.equal(isPublicAddress(address), true, address)
  }
})

t.test('IPv6 that carries IPv4 is judged by what it carries', async t => {
  for (const [address, is] of [
    ['::ffff:10.0.0.1', false],
    ['::ffff:203.0.113.1', true],
    ['::ffff:7f00:1', false],
    ['::10.0.0.1', false],
    ['::203.0.113.1', true],
    ['64:ff9b::10.0.0.1', false],
    ['64:ff9b::203.0.113.1', true],
    ['64:ff9b::a9fe:a9fe', false],
    ['64:ff9b:1::203.0.113.1', true],
    ['64:ff9b:1::10.0.0.1', false],
    // Where the address of RFC 6052 section 2.2 may begin earlier, the last 32 bits prove nothing.
    ['64:ff9b:1:a00:1::203.0.113.1', false],
    ['2002:a00:1::', false],
    ['2002:7f00:1::1', false],
    ['2002:cb00:7101::1', true],
    // Teredo: server 203.0.113.1, client inverted.
    ['2001:0:cb00:7101:0:0:34ff:8efe', true],
    ['2001:0:cb00:7101:0:0:f5ff:fffe', false], // client 10.0.0.1
    ['2001:0:a00:1:0:0:34ff:8efe', false], // server 10.0.0.1
    ['2001:0:cb00:7101:0:0:80ff:fffe', false], // client 127.0.0.1
  ] as const) {
    t.equal(isPublicAddress(address), is, address)
  }
})

t.test('a set of networks', async t => {
  const set = AddressSet.fromCidrs([
    '10.0.0.0/8',
    '192.0.2.7',
    '2001:db8::/33',
    '::ffff:198.51.100.0/120',
  ])
  for (const [address, is] of [
    ['10.255.0.1', true],
    ['::ffff:10.1.2.3', true],
    ['11.0.0.0', false],
    ['192.0.2.7', true],
    ['192.0.2.8', false],
    ['2001:db8:7fff::1', true],
    ['2001:db8:8000::1', false],
    ['2001:db8::1%eth0', true],
    ['198.51.100.255', true],
    ['198.51.101.0', false],
    ['nonsense', false],
    ['', false],
  ] as const) {
    t.equal(set.has(address), is, address)
  }
})

t.test('the families are kept apart', async t => {
  const ipv6 = AddressSet.fromCidrs(['::/0'])
  t.equal(ipv6.has('2001:db8::1'), true)
  t.equal(ipv6.has('192.0.2.1'), false)
  t.equal(ipv6.has('::ffff:192.0.2.1'), false)
  const ipv4 = AddressSet.fromCidrs(['0.0.0.0/0'])
  t.equal(ipv4.has('::ffff:192.0.2.1'), true)
  t.equal(ipv4.has('2001:db8::1'), false)
  t.equal(AddressSet.fromCidrs([]).has('192.0.2.1'), false)
})

t.test('what is wrong with a network is said in a sentence', async t => {
  for (const [text, problem] of [
    ['10.0.0.0/8', undefined],
    ['0.0.0.0/0', undefined],
    ['::/0', undefined],
    ['2001:db8::1', undefined],
    ['192.0.2.1/32', undefined],
    ['2001:db8::1/128', undefined],
    [
      '10.0.0.1/8',
      /bits set behind its prefix; write 10\.0\.0\.0\/8 for the network or 10\.0\.0\.1/,
    ],
    ['2001:db8::1/64', /write 2001:db8::\/64/],
    ['10.0.0.0/33', /number from 0 to 32/],
    ['2001:db8::/129', /number from 0 to 128/],
    ['10.0.0.0/', /prefix length/],
    ['10.0.0.0/08', /prefix length/],
    ['10.0.0.0/-1', /prefix length/],
    ['10.0.0.0/255.0.0.0', /prefix length/],
    ['10.0.0.0/8/8', /prefix length/],
    ['10.0.0/8', /does not begin with an IP address/],
    ['localhost', /does not begin with an IP address/],
    ['', /does not begin with an IP address/],
    ['[::1]/128', /does not begin with an IP address/],
    ['fe80::1%eth0/64', /zone/],
    ['::ffff:10.0.0.0/8', /wider than the IPv4-mapped addresses/],
    ['::ffff:10.0.0.0/104', undefined],
  ] as const) {
    const found = parseNetwork(text)
    if (problem === undefined) t.equal(typeof found, 'object', text)
    else t.match(found, problem, text)
  }
  t.throws(() => AddressSet.fromCidrs(['10.0.0.0/99']), { code: 'cidr' })
})

t.test('the family of an address is what Node says, for hostile texts as well', async t => {
  const chance = seeded(4)
  const pieces = [
    '0',
    'f',
    'ffff',
    '10000',
    ':',
    ':',
    '::',
    '1.2.3.4',
    '01.2.3.4',
    '%eth0',
    '.',
    '%',
  ]
  const samples = [
    '2001:db8::1',
    '::ffff:192.0.2.1',
    'fe80::1%eth0',
    '1:2:3:4:5:6:7:8',
    '192.0.2.1',
  ]
  const wrong: string[] = []
  let addresses = 0
  for (let i = 0; i < 60_000; i += 1) {
    const text =
      i % 3 === 0
        ? chance.text(pieces, 16)
        : chance.mutate(chance.pick(samples), i % 2 === 0 ? pieces : hostilePieces)
    if (isIPOfNode(text) === 6) addresses += 1
    if (isIP(text) !== isIPOfNode(text)) wrong.push(text)
  }
  t.strictSame(wrong, [])
  t.ok(addresses > 1000, `${addresses} addresses`)
})
