import t from 'tap'
import {
  endpoint,
  endpointFor,
  exampleHost,
  localUrl,
  neighbourCaution,
  reachableUrl,
  unremovableText,
} from '../../../lib/cache/operations/endpoint.ts'
import { ownName, userName } from '../../../lib/files/directory-owner.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import { isLoopback } from '../../../lib/ip.ts'
import { plainConfig, request, sources } from '../../fixtures/cache/operations.ts'

function named(...hostnames: string[]) {
  return { ...plainConfig, index: { ...plainConfig.index, hostnames } }
}

t.test('the host of examples', async t => {
  const hostOf = (...of: Parameters<typeof exampleHost>) => exampleHost(...of).host
  const addresses = ['127.0.0.1', '::1', '2001:db8::10', '192.0.2.10', '198.51.100.7']
  t.equal(hostOf(named('a.example', 'b.example'), addresses), 'a.example', 'first name')
  t.equal(hostOf(named(' ', 'b.example'), addresses), 'b.example', 'a blank is no name')
  t.equal(hostOf(named('[2001:db8::1]'), addresses), '2001:db8::1', 'without brackets')
  t.equal(hostOf(named(), addresses), '192.0.2.10', 'first IPv4 address not of loopback')
  t.equal(hostOf(named(), ['127.0.0.1', '127.0.1.1', '::1']), '127.0.0.1')
  t.equal(hostOf(named(), []), '127.0.0.1')
})

t.test('the port is the main listener’s, as it really is', async t => {
  const open = [
    { address: undefined, port: 8091, secure: true },
    { address: undefined, port: 49_152, secure: false },
    { address: undefined, port: 8090, secure: false },
  ]
  t.strictSame(endpoint(named('a.example'), [], open), {
    host: 'a.example',
    port: 49_152,
    url: 'http://a.example:49152',
    from: 'index.hostnames',
  })
  t.equal(endpoint(named('a.example'), [], open.slice(0, 1)).url, 'https://a.example:8091')
  t.equal(endpoint(named('a.example'), [], []).url, 'http://a.example:3142', 'as configured')
  t.equal(endpoint({ ...named('a.example'), listen: [] }, [], []).port, 3142)
})

t.test('the host is the address the main listener is bound to, if that is one', async t => {
  const url = (...bound: Array<string | undefined>) =>
    endpoint(
      named(),
      ['192.0.2.10'],
      bound.map(address => ({ address, port: 3142, secure: false })),
    ).url
  t.equal(url('198.51.100.7'), 'http://198.51.100.7:3142')
  t.equal(url(undefined), 'http://192.0.2.10:3142')
  t.equal(url('127.0.0.1', '198.51.100.7'), 'http://198.51.100.7:3142', 'not a loopback address')
  t.equal(url('127.0.0.1'), 'http://127.0.0.1:3142', 'unless there is no other')
})

t.test('addresses stand in URIs as addresses do', async t => {
  t.match(endpoint(named('2001:db8::1'), [], []), {
    url: 'http://[2001:db8::1]:3142',
  })
  t.match(endpoint(named(), ['192.0.2.10'], []), { url: 'http://192.0.2.10:3142' })
})

t.test('addresses only this machine reaches', async t => {
  for (const address of ['127.0.0.1', '127.1.2.3', '::1', 'localhost']) t.ok(isLoopback(address))
  for (const address of ['', '::', '0.0.0.0', '192.0.2.1']) t.notOk(isLoopback(address))
})

t.test('where it answers: at the address it is bound to, if that is one', async t => {
  const at = (address: string | undefined, ...addresses: string[]) =>
    reachableUrl(named(), addresses, [{ address, port: 3142, secure: false }])
  t.equal(at(undefined, '127.0.0.1', '192.0.2.10'), 'http://192.0.2.10:3142')
  t.equal(at('127.0.0.1', '127.0.0.1', '192.0.2.10'), 'http://127.0.0.1:3142')
  t.equal(at('2001:db8::1'), 'http://[2001:db8::1]:3142')
  t.equal(at(undefined), 'http://127.0.0.1:3142')
})

t.test('where it answers this machine: by loopback, unless bound to another address', async t => {
  const here = (address: string | undefined) => localUrl([{ address, port: 3142, secure: false }])
  t.equal(here(undefined), 'http://127.0.0.1:3142')
  t.equal(here('192.0.2.10'), 'http://192.0.2.10:3142')
  t.equal(here('::1'), 'http://[::1]:3142')
})

