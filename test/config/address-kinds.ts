import t from 'tap'
import { network, readListenAddress } from '../../lib/config/address-kinds.ts'
import { checkSettings, group, requiredSetting } from '../../lib/config/settings.ts'

const problem = (read: { ok: boolean; problem?: string }) => (read.ok ? undefined : read.problem)

t.test('addresses to listen on', t => {
  const table: ReadonlyArray<readonly [unknown, string | undefined, number]> = [
    ['127.0.0.1:3142', '127.0.0.1', 3142],
    ['[::1]:3142', '::1', 3142],
    ['[fe80::1%eth0]:3142', 'fe80::1%eth0', 3142],
    [':3142', undefined, 3142],
    ['*:3142', undefined, 3142],
    ['3142', undefined, 3142],
    [3142, undefined, 3142],
    ['127.0.0.1:0', '127.0.0.1', 0],
  ]
  for (const [text, address, port] of table) {
    t.strictSame(readListenAddress(text), { ok: true, value: { address, port } }, String(text))
  }
  t.match(problem(readListenAddress('::1')), /write \[::1\]:PORT/)
  t.match(problem(readListenAddress('localhost:80')), /write 127\.0\.0\.1:80/)
  t.match(problem(readListenAddress('host.example.org:80')), /a name is not an address/)
  t.match(problem(readListenAddress('127.0.0.1')), /the port is missing/)
  t.match(problem(readListenAddress('127.0.0.1:x')), /from 0 to 65535/)
  t.match(problem(readListenAddress(70_000)), /from 0 to 65535/)
  t.match(problem(readListenAddress({})), /expected ADDRESS:PORT/)
  t.end()
})

const networks = checkSettings(group('', { n: requiredSetting(network, '').says('') }))

function readNetwork(n: unknown): string {
  const checked = networks({ n })
  return checked.ok ? checked.value.n : checked.problems.map(({ text }) => text).join()
}

t.test('networks are whole and canonical', t => {
  const table: ReadonlyArray<readonly [string, string]> = [
    ['10.0.0.0/8', '10.0.0.0/8'],
    ['192.0.2.7', '192.0.2.7/32'],
    ['0.0.0.0/0', '0.0.0.0/0'],
    ['::/0', '::/0'],
    ['FC00::/7', 'fc00::/7'],
    ['fe80::/10', 'fe80::/10'],
    ['2001:db8:0:0::1', '2001:db8::1/128'],
    ['[2001:db8::]/32', '2001:db8::/32'],
    ['::ffff:10.0.0.0/104', '10.0.0.0/8'],
  ]
  for (const [text, value] of table) t.equal(readNetwork(text), value, text)
  t.match(readNetwork('10.1.2.3/8'), /write 10\.0\.0\.0\/8/)
  t.match(readNetwork('2001:db8:ffff::1/33'), /write 2001:db8:8000::\/33/)
  t.match(readNetwork('10.0.0.0/33'), /from 0 to 32/)
  t.match(readNetwork('all'), /0\.0\.0\.0\/0 and ::\/0/)
  for (const bad of ['10.0.0/8', 'host', '', '10.0.0.0/', '10.0.0.0/8/8', 'fe80::1%eth0']) {
    t.match(readNetwork(bad), /expected a network/, bad)
  }
  t.match(readNetwork(7), /found 7/)
  t.end()
})
