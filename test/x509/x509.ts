/**
 * What we issue, read back and judged by OpenSSL; keys and certificates of others, as OpenSSL writes them.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import {
  canIssue,
  createIssuer,
  generateAuthority,
  generateLeafKey,
  type Issuer,
  readCertificates,
  readPrivateKey,
} from '../../lib/x509/x509.ts'
import { attempt, command, lacking } from '../fixtures/process/command.ts'

const skip = lacking('openssl')
const day = 86_400_000
const now = Date.now()
const label = 'a'.repeat(63)
/** 253 characters: three labels of 63 and one of 61. */
const longest = [label, label, label, 'b'.repeat(61)].join('.')

type Permitted = Parameters<typeof generateAuthority>[0]['permittedNames']

async function newAuthority(permittedNames: Permitted = undefined) {
  const made = await generateAuthority({
    commonName: 'Test CA',
    permittedNames,
    notBefore: now - day,
    notAfter: now + 365 * day,
  })
  const [certificate] = readCertificates(made.certificate)
  if (certificate === undefined) throw new Error('no certificate')
  const key = createPrivateKey(made.key)
  return {
    ...made,
    parsed: certificate,
    keyObject: key,
    issuer: await createIssuer(certificate, key),
  }
}

async function leafOf(issuer: Issuer, ...names: readonly [string, ...string[]]) {
  const { publicKey } = await generateLeafKey()
  return issuer.issueLeaf({ names, publicKey, notBefore: now - 3_600_000, notAfter: now + day })
}

async function verify(directory: string, ca: string, leaf: string, ...more: readonly string[]) {
  const files = { ca: join(directory, 'ca.pem'), leaf: join(directory, 'leaf.pem') }
  await writeFile(files.ca, ca)
  await writeFile(files.leaf, leaf)
  const args = ['verify', '-purpose', 'sslserver', '-CAfile', files.ca, ...more]
  const { code, stderr } = await attempt('openssl', [...args, files.leaf])
  return code === 0 ? 'OK' : stderr
}

t.test('leaves for names and addresses verify, whatever their length', { skip }, async t => {
  const { issuer, certificate } = await newAuthority()
  const directory = t.testdir()
  for (const name of [
    'archive.example.org',
    `${label}.example.org`,
    longest,
    'xn--bcher-kva.example.org',
    '192.0.2.7',
    '2001:db8::5:1',
    '::1',
  ]) {
    const leaf = await leafOf(issuer, name)
    const option = /^[\d.]+$|:/.test(name) ? '-verify_ip' : '-verify_hostname'
    t.equal(await verify(directory, certificate, leaf, '-x509_strict', option, name), 'OK', name)
    const parsed = new X509Certificate(leaf)
    t.equal(parsed.ca, false)
    if (name.length > 64) t.notOk(parsed.subject, 'no common name of more than 64 characters')
    t.match(parsed.serialNumber, /^[0-9A-F]{28,32}$/)
  }
})

t.test('a leaf names its issuer’s key, its uses and where to ask', async t => {
  const { issuer, parsed } = await newAuthority()
  const { publicKey } = await generateLeafKey()
  const leaf = new X509Certificate(
    await issuer.issueLeaf({
      names: ['archive.example.org', '127.0.0.1', '::1'],
      publicKey,
      notBefore: now,
      notAfter: now + day,
      caIssuers: 'http://proxy.example.org/_cachesvc/cachesvc.crt',
      distributionPoint: 'http://proxy.example.org/_cachesvc/revocation.crl',
    }),
  )
  t.ok(leaf.checkIssued(new X509Certificate(parsed.pem)))
  t.strictSame(leaf.keyUsage, ['1.3.6.1.5.5.7.3.1'])
  t.equal(
    leaf.subjectAltName,
    'DNS:archive.example.org, IP Address:127.0.0.1, IP Address:0:0:0:0:0:0:0:1',
  )
  t.match(leaf.infoAccess, 'CA Issuers - URI:http://proxy.example.org/_cachesvc/cachesvc.crt')
})

t.test('serial numbers differ', async t => {
  const { issuer } = await newAuthority()
  const { publicKey } = await generateLeafKey()
  const leaf = () =>
    issuer.issueLeaf({ names: ['a.example.org'], publicKey, notBefore: now, notAfter: now + day })
  const serials = (await Promise.all([leaf(), leaf(), leaf()])).map(
    pem => new X509Certificate(pem).serialNumber,
  )
  t.equal(new Set(serials).size, 3)
})

t.test('name constraints bind OpenSSL and us alike', { skip }, async t => {
  const permitted = { names: ['example.org'], networks: ['192.0.2.0/24', '2001:db8::/32'] }
  const { issuer, certificate, parsed } = await newAuthority(permitted)
  const directory = t.testdir()
  for (const [name, allowed] of [
    ['example.org', true],
    ['archive.example.org', true],
    ['badexample.org', false],
    ['example.com', false],
    ['192.0.2.200', true],
    ['192.0.3.1', false],
    ['2001:db8::1', true],
    ['::1', false],
  ] as const) {
    t.equal(parsed.permits(name), allowed, name)
    const verdict = await verify(directory, certificate, await leafOf(issuer, name))
    if (allowed) t.equal(verdict, 'OK', name)
    else t.match(verdict, /permitted subtree violation/, name)
  }
})

