/**
 * The published specification of the operations interface, statement by statement: sections 4 to 9, endpoints, errors and
 * limits, at the level of routes. Names begin with the section.
 */
import t from 'tap'
import { isOperationsPath } from '../../../lib/cache/request/own-paths.ts'
import {
  ask,
  fullSources,
  noon,
  pageOf,
  sources,
  statisticsOf,
  textOf,
} from '../../fixtures/cache/operations.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

t.test('4. the four pages are HTML', async t => {
  for (const path of ['/_cachesvc/', '/_cachesvc/cache', '/_cachesvc/stats', '/_cachesvc/setup']) {
    const response = await ask(sources(), path)
    t.equal(response.status, 200)
    t.equal(response.fields.get('Content-Type'), 'text/html; charset=utf-8')
    t.match(textOf(response), /^<!DOCTYPE html>/)
  }
})

t.test('4. /_cachesvc/api/stats is JSON', async t => {
  const { response } = await statisticsOf(fullSources())
  t.equal(response.status, 200)
  t.equal(response.fields.get('Content-Type'), 'application/json; charset=utf-8')
})

t.test('4. /_cachesvc/cachesvc.crt is the CA certificate while HTTPS is intercepted', async t => {
  const response = await ask(fullSources(), '/_cachesvc/cachesvc.crt')
  t.equal(response.status, 200)
  t.equal(textOf(response), '-----BEGIN CERTIFICATE-----\n')
  t.equal(response.fields.get('Content-Type'), 'application/x-x509-ca-cert')
})

t.test('4. /_cachesvc/revocation.crl is the list when there is one', async t => {
  const response = await ask(fullSources(), '/_cachesvc/revocation.crl')
  t.equal(response.status, 200)
  t.equal(response.fields.get('Content-Type'), 'application/pkix-crl')
})

t.test('4. /robots.txt disallows indexing', async t => {
  const response = await ask(sources(), '/robots.txt')
  t.equal(response.status, 200)
  t.equal(textOf(response), 'User-agent: *\nDisallow: /\n')
})

t.test(
  '4. /.well-known/security.txt points to the project page and expires in seven days',
  async t => {
    const response = await ask(sources(), '/.well-known/security.txt')
    t.equal(response.fields.get('Content-Type'), 'text/plain; charset=utf-8')
    const lines = textOf(response).trimEnd().split('\n')
    t.ok(lines.includes('Contact: https://cachesvc.example.org/'))
    t.ok(lines.includes('Expires: 2025-03-21T12:00:00Z'))
  },
)

t.test('4. /favicon.ico is an embedded icon', async t => {
  const response = await ask(sources(), '/favicon.ico')
  t.equal(response.fields.get('Content-Type'), 'image/x-icon')
  t.equal(response.content.kind, 'bytes')
})

t.test('4. /_cachesvc is a temporary redirect to /_cachesvc/', async t => {
  const response = await ask(sources(), '/_cachesvc', { query: 'a=b' })
  t.equal(response.status, 307)
  t.equal(response.fields.get('Location'), '/_cachesvc/')
})

t.test('4. / is 406 with a redirect hint for browsers, and no redirect', async t => {
  const response = await ask(sources(), '/')
  t.equal(response.status, 406)
  t.equal(response.reason, 'Not Acceptable - Usage Information')
  t.match(response.reason, /usage.information/i, 'what older detection tools look for')
  t.notOk(response.fields.has('Location'))
  t.match(response.fields.get('Content-Type'), /^text\/html/)
  const hint = textOf(response)
  t.match(hint, /<meta http-equiv="refresh" content="0; url=\/_cachesvc\/">/)
  t.match(hint, /<a href="\/_cachesvc\/">/)
  t.notMatch(hint, /<title>apt-cacher/i)
})

t.test('4. the fields of the web interface are on every answer', async t => {
  for (const path of ['/', '/robots.txt', '/_cachesvc', '/_cachesvc/', '/_cachesvc/lost']) {
    const { fields } = await ask(sources(), path)
    t.equal(fields.get('Cache-Control'), 'no-store')
    t.equal(fields.get('X-Content-Type-Options'), 'nosniff')
    t.equal(fields.get('X-Frame-Options'), 'DENY')
  }
})

t.test('4. the reachability check is a 2xx of the statistics, not of /', async t => {
  t.equal((await statisticsOf(sources())).response.status, 200)
  t.equal((await ask(sources(), '/')).status, 406)
})

t.test('5. nothing asks who the client is', async t => {
  for (const path of ['/_cachesvc/', '/_cachesvc/api/stats', '/_cachesvc/metrics']) {
    const response = await ask(fullSources(), path)
    t.equal(response.status, 200)
    t.notOk(response.fields.has('WWW-Authenticate'))
  }
})

t.test('5. no page shows credentials', async t => {
  const configuration = '/_cachesvc/configuration'
  for (const path of ['/_cachesvc/', '/_cachesvc/cache', '/_cachesvc/setup', configuration]) {
    const text = await pageOf(fullSources(), path)
    t.notMatch(text, /s3cret|bob/)
  }
  t.match(await pageOf(fullSources(), configuration), 'parent.example.org:3128')
})

t.test(
  '5. the setup page has clients verify the fingerprint before they trust the certificate',
  async t => {
    const setup = await pageOf(sources({ httpsMode: 'intercept' }), '/_cachesvc/setup')
    t.match(setup, /openssl x509 [\s\S]*-fingerprint -sha256[\s\S]*update-ca-certificates/)
    t.notMatch(await pageOf(sources(), '/_cachesvc/setup'), 'update-ca-certificates')
  },
)

t.test('7. a certificate route that is not available is 404 with a sentence', async t => {
  for (const path of ['/_cachesvc/cachesvc.crt', '/_cachesvc/revocation.crl']) {
    for (const given of [
      sources(),
      sources({ certificate: () => undefined, revocationList: async () => undefined }),
    ]) {
      const response = await ask(given, path)
      t.equal(response.status, 404)
      t.match(textOf(response), /^There is no [\s\S]*\.\n$/)
    }
  }
})

t.test('8. security.txt expires seven days after the request, not after the start', async t => {
  const clock = new ManualClock(noon)
  const given = sources({ clock })
  clock.advance(36 * 3_600_000)
  const text = textOf(await ask(given, '/.well-known/security.txt'))
  t.match(text, 'Expires: 2025-03-23T00:00:00Z')
})

t.test(
  '9. the index page shows the version; the statistics carry none in path or body',
  async t => {
    t.match(await pageOf(fullSources(), '/_cachesvc/'), '<dt>Version</dt><dd>1.2.3-test</dd>')
    t.notMatch(textOf((await statisticsOf(fullSources())).response), /version|1\.2\.3/)
    t.ok(isOperationsPath('/_cachesvc/api/stats'))
  },
)
