import t from 'tap'
import { inForce, needRestart } from '../../../../lib/cache/config/config.ts'
import { config, problems } from '../../../fixtures/cache/cache-config.ts'
import { plainConfig } from '../../../fixtures/cache/operations.ts'

t.test('the region of the bucket waits for a restart, and its expiry does not', async t => {
  const { sharedStore } = plainConfig
  const elsewhere = { ...plainConfig, sharedStore: { ...sharedStore, region: 'other' } }
  t.strictSame(needRestart(plainConfig, elsewhere), ['shared_store.region'])
  t.strictSame(inForce(plainConfig, elsewhere), plainConfig)
  const longer = { ...plainConfig, sharedStore: { ...sharedStore, expire: 1 } }
  t.strictSame(needRestart(plainConfig, longer), [])
  t.strictSame(inForce(plainConfig, longer), longer)
})

t.test('a shared store has a bucket', t => {
  t.match(config('shared_store: {url: "https://s3.example.org/apt"}').sharedStore, {
    ...{ style: 'path', region: 'us-east-1', expire: 30 * 86_400_000 },
    url: { scheme: 'https', host: 's3.example.org', port: 443, path: '/apt' },
  })
  const rows: ReadonlyArray<readonly [string, RegExp]> = [
    ['{region: eu-central-1}', /shared_store\.region: also needs shared_store\.url/],
    ['{url: "https://s3.example.org"}', /shared_store\.url: names no bucket/],
    ['{url: "https://localhost/b", style: host}', /has no bucket before the first dot/],
    ['{url: "https://192.0.2.1/b", style: host}', /has no bucket before the first dot/],
    [
      '{url: "https://hidden:hidden@s3.example.org/b"}',
      /url: found credentials, which do not belong/,
    ],
    ['{url: "https://s3.example.org/b?hidden=1"}', /url: found a query/],
    ['{url: "ftp://s3.example.org/b"}', /url: .* Expected the URL of a bucket/],
    ['{url: 7}', /url: It is not text/],
    ['{url: "https://s3.example.org/b", region: "a/b"}', /region: .* expected a region/],
    [
      '{url: "https://s3.example.org/b", peer_url: "http://n1.example.org:3142"}',
      /shared_store\.peer_url: no longer there: .*; remove the line, .* hash by URL/,
    ],
  ]
  for (const [text, problem] of rows) {
    t.match(problems(`shared_store: ${text}`), [problem], text)
    t.notMatch(problems(`shared_store: ${text}`).join('\n'), /hidden/)
  }
  t.end()
})
