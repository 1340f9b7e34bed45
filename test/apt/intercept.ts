/**
 * https sources with the tunnels opened: apt trusts our CA by a file of its own, the second machine gets everything from the
 * cache; tunnels beside it for hosts that are left alone; machines that do not trust us; a proxy that is spoken TLS to.
 */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { ArchiveOrigin, type SeenRequest } from '../fixtures/archive/archive-origin.ts'
import { directoryFor, type Lab, noLab, report, setUp, sourcesOf } from '../fixtures/cache/lab.ts'
import { peerUnderTest } from '../fixtures/cache/proxy-process.ts'
import { createAuthority, noCertificates } from '../fixtures/certificates/openssl-authority.ts'
import { freePort } from '../fixtures/process/ports.ts'

const skip = noLab || noCertificates || peerUnderTest
const pool = /\/pool\/|\.deb$|\.dsc$|\.tar/
const wanted = ['zeta', 'delta', 'epsilon']

t.setTimeout(600_000)

t.test('https sources: opened, tunnelled, distrusted, over TLS', { skip }, async t => {
  const directory = directoryFor(t)
  const authority = await createAuthority(join(directory, 'authority'))
  const [opened, left, doubted, securePort] = await Promise.all([1, 2, 3, 4].map(() => freePort()))
  if (!opened || !left || !doubted || !securePort) throw new Error('no ports')
  const lab = await setUp(t, {
    directory,
    otherPorts: [opened, left, doubted],
    settings: {
      listen_port_secure: securePort,
      https: {
        intercept: true,
        enable_crl: true,
        tunnel_domains: [`127.0.0.1:${left}`],
        origin_ca: [authority.file],
      },
    },
  })
  const originAt = async (port: number) => {
    const { root } = lab.archive
    const origin = await ArchiveOrigin.start({ root, tls: authority.leaf, port })
    t.teardown(() => origin.close())
    return origin
  }
  const [read, unread, third] = await Promise.all([opened, left, doubted].map(originAt))
  if (!read || !unread || !third) throw new Error('no origins')

  // A private trust file, as an administrator would make one: what the page serves.
  const served = await lab.fetch('/_cachesvc/cachesvc.crt')
  t.equal(served.status, 200)
  await mkdir(join(directory, 'trust'))
  const ours = join(directory, 'trust/cachesvc.crt')
  await writeFile(ours, served.content)
  t.notMatch(served.content.toString(), /PRIVATE/)
  const trusting = { 'Acquire::https::CaInfo': ours, 'Acquire::Retries': '0' }
  const believing = { 'Acquire::https::CaInfo': authority.file, 'Acquire::Retries': '0' }

  await t.test('a machine that trusts us updates and downloads', async t => {
    const apt = await lab.apt('first', { sources: sourcesOf(read.url), settings: trusting })
    const update = await apt.update()
    t.strictSame([update.code, update.warnings, update.errors], [0, [], []], report(update))
    const install = await apt.download(...wanted)
    t.equal(install.code, 0, report(install))
    t.equal((await apt.downloaded()).length, 6)
    t.equal((await apt.source('alpha')).code, 0)
    t.equal(read.seen(pool).length, 8, 'each pool file once')
  })

  await t.test('a second one gets everything from the cache', async t => {
    read.forget()
    const apt = await lab.apt('second', { sources: sourcesOf(read.url), settings: trusting })
    const update = await apt.update()
    t.strictSame([update.code, update.warnings, update.errors], [0, [], []], report(update))
    const install = await apt.download(...wanted)
    t.equal(install.code, 0, report(install))
    t.equal((await apt.source('alpha')).code, 0)
    t.strictSame(read.seen(pool), [])
    t.strictSame(fullRequests(read.requests), [], 'the origin was asked for changes only')
  })

  await t.test('a host that is left alone is tunnelled, with its own certificate', async t => {
    const apt = await lab.apt('left', { sources: sourcesOf(unread.url), settings: believing })
    const update = await apt.update()
    t.strictSame([update.code, update.warnings, update.errors], [0, [], []], report(update))
    t.equal((await apt.download('zeta')).code, 0)
    t.ok(unread.seen(pool).length >= 4)
  })

  await t.test('a proxy that is spoken TLS to, for http and https sources', async t => {
    read.forget()
    const proxy = `https://127.0.0.1:${securePort}`
    const apt = await lab.apt('secure', {
      proxy,
      sources: [...sourcesOf(lab.origin.url), ...sourcesOf(read.url)],
      settings: { 'Acquire::https::Proxy': proxy, ...trusting },
    })
    const update = await apt.update()
    t.strictSame([update.code, update.warnings, update.errors], [0, [], []], report(update))
    const install = await apt.download('zeta')
    t.equal(install.code, 0, report(install))
    t.strictSame(fullRequests(read.requests), [], 'what came through a tunnel was read there, too')
  })

  await t.test('a machine that does not trust us fails once and is tunnelled then', async t => {
    const sources = sourcesOf(third.url)
    const apt = await lab.apt('doubting', { sources, settings: believing })
    const first = await apt.update()
    t.match(first.output, /certificate/i, report(first))
    const second = await apt.update()
    t.strictSame([second.code, second.warnings, second.errors], [0, [], []], report(second))
    t.equal((await apt.download('zeta')).code, 0)
    const page = await pageOf(lab, '/_cachesvc/configuration')
    t.match(page, /Clients that rejected a certificate[\s\S]+<code>127\.0\.0\.1<\/code>/)
  })

  await t.test('what was counted: requests that were read, tunnels that were not', async t => {
    const { totals } = JSON.parse(await pageOf(lab, '/_cachesvc/api/stats'))
    t.ok(totals.hits > 0 && totals.misses > 0 && totals.tunnel > 0)
    t.equal(totals.requests, totals.hits + totals.misses + totals.tunnel)
    t.match(
      await pageOf(lab, '/_cachesvc/metrics'),
      /cachesvc_interceptions_total\{end="intercepted"\} [1-9]/,
    )
    const list = await lab.fetch('/_cachesvc/revocation.crl')
    t.strictSame([list.status, list.fields['content-type']], [200, 'application/pkix-crl'])
  })
})

function fullRequests(requests: readonly SeenRequest[]): string[] {
  return requests
    .filter(({ fields }) => !fields['if-modified-since'] && !fields['if-none-match'])
    .map(request => request.target)
}

async function pageOf(lab: Lab, path: string): Promise<string> {
  return (await lab.fetch(path)).content.toString()
}
