import t from 'tap'
import { foreignNames } from '../../../lib/auth/config/foreign-names.ts'
import { configCheck } from '../../../lib/auth/config/loading/load-config.ts'
import { settings } from '../../../lib/auth/config/settings.ts'
import { decodeConfig } from '../../../lib/config/config-file.ts'
import { manualPages } from '../../../lib/config/settings.ts'

function problems(yaml: string): string {
  const loaded = decodeConfig(yaml, 'app.yaml', configCheck('app'))
  return loaded.ok ? '' : loaded.problems.join('\n')
}

t.test('names of other proxies lead to the settings they mean', t => {
  for (const [line, meant] of [
    ['metadata: https://idp.example.org', 'idpMetadataURL, or idpMetadataFile'],
    ['MellonIdPMetadataFile: /x', 'idpMetadataFile'],
    ['upstream: http://a', 'proxy.targetURL'],
    ['upstreams: [http://a]', 'proxy.targetURL'],
    ['proxyPass: http://a', 'proxy.targetURL'],
    ['proxy: {backend: http://a}', 'proxy.targetURL'],
    ['listen: 8080', 'proxy.listenAddress'],
    ['http_address: 8080', 'proxy.listenAddress'],
    ['server_name: a', 'domain'],
    ['skip_auth_routes: [/x]', 'passthroughPaths'],
    ['allowed_groups: [x]', 'access'],
    ['cookie_expire: 1h', 'session.lifetime'],
    ['log_level: debug', 'log.level'],
  ] as const) {
    t.match(problems(line), `no such setting; did you mean ${meant}`, line)
  }
  t.match(
    problems('cookie_secret: abcdefg'),
    /^(?!.*abcdefg).*no such setting; keys and certificates are made/s,
  )
  t.match(problems('entity_id: x'), 'no such setting; idpEntityID is that of the identity provider')
  t.match(problems('acs_url: x'), /no such setting; the addresses for the identity provider follow/)
  t.match(problems('proxy: {targetUrl: http://a}'), 'did you mean targetURL?', 'one of this group')
  t.end()
})

t.test('every name leads to a setting that there is', t => {
  const paths = new Set([...manualPages(settings)].map(({ path }) => path.join('.')))
  for (const [name, meant] of Object.entries(foreignNames)) {
    if (typeof meant === 'string') t.ok(paths.has(meant.replace(/,.*/, '')), `${name}: ${meant}`)
    t.match(name, /^[a-z0-9]+$/)
  }
  t.end()
})
