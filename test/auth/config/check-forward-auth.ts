/**
 * What is said of settings of forwardAuth that are wrong, or dangerous.
 */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { tokenDigest } from '../../../lib/auth/access/passthrough.ts'
import { configCheck } from '../../../lib/auth/config/loading/load-config.ts'
import { ownDirectory } from '../../fixtures/gateway/whole-gateway.ts'

const check = (forwardAuth: Readonly<Record<string, unknown>>, admin = {}) =>
  configCheck('app')({
    domain: 'app.example.org',
    idpMetadataURL: 'https://idp.example.org/metadata',
    proxy: { listenAddress: '127.0.0.1:8080', targetURL: 'http://127.0.0.1:3000' },
    admin,
    forwardAuth,
  })

const told = (outcome: ReturnType<typeof check>, which: 'problems' | 'warnings') => {
  const remarks = which === 'warnings' ? outcome.warnings : outcome.ok ? [] : outcome.problems
  return remarks.map(({ path, text }) => `${path.join('.')}: ${text}`).join('\n')
}

const unix = { listenAddress: 'unix:/run/authproxy/app.sock', edge: 'nginx' }
const tcp = { listenAddress: '127.0.0.1:9090', edge: 'nginx', trustedProxies: ['127.0.0.1'] }

t.test('the least of each kind is enough', async t => {
  for (const forwardAuth of [unix, tcp]) {
    const outcome = check(forwardAuth)
    t.equal(told(outcome, 'problems'), '')
    t.equal(told(outcome, 'warnings'), '')
    if (!outcome.ok) continue
    t.same(outcome.value.forwardAuth?.hosts, ['app.example.org'])
    t.equal(outcome.value.forwardAuth?.secret, undefined)
  }
  const without = check({})
  t.equal(without.ok && without.value.forwardAuth, undefined)
})

t.test('what is wrong is named', async t => {
  for (const [forwardAuth, said] of [
    [{ edge: 'nginx' }, /^forwardAuth\.edge: also needs forwardAuth\.listenAddress/],
    [{ hosts: ['app.example.org'] }, /^forwardAuth\.hosts: also needs forwardAuth\.listenAddress/],
    [
      { listenAddress: unix.listenAddress },
      /^forwardAuth\.listenAddress: also needs forwardAuth\.edge: name the one that asks/,
    ],
    [{ ...unix, edge: 'apache' }, /^forwardAuth\.edge: found "apache"/],
    [
      { ...unix, listenAddress: 'unix:app.sock' },
      /^forwardAuth\.listenAddress: .*a socket such as/,
    ],
    [{ ...unix, listenAddress: `unix:/${'a'.repeat(120)}` }, /at most 107 bytes/],
    [{ ...unix, listenAddress: 'localhost:9090' }, /write 127\.0\.0\.1:9090/],
    [
      { ...unix, hosts: ['other.example.org'] },
      /hosts\.0: is not app\.example\.org: browsers send/,
    ],
    [{ ...unix, hosts: ['app.example.org:8443'] }, /hosts\.0: is not app\.example\.org/],
    [{ ...tcp, trustedProxies: [] }, /also needs forwardAuth\.trustedProxies/],
    [{ ...tcp, trustedProxies: ['0.0.0.0/0'] }, /trustedProxies\.0: is a network of strangers/],
    [{ ...tcp, trustedProxies: ['::/0'] }, /trustedProxies\.0: is a network of strangers/],
    [{ ...tcp, trustedProxies: ['128.0.0.0/1'] }, /is a network of strangers/],
    [{ ...tcp, listenAddress: '127.0.0.1:8080' }, /is the same as proxy\.listenAddress/],
    [{ ...tcp, listenAddress: ':8080' }, /is the same as proxy\.listenAddress/],
    [{ ...tcp, listenAddress: '0.0.0.0:8080' }, /is the same as proxy\.listenAddress/],
    [{ ...tcp, listenAddress: '[::]:8080' }, /is the same as proxy\.listenAddress/],
    [{ ...unix, secretFile: '/no/such/file' }, /secretFile: \/no\/such\/file: /],
  ] as const) {
    t.match(told(check(forwardAuth), 'problems'), said)
  }
  const admin = { listenAddress: '127.0.0.1:9090' }
  t.match(told(check(tcp, admin), 'problems'), /is the same as admin\.listenAddress/)
  const ofIPv4 = { ...tcp, listenAddress: '0.0.0.0:9090' }
  const ofIPv6 = { listenAddress: '[::1]:9090' }
  t.equal(
    told(check(ofIPv4, ofIPv6), 'problems'),
    '',
    'one of IPv4 and one of IPv6 can share a port',
  )
})

t.test('what is dangerous is named', async t => {
  t.match(told(check({ ...tcp, trustedProxies: ['10.0.0.0/8'] }), 'warnings'), /is a wide network/)
  const open = { ...tcp, listenAddress: '10.0.0.5:9090' }
  t.match(told(check(open), 'warnings'), /open to the network without a secret/)
})

t.test('the secret stands in a file, and no message has it', async t => {
  const path = join(await ownDirectory(t), 'secret')
  await writeFile(path, 'a-secret-of-the-edge\n', { mode: 0o600 })
  const outcome = check({ ...tcp, secretFile: path })
  t.same(outcome.ok && outcome.value.forwardAuth?.secret, tokenDigest('a-secret-of-the-edge'))
  await writeFile(path, 'hunter2', { mode: 0o600 })
  const short = told(check({ ...tcp, secretFile: path }), 'problems')
  t.match(short, /fewer than 16 characters/)
  t.notMatch(short, /hunter2/)
})