t.test('the operator is told when the machines around may not use the proxy', async t => {
  const open = [{ address: undefined, port: 3142, secure: false }]
  const local = [{ address: '127.0.0.1', port: 3142, secure: false }]
  const admits = (client: string) => client.startsWith('10.')
  const public4 = ['127.0.0.1', '192.0.2.10', '2001:db8::10']
  t.match(neighbourCaution(admits, public4, open), '192.0.2.10 is not under `clients`')
  const two = neighbourCaution(admits, [...public4, '198.51.100.7'], open)
  t.match(two, '192.0.2.10, 198.51.100.7 are not under `clients`')
  t.match(two, '127.0.0.0/8', 'a list takes the place of the default')
  t.equal(neighbourCaution(admits, public4, local), undefined, 'no other machine reaches it')
  t.equal(neighbourCaution(admits, ['10.0.0.1', '192.0.2.10'], open), undefined)
  t.equal(neighbourCaution(admits, ['127.0.0.1', '2001:db8::10'], open), undefined)
})

t.test('a client is shown the name or address of the machine that it asked by', async t => {
  const machine = sources({
    config: named(),
    addresses: () => ['127.0.0.1', '::1', '192.0.2.10', '198.51.100.7', '2001:db8::10', 'fe80::1'],
    hostname: 'Cache',
    listeners: () => [
      { address: undefined, port: 3142, secure: false },
      { address: undefined, port: 8080, secure: false },
      { address: undefined, port: 8443, secure: true },
    ],
  })
  const first = 'http://192.0.2.10:3142'
  const rows: ReadonlyArray<readonly [host: string, url: string, from: string]> = [
    ['198.51.100.7:3142', 'http://198.51.100.7:3142', 'request'],
    ['192.0.2.10:3142', first, 'request'],
    ['198.51.100.7:8080', 'http://198.51.100.7:8080', 'request'],
    ['198.51.100.7', 'http://198.51.100.7:3142', 'request'],
    ['198.51.100.7:8443', 'http://198.51.100.7:3142', 'request'],
    ['[2001:DB8:0::10]:3142', 'http://[2001:db8::10]:3142', 'request'],
    ['[::ffff:198.51.100.7]:3142', 'http://198.51.100.7:3142', 'request'],
    ['CACHE:3142', 'http://cache:3142', 'request'],
    ['127.0.0.1:3142', first, 'machine'],
    ['127.0.1.1:3142', first, 'machine'],
    ['[::1]:3142', first, 'machine'],
    ['[::]:3142', first, 'machine'],
    ['0.0.0.0:3142', first, 'machine'],
    ['[fe80::1]:3142', first, 'machine'],
    ['localhost:3142', first, 'machine'],
    ['203.0.113.5:3142', first, 'machine'],
    ['cache.example.org:3142', first, 'machine'],
    ['a b', first, 'machine'],
    ['', first, 'machine'],
  ]
  for (const [host, url, from] of rows) {
    const asked = { ...request('GET', '/'), fields: Fields.of(['Host', host]) }
    t.match(endpointFor(asked, machine), { url, from }, host)
  }
  const asked = { ...request('GET', '/'), fields: Fields.of(['Host', '198.51.100.7:3142']) }
  const withName = sources({ ...machine, config: named('a.example') })
  t.equal(endpointFor(asked, withName).host, 'a.example', 'the setting comes first')
  const local = sources({ ...machine, hostname: 'localhost' })
  const byLocalhost = { ...asked, fields: Fields.of(['Host', 'localhost:3142']) }
  t.equal(endpointFor(byLocalhost, local).url, first, 'a machine of that name')
  const uri = {
    scheme: 'http',
    host: '198.51.100.7',
    port: 3142,
    path: '/_cachesvc/setup.sh',
  } as const
  const throughProxy = {
    target: { form: 'absolute', uri } as const,
    fields: Fields.of(['Host', 'x.example']),
  }
  t.equal(endpointFor(throughProxy, machine).host, '198.51.100.7', 'the target comes before Host')
})

t.test('what could not be removed is told with its cause, the owner and the command', t => {
  const me = process.geteuid?.() ?? 0
  const name = userName(me)
  t.equal(
    unremovableText(
      { contents: 2, bytes: 2048, why: { because: 'permission denied', owner: me + 1 } },
      '/var/cache/cachesvc',
    ),
    `2 removed files, 2.00 KiB, could not be taken from the disk: permission denied, for the directory belongs to user ${me + 1}. They are no longer served, and are tried again every minute. To mend it: sudo chown -R ${ownName()}: /var/cache/cachesvc`,
  )
  t.equal(
    unremovableText(
      { contents: 1, bytes: 5, why: { because: 'permission denied', owner: me } },
      '/srv/c',
    ),
    `1 removed file, 5 bytes, could not be taken from the disk: permission denied, for the directory belongs to ${name}. It is no longer served, and is tried again every minute. To mend it: sudo chmod -R u+rwX /srv/c`,
  )
  t.equal(
    unremovableText(
      { contents: 1, bytes: 5, why: { because: 'no space left on the file system' } },
      '/srv/c',
    ),
    '1 removed file, 5 bytes, could not be taken from the disk: no space left on the file system. It is no longer served, and is tried again every minute',
  )
  t.end()
})
