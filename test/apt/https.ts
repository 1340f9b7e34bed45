/**
 * https sources: apt asks the proxy for a tunnel; and http sources that redirect to https.
 */
import { join } from 'node:path'
import t from 'tap'
import { ArchiveOrigin } from '../fixtures/archive/archive-origin.ts'
import { directoryFor, noLab, report, setUp, sourcesOf } from '../fixtures/cache/lab.ts'
import { proxyName } from '../fixtures/cache/proxy-process.ts'
import { createAuthority, noCertificates } from '../fixtures/certificates/openssl-authority.ts'
import { freePort } from '../fixtures/process/ports.ts'

const skip = noLab || noCertificates || (proxyName === 'nginx' && 'SKIPPED: nginx has no CONNECT')

t.setTimeout(600_000)

t.test('https sources through a tunnel, redirects from http to https', { skip }, async t => {
  const directory = directoryFor(t)
  const authority = await createAuthority(join(directory, 'authority'))
  const [tlsPort, redirectPort] = [await freePort(), await freePort()]
  const lab = await setUp(t, {
    directory,
    otherPorts: [tlsPort, redirectPort],
    env: { NODE_EXTRA_CA_CERTS: authority.file },
  })
  const secure = await ArchiveOrigin.start({
    root: lab.archive.root,
    tls: authority.leaf,
    port: tlsPort,
  })
  t.teardown(() => secure.close())
  const settings = { 'Acquire::https::CaInfo': authority.file, 'Acquire::Retries': '0' }

  await t.test('apt updates and installs over CONNECT, with only the http proxy set', async t => {
    const apt = await lab.apt('tunnel', { sources: sourcesOf(secure.url), settings })
    const update = await apt.update()
    t.strictSame([update.code, update.warnings, update.errors], [0, [], []], report(update))
    const install = await apt.download('zeta')
    t.equal(install.code, 0, report(install))
    t.ok(secure.seen(/pool/).length >= 4)
  })

  await t.test('the tunnel really is one: without the CA apt refuses the certificate', async t => {
    const apt = await lab.apt('untrusting', {
      sources: sourcesOf(secure.url).slice(0, 1),
      settings: { 'Acquire::Retries': '0' },
    })
    t.match((await apt.update()).output, /certificate/i)
  })

  await t.test('an http origin that redirects everything to https', async t => {
    const redirector = await ArchiveOrigin.start({
      root: '/',
      port: redirectPort,
      redirectTo: secure.url,
    })
    t.teardown(() => redirector.close())
    const apt = await lab.apt('redirected', { sources: sourcesOf(redirector.url), settings })
    const update = await apt.update()
    t.strictSame([update.code, update.warnings, update.errors], [0, [], []], report(update))
    const install = await apt.download('zeta')
    t.equal(install.code, 0, report(install))
  })

  await t.test('an http origin that redirects to another http origin', async t => {
    const redirector = await ArchiveOrigin.start({
      root: '/',
      port: redirectPort,
      redirectTo: lab.origin.url,
    })
    t.teardown(() => redirector.close())
    const apt = await lab.apt('moved', { sources: sourcesOf(redirector.url), settings })
    const update = await apt.update()
    t.strictSame([update.code, update.warnings, update.errors], [0, [], []], report(update))
    t.equal((await apt.download('zeta')).code, 0)
  })
})
