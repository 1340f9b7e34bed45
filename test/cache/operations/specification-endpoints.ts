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

t.test('4. each route: its type and its content', async t => {
  const page = 'text/html; charset=utf-8'
  for (const [path, type, content] of [
    ['/_cachesvc/', page, /^<!DOCTYPE html>/],
    ['/_cachesvc/cache', page, /^<!DOCTYPE html>/],
    ['/_cachesvc/stats', page, /^<!DOCTYPE html>/],
    ['/_cachesvc/setup', page, /^<!DOCTYPE html>/],
    ['/_cachesvc/api/stats', 'application/json; charset=utf-8', /^\{/],
    ['/_cachesvc/cachesvc.crt', 'application/x-x509-ca-cert', /^-----BEGIN CERTIFICATE-----\n$/],
    ['/_cachesvc/revocation.crl', 'application/pkix-crl', /./],
    ['/robots.txt', 'text/plain; charset=utf-8', /^User-agent: \*\nDisallow: \/\n$/],
    [
      '/.well-known/security.txt',
      'text/plain; charset=utf-8',
      /^Contact: https:\/\/cachesvc\.example\.org\/\n(?:.*\n)*Expires: 2025-03-21T12:00:00Z$/m,
    ],
    ['/favicon.ico', 'image/x-icon', /./],
  ] as const) {
    const response = await ask(fullSources(), path)
    t.equal(response.status, 200, path)
    t.equal(response.fields.get('Content-Type'), type, path)
    t.match(textOf(response), content, path)
  }
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
