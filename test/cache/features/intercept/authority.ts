/**
 * Where the CA comes from, and what is said when it is no good: one sentence and code 78.
 */
import { chmod, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import {
  type Config,
  type HttpsConfig,
  needsAuthority,
} from '../../../../lib/cache/config/config.ts'
import {
  type Authority,
  authorityProblem,
  expiresSoon,
  expiryWarnings,
  openAuthority,
} from '../../../../lib/cache/features/intercept/authority.ts'
import { readCertificates } from '../../../../lib/x509/x509.ts'
import { config as configOf } from '../../../fixtures/cache/cache-config.ts'
import { pattern } from '../../../fixtures/cache/operations.ts'
import { testCa } from '../../../fixtures/features/intercept/authority.ts'
import { attempt, command, lacking } from '../../../fixtures/process/command.ts'

const skip = lacking('openssl')
const day = 86_400_000
t.setTimeout(600_000)
const now = Date.now()
const cachesvc = join(import.meta.dirname, '../../../../bin/cachesvc.js')

function configWith(directory: string, https: Partial<HttpsConfig>, more: Partial<Config> = {}) {
  const surroundings = { environment: {}, root: false, home: directory, systemCacheWritable: false }
  const config = configOf('', { cacheDirectory: directory }, surroundings)
  return { ...config, ...more, https: { ...config.https, intercept: true, ...https } }
}

const openssl = (...args: readonly string[]) => command('openssl', args)
const p256 = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']

async function selfSigned(at: (name: string) => string, name: string, ...more: readonly string[]) {
  const files = ['-keyout', at(`${name}.key`), '-out', at(`${name}.pem`)]
  await openssl('req', '-x509', ...p256, '-subj', `/CN=${name}`, ...files, ...more)
}

t.test('wrong files: a sentence each that names the file, and code 78', { skip }, async t => {
  const directory = t.testdir()
  const at = (name: string) => join(directory, name)
  await selfSigned(at, 'good', '-days', '365')
  await selfSigned(at, 'other', '-days', '365')
  await selfSigned(at, 'leaf', '-days', '365', '-addext', 'basicConstraints=critical,CA:FALSE')
  await selfSigned(at, 'signer', '-days', '365', '-addext', 'keyUsage=critical,cRLSign')
  await selfSigned(at, 'nolist', '-days', '365', '-addext', 'keyUsage=critical,keyCertSign')
  const past = await testCa({ notBefore: now - 9 * day, notAfter: now - 2 * day })
  await writeFile(at('past.pem'), past.certificate.pem + past.key)
  const future = await testCa({ notBefore: now + 2 * day, notAfter: now + 9 * day })
  await writeFile(at('future.pem'), future.certificate.pem + future.key)
  const passout = ['-passout', 'pass:s3cret']
  await openssl('pkcs8', '-topk8', '-in', at('good.key'), '-out', at('secret.key'), ...passout)
  await openssl('genpkey', '-algorithm', 'ed25519', '-out', at('ed.key'))
  const ed = ['-key', at('ed.key'), '-subj', '/CN=ed', '-days', '9', '-out', at('ed.pem')]
  await openssl('req', '-x509', ...ed)
  const pem = await readFile(at('good.pem'), 'utf8')
  await writeFile(at('damaged.pem'), pem.replace(/^M.{20}/m, 'AAAAAAAAAAAAAAAAAAAAA'))
  await writeFile(at('empty.pem'), '')
  await writeFile(at('closed.pem'), pem)
  await chmod(at('closed.pem'), 0)

  // The certificates of this minute are valid by now.
  const later = Date.now()
  const cases: ReadonlyArray<readonly [string, Partial<HttpsConfig>, RegExp]> = [
    [
      'a leaf',
      { cert: 'leaf.pem', key: 'leaf.key' },
      /CN=leaf in .*leaf\.pem is not a CA certificate/,
    ],
    [
      'no keyCertSign',
      { cert: 'signer.pem', key: 'signer.key' },
      /is not a CA certificate.*keyCertSign/,
    ],
    [
      'key of another',
      { cert: 'good.pem', key: 'other.key' },
      /other\.key does not belong to .*CN=good/,
    ],
    ['expired', { cert: 'past.pem' }, /CN=Test CA in .*past\.pem has expired on \d{4}-/],
    ['not yet', { cert: 'future.pem' }, /future\.pem is not valid before \d{4}-.*clock right\?/],
    [
      'no password',
      { cert: 'good.pem', key: 'secret.key' },
      /secret\.key is encrypted.*https\.password/,
    ],
    [
      'wrong password',
      { cert: 'good.pem', key: 'secret.key', password: 'swordfish' },
      /https\.password is not the password of the key in .*secret\.key/,
    ],
    [
      'missing',
      { cert: 'nowhere.pem' },
      /https\.cert: cannot read .*nowhere\.pem: there is no such file/,
    ],
    ['a directory', { cert: '.' }, /https\.cert: cannot read .*: it is a directory/],
    ['nothing in it', { cert: 'empty.pem' }, /empty\.pem holds no certificate/],
    ['damaged', { cert: 'damaged.pem', key: 'good.key' }, /damaged\.pem is damaged/],
    ['no key in it', { cert: 'good.pem' }, /https\.key: .*good\.pem holds no private key/],
    ['ed25519', { cert: 'ed.pem', key: 'ed.key' }, /ed\.key is of a kind that is not supported/],
    [
      'no lists',
      { cert: 'nolist.pem', key: 'nolist.key', enableCrl: true },
      /CN=nolist in .* may not sign revocation lists.*https\.enable_crl/,
    ],
    ['key alone', { key: 'good.key' }, /https\.key is set without https\.cert/],
    ...(process.getuid?.() === 0
      ? []
      : [
          ['unreadable', { cert: 'closed.pem' }, /closed\.pem: this user may not read it/] as const,
        ]),
  ]
  // A process each takes its time; these stand for all.
  const started = new Set(['a leaf', 'key of another', 'expired', 'wrong password', 'missing'])
  for (const [name, { cert, key, password = '', enableCrl = false }, sentence] of cases) {
    const https = {
      password,
      enableCrl,
      cert: cert === undefined ? undefined : at(cert),
      key: key === undefined ? undefined : at(key),
    }
    const problem = (await authorityProblem(configWith(directory, https), later)) ?? 'none'
    t.match(problem, sentence, name)
    t.notMatch(problem, /swordfish|\n/)
    if (!started.has(name)) continue

    const settings = {
      intercept: true,
      password,
      ...(cert && { cert: at(cert) }),
      ...(key && { key: at(key) }),
    }
    const file = at('cachesvc.yaml')
    await writeFile(file, JSON.stringify({ cache_directory: at('cache'), https: settings }))
    const run = await attempt(process.execPath, [cachesvc, '--config', file])
    t.equal(run.code, 78, `${name}: exit code`)
    t.equal(run.stderr, `cachesvc: ${problem}\n`, `${name}: one line on standard error`)
  }
  const file = at('cachesvc.yaml')
  await writeFile(file, JSON.stringify({ https: { origin_ca: [at('empty.pem')] } }))
  const run = await attempt(process.execPath, [cachesvc, '--config', file, '--check-config'])
  t.equal(run.code, 78)
  t.match(run.stderr, /https\.origin_ca.*empty\.pem.* no certificate/)
})

t.test('a root and an intermediate of the operator', { skip }, async t => {
  const directory = t.testdir()
  const at = (name: string) => join(directory, name)
  await selfSigned(at, 'root', '-days', '365')
  const signedBy = ['-CA', at('root.pem'), '-CAkey', at('root.key'), '-days', '300']
  await selfSigned(at, 'between', ...signedBy, '-addext', 'basicConstraints=critical,CA:TRUE')
  const [root, between, key] = await Promise.all(
    ['root.pem', 'between.pem', 'between.key'].map(name => readFile(at(name), 'utf8')),
  )
  const now = Date.now()
  if (root === undefined || between === undefined || key === undefined) throw new Error('unread')
  await writeFile(at('all.pem'), `${root}${key}${between}`, { mode: 0o600 })
  const authority = await openAuthority(configWith(directory, { cert: at('all.pem') }), now)
  t.equal(
    authority.certificate.subject,
    'CN=between',
    'the one that has the key, wherever it stands',
  )
  t.strictSame(
    readCertificates(authority.chain).map(({ subject }) => subject),
    ['CN=between'],
    'what is sent leads up to the root and leaves it out',
  )
  t.notMatch(authority.certificate.pem, 'PRIVATE KEY')
  t.strictSame(authority.warnings, [])

  await chmod(at('all.pem'), 0o644)
  const open = await openAuthority(configWith(directory, { cert: at('all.pem') }), now)
  t.match(open.warnings, [/can be read by every user/])
  const late = await openAuthority(configWith(directory, { cert: at('all.pem') }), now + 280 * day)
  t.match(late.warnings, [
    /can be read/,
    /CN=between in .* expires on \d{4}-\d\d-\d\d, in (19|20) days/,
  ])
})

t.test('one of our own: made once, closed to others, limited to what it is for', async t => {
  const directory = t.testdir()
  const file = join(directory, 'authority.pem')
  const domains = ['archive.example.org', '.example.net', '192.0.2.9:8443'].map(pattern)
  const privateDomains = ['repo.corp.example', '192.0.2.7:8080'].map(pattern)
  const config = configWith(
    directory,
    {},
    {
      domains,
      privateDomains,
      index: { ...configWith(directory, {}).index, hostnames: ['proxy.example.com'] },
    },
  )
  t.equal(await authorityProblem(config, now), undefined)
  await t.rejects(stat(file), { code: 'ENOENT' }, 'a check makes nothing')

  const made = await openAuthority(config, now)
  t.equal(made.made, true)
  t.equal((await stat(file)).mode & 0o777, 0o600)
  t.match(await readFile(file, 'utf8'), /CERTIFICATE[\s\S]+PRIVATE KEY/)
  for (const host of [
    'archive.example.org',
    'deb.example.net',
    '192.0.2.9',
    '127.0.0.1',
    'localhost',
    'proxy.example.com',
    'repo.corp.example',
    '192.0.2.7',
  ]) {
    t.equal(made.certificate.permits(host), true, host)
  }
  for (const host of ['example.org', 'bank.example.com', '192.0.2.10', '2001:db8::99']) {
    t.equal(made.certificate.permits(host), false, host)
  }
  const again = await openAuthority(config, now)
  t.equal(again.made, false)
  t.equal(again.certificate.fingerprint, made.certificate.fingerprint)
  t.strictSame(again.warnings, [])

  const more = { ...config, domains: [...domains, pattern('new.example.com')] }
  t.match((await openAuthority(more, now)).warnings, [
    /made for other hosts: new\.example\.com will be tunnelled/,
  ])
  const inside = { ...config, privateDomains: [pattern('new.corp.example')] }
  t.match((await openAuthority(inside, now)).warnings, [/for other hosts: new\.corp\.example will/])

  await writeFile(file, 'torn')
  t.match(await authorityProblem(config, now), /authority\.pem holds no certificate/)
})

t.test('without domains there are no limits', async t => {
  const { certificate }: Authority = await openAuthority(configWith(t.testdir(), {}), now)
  t.equal(certificate.permits('anything.example'), true)
  t.equal(certificate.permits('192.0.2.10'), true)
})

t.test('who needs a CA, and when its end is near', async t => {
  const directory = t.testdir()
  const config = configWith(directory, {})
  t.equal(needsAuthority(config, false), true)
  const tunnelling = configWith(directory, { intercept: false })
  t.equal(needsAuthority(tunnelling, false), false)
  t.equal(needsAuthority(tunnelling, true), true)
  t.equal(
    await authorityProblem(
      { ...tunnelling, https: { ...tunnelling.https, cert: '/nowhere' } },
      now,
    ),
    undefined,
  )
  const some = configWith(directory, { intercept: false, interceptDomains: [pattern('a.example')] })
  t.equal(needsAuthority(some, false), true)

  const { certificate } = await testCa({ notAfter: now + 40 * day })
  t.equal(expiresSoon(certificate, now), false)
  t.equal(expiresSoon(certificate, now + 11 * day), true)
  const warnings = (days: number) =>
    expiryWarnings({ certificate, file: 'ca.pem' }, now + days * day - 1000)
  t.strictSame(warnings(0), [])
  t.match(warnings(39), [/^the CA certificate .* in ca\.pem expires on .*, in 1 day$/])
  t.match(warnings(41), [/ has expired on \d{4}-\d\d-\d\d$/])
})