t.test(
  'constraints on names alone exclude every address, and the other way round',
  { skip },
  async t => {
    const directory = t.testdir()
    const names = await newAuthority({ names: ['example.org'], networks: [] })
    t.equal(names.parsed.permits('192.0.2.1'), false)
    t.equal(names.parsed.permits('2001:db8::1'), false)
    t.match(
      await verify(directory, names.certificate, await leafOf(names.issuer, '192.0.2.1')),
      /excluded subtree/,
    )
    const addresses = await newAuthority({ names: [], networks: ['127.0.0.1/32'] })
    t.equal(addresses.parsed.permits('example.org'), false)
    t.equal(
      await verify(directory, addresses.certificate, await leafOf(addresses.issuer, '127.0.0.1')),
      'OK',
    )
    t.match(
      await verify(directory, addresses.certificate, await leafOf(addresses.issuer, 'a.example')),
      /excluded subtree/,
    )
  },
)

t.test('an empty revocation list verifies', { skip }, async t => {
  const { issuer, certificate } = await newAuthority()
  const directory = t.testdir({ 'ca.pem': certificate })
  const list = await issuer.issueList({
    thisUpdate: now,
    nextUpdate: now + day,
  })
  const file = join(directory, 'list.crl')
  await writeFile(file, list)
  const args = ['crl', '-inform', 'DER', '-in', file, '-CAfile', join(directory, 'ca.pem')]
  const { code, stderr, stdout } = await attempt('openssl', [...args, '-noout', '-text'])
  t.equal(code, 0)
  t.match(stderr, 'verify OK')
  t.match(stdout.toString(), /No Revoked Certificates/)
  t.match(stdout.toString(), /X509v3 CRL Number/)
})

t.test('keys and certificates as OpenSSL writes them', { skip }, async t => {
  const directory = t.testdir()
  const at = (name: string) => join(directory, name)
  const openssl = (...args: readonly string[]) => command('openssl', args)
  await openssl('genrsa', '-traditional', '-out', at('rsa'), '2048')
  await openssl('ecparam', '-name', 'secp384r1', '-genkey', '-out', at('sec1'))
  await openssl('pkcs8', '-topk8', '-nocrypt', '-in', at('sec1'), '-out', at('pkcs8'))
  await openssl(
    'pkcs8',
    '-topk8',
    '-in',
    at('sec1'),
    '-out',
    at('pkcs8enc'),
    '-passout',
    'pass:s3cret',
  )
  await openssl(
    'ec',
    '-aes128',
    '-in',
    at('sec1'),
    '-out',
    at('sec1enc'),
    '-passout',
    'pass:s3cret',
  )
  await openssl(
    'rsa',
    '-traditional',
    '-aes256',
    '-in',
    at('rsa'),
    '-out',
    at('rsaenc'),
    '-passout',
    'pass:s3cret',
  )
  const read = async (name: string, password = '') =>
    readPrivateKey(await readFile(at(name), 'utf8'), password)
  for (const [name, type] of [
    ['rsa', 'rsa'],
    ['sec1', 'ec'],
    ['pkcs8', 'ec'],
    ['pkcs8enc', 'ec'],
    ['sec1enc', 'ec'],
    ['rsaenc', 'rsa'],
  ] as const) {
    const key = await read(name, 's3cret')
    t.match(key, { asymmetricKeyType: type }, name)
    t.ok(typeof key !== 'string' && canIssue(key))
    if (!name.endsWith('enc')) continue
    t.equal(await read(name), 'password-missing', name)
    t.equal(await read(name, 'wrong'), 'password-wrong', name)
  }
  t.equal(readPrivateKey('nothing of the kind', ''), 'absent')
  t.equal(
    readPrivateKey('-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n', ''),
    'unreadable',
  )

  for (const key of ['rsa', 'sec1']) {
    const subject = ['-subj', '/C=DE/O=Bücher & Söhne/CN=Root', '-utf8']
    await openssl('req', '-x509', '-key', at(key), '-days', '30', ...subject, '-out', at('ca.pem'))
    const text = await readFile(at('ca.pem'), 'utf8')
    const [certificate] = readCertificates(`${await readFile(at(key), 'utf8')}${text}${text}`)
    const keyObject = await read(key)
    if (certificate === undefined || typeof keyObject === 'string') throw new Error('unread')
    t.equal(certificate.isAuthority, true)
    t.equal(certificate.selfSigned, true)
    t.equal(certificate.hasKey(keyObject), true)
    t.equal(certificate.subject, 'C=DE, O=Bücher & Söhne, CN=Root')
    t.equal(certificate.hasSigned(certificate), true)
    const leaf = await leafOf(await createIssuer(certificate, keyObject), 'archive.example.org')
    t.equal(await verify(directory, text, leaf), 'OK', `issued with ${key}`)
  }
})

t.test('a leaf is no authority, and another key does not fit', async t => {
  const one = await newAuthority()
  const [leaf] = readCertificates(await leafOf(one.issuer, 'archive.example.org'))
  t.equal(leaf?.isAuthority, false)
  t.equal(leaf?.maySignLists, false)
  t.equal(one.parsed.hasSigned(leaf ?? one.parsed), true)
  t.equal((await newAuthority()).parsed.hasKey(one.keyObject), false)
  t.strictSame(readCertificates(''), [])
  t.throws(() => readCertificates('-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n'))
})

t.test('kinds of keys that cannot issue are told apart', { skip }, async t => {
  const key = await command('openssl', ['genpkey', '-algorithm', 'ed25519'])
  const ed25519 = readPrivateKey(key.toString(), '')
  t.ok(typeof ed25519 !== 'string' && !canIssue(ed25519))
  const [certificate] = readCertificates((await newAuthority()).certificate)
  if (certificate === undefined || typeof ed25519 === 'string') throw new Error('unread')
  await t.rejects(createIssuer(certificate, ed25519), TypeError)
})
