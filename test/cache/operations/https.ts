/**
 * What the pages say of certificates and of clients that do not trust them.
 */
import t from 'tap'
import {
  fullSources,
  httpsState,
  minute,
  noon,
  pageOf,
  sources,
} from '../../fixtures/cache/operations.ts'

const index = '/_cachesvc/configuration'

t.test('the CA, its fingerprint and its end', async t => {
  const page = await pageOf(fullSources({ httpsMode: 'intercept' }), index)
  t.match(page, 'CN=Archive CA, O=Example')
  t.match(page, httpsState().fingerprint)
  t.match(page, '<dd>2026-01-08</dd>')
  t.notMatch(page, 'Expiring')
  t.notMatch(await pageOf(sources(), index), 'fingerprint')
})

t.test('an end that is near, or past', async t => {
  const at = async (notAfter: number) =>
    pageOf(sources({ https: () => httpsState({ expiresSoon: true, notAfter }) }), index)
  t.match(
    await at(noon + 9 * 24 * 60 * minute),
    /state wait"><strong>Expiring<\/strong>[^<]*2025-03-23/,
  )
  t.match(await at(noon - minute), /state bad"><strong>Expired<\/strong>/)
})

t.test('clients that rejected a certificate, as many as fit', async t => {
  const row =
    '<code>192.0.2.77</code></th><td data-label="Host"><code>archive.example.org</code></td><td data-label="Since">2025-03-14 11:55 UTC</td>'
  t.match(await pageOf(fullSources(), index), row)
  t.match(await pageOf(fullSources(), index), 'tunnelled unread for 1 hour')
  const [one] = httpsState().distrusting
  const many = httpsState({
    distrusting: Array.from({ length: 1234 }, () => one ?? { client: '', host: '', since: 0 }),
  })
  const page = await pageOf(sources({ https: () => many }), index)
  t.equal(page.split(row).length - 1, 20)
  t.match(page, 'and 1,214 more.')
  const none = sources({ https: () => httpsState({ distrusting: [] }) })
  t.match(await pageOf(none, index), 'No client has rejected')
  const off = sources({ https: () => httpsState({ distrusting: [], remembered: 0 }) })
  t.match(await pageOf(off, index), 'are not remembered')
})

t.test('setup: the fingerprint to compare, and the proxy that is spoken TLS to', async t => {
  const setup = '/_cachesvc/setup'
  const listeners = () => [
    { address: undefined, port: 3142, secure: false },
    { address: undefined, port: 3143, secure: true },
  ]
  const page = await pageOf(fullSources({ httpsMode: 'intercept', listeners }), setup)
  t.match(page, `It has to be: ${httpsState().fingerprint}`)
  t.match(page, 'https://cache.example.org:3143')
  t.match(page, 'HTTPS is read and cached here.')
  const only = await pageOf(fullSources({ httpsMode: 'tunnel', listeners }), setup)
  t.match(only, 'The listener for TLS has a certificate of this service.')
  t.notMatch(await pageOf(sources(), setup), 'cachesvc.crt')
})
