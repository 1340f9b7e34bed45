/**
 * Certificates for hosts: kept, renewed, shared, refused.
 */
import { X509Certificate } from 'node:crypto'
import t from 'tap'
import { isCertifiable } from '../../../../lib/cache/features/intercept/authority.ts'
import { LeafCertificates } from '../../../../lib/cache/features/intercept/leaf.ts'
import { testCa } from '../../../fixtures/features/intercept/authority.ts'
import { ManualClock } from '../../../fixtures/time/manual-clock.ts'

const hour = 3_600_000
const noAddresses = () => ({ caIssuers: undefined, distributionPoint: undefined })

async function leavesOf(change: Parameters<typeof testCa>[0] = {}) {
  const authority = await testCa(change)
  const clock = new ManualClock(Date.now())
  let issued = 0
  const counting = {
    ...authority,
    issuer: {
      issueLeaf: (options: Parameters<typeof authority.issuer.issueLeaf>[0]) => {
        issued += 1
        return authority.issuer.issueLeaf(options)
      },
    },
  }
  const leaves = new LeafCertificates({
    authority: counting as never,
    clock,
    addresses: noAddresses,
  })
  return { leaves, clock, issued: () => issued }
}

t.test('one certificate for a host, however many wait for it', async t => {
  const { leaves, issued } = await leavesOf()
  const contexts = await Promise.all([1, 2, 3].map(() => leaves.context('archive.example.org')))
  t.equal(new Set(contexts).size, 1)
  t.equal(await leaves.context('archive.example.org'), contexts[0])
  t.equal(issued(), 1)
  t.not(await leaves.context('other.example.org'), contexts[0])
})

t.test('it is replaced long before it ends', async t => {
  const { leaves, clock, issued } = await leavesOf()
  const first = await leaves.context('archive.example.org')
  clock.advance(18 * hour - 1)
  t.equal(await leaves.context('archive.example.org'), first)
  clock.advance(1)
  t.not(await leaves.context('archive.example.org'), first)
  t.equal(issued(), 2)
})

t.test('valid from an hour ago for a day, never longer than the CA', async t => {
  const { leaves, clock } = await leavesOf()
  const leaf = await leaves.issue(['archive.example.org', '192.0.2.1'])
  const certificate = new X509Certificate(leaf.cert)
  const second = (moment: number) => Math.floor(moment / 1000) * 1000
  t.equal(Date.parse(certificate.validFrom), second(clock.now() - hour))
  t.equal(Date.parse(certificate.validTo), second(clock.now() + 24 * hour))
  t.equal(leaf.renewal, clock.now() + 18 * hour)
  t.match(certificate.subjectAltName, 'DNS:archive.example.org, IP Address:192.0.2.1')

  const short = await leavesOf({ notAfter: Date.now() + 5 * hour })
  const last = new X509Certificate((await short.leaves.issue(['a.example'])).cert)
  t.ok(Date.parse(last.validTo) <= Date.now() + 5 * hour)
  short.clock.advance(6 * hour)
  t.equal(short.leaves.covers('a.example'), false, 'an ended CA issues nothing')
  await t.rejects(short.leaves.issue(['a.example']), { code: 'LEAF_REFUSED' })
})

t.test('a key is shared for an hour', async t => {
  const { leaves, clock } = await leavesOf()
  const [one, two] = await Promise.all([leaves.issue(['a.example']), leaves.issue(['b.example'])])
  t.equal(one.key, two.key)
  clock.advance(hour)
  t.not((await leaves.issue(['a.example'])).key, one.key)
})

t.test('names no certificate may have', async t => {
  const { leaves } = await leavesOf()
  for (const name of [
    '*.example.org',
    '*',
    'a_b.example.org',
    '-a.example',
    'a-.example',
    '',
    'a..b',
    '.a',
    'a.',
    '1.2.3',
    'a b',
    'a/b',
    'a,DNS:b',
    `${'a'.repeat(64)}.example`,
    `${'a.'.repeat(127)}aa`,
    'bücher.example',
    'Archive.example.org',
  ]) {
    t.equal(isCertifiable(name), false, name)
    await t.rejects(leaves.context(name), { code: 'LEAF_REFUSED' }, name)
  }
  for (const name of [
    'a',
    'a.example',
    'xn--bcher-kva.example',
    '1.example',
    '192.0.2.1',
    '::1',
    `${'a'.repeat(63)}.example`,
    `${'a.'.repeat(126)}a`,
  ]) {
    t.equal(isCertifiable(name), true, name)
  }
})

t.test('names outside the limits of the CA', async t => {
  const { leaves } = await leavesOf({ permittedNames: { names: ['example.org'], networks: [] } })
  t.equal(leaves.covers('archive.example.org'), true)
  t.equal(leaves.covers('archive.example.com'), false)
  await t.rejects(leaves.issue(['archive.example.org', '192.0.2.1']), { code: 'LEAF_REFUSED' })
})
