/** The files of packaging/edges, held against the fields that authproxy sends and strips. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { parse, parseAllDocuments } from 'yaml'
import { foreignNames } from '../../../lib/auth/access/foreign-names.ts'
import { contracts } from '../../../lib/auth/forward-auth/contract.ts'
import { identityFieldNames } from '../../../lib/auth/identity/identity-fields.ts'
import { isRecord } from '../../../lib/json.ts'
import { packageRoot } from '../../../lib/package.ts'
import { fatesAt, foreignTable } from '../../fixtures/edges/edge-files.ts'
import { spellingsOf } from '../../fixtures/gateway/foreign.ts'
import { gatewayConfig } from '../../fixtures/gateway/gateway.ts'

const read = (file: string) => readFile(join(packageRoot(), 'packaging/edges', file), 'utf8')

function settings(more: Readonly<Record<string, unknown>> = {}) {
  return gatewayConfig({
    domain: 'app.example.org',
    idpMetadataURL: 'https://idp.example.org/metadata',
    proxy: { listenAddress: '127.0.0.1:8080', targetURL: 'http://127.0.0.1:3000' },
    ...more,
  }).identityFields
}

/** Every field that can be sent without names of the operator's own, signed identity included. */
const names = ['authproxy', 'remote', 'auth-request', 'webauth']
const all = identityFieldNames(settings({ identity: { names } }), 'X-Authproxy-Identity')
const byDefault = identityFieldNames(settings())

/** What clients write in their place. */
const spellings = [
  ...['x-authproxy-user', 'X_Authproxy_User', 'X.Authproxy.User', 'x!authproxy!groups'],
  ...['Remote_User', 'remote.groups', 'X_Auth_Request_User', 'X_WEBAUTH_USER', 'X-Authproxy-User_'],
]

t.test('nginx overwrites every field of an identity, out of the check', async t => {
  const text = await read('nginx/authproxy-protect.conf')
  for (const name of all) {
    const [, variable] = new RegExp(`\nproxy_set_header ${name} \\$(ap_\\w+);\n`).exec(text) ?? []
    const source = name.toLowerCase().replaceAll('-', '_')
    t.ok(text.includes(`auth_request_set $${variable} $upstream_http_${source};\n`), name)
  }
})

t.test('nginx sends each source of a check', async t => {
  const text = await read('nginx/authproxy.conf')
  const { method, target, host, address } = contracts.nginx
  for (const source of [method, target, host, address]) {
    t.ok(
      source !== undefined && text.includes(`    ${source.setBy}\n`),
      source?.field ?? 'a source',
    )
  }
})

t.test('Caddy copies the fields that are sent by default, and no others', async t => {
  const text = await read('caddy/Caddyfile')
  const copied = /copy_headers \{\n([^}]*)\}/.exec(text)?.[1]?.trim().split(/\s+/) ?? []
  t.strictSame([...copied].sort(), [...byDefault, 'Cookie', 'X-Authproxy-Request-ID'].sort())
})

t.test('Traefik removes and copies every field of an identity', async t => {
  const file: unknown = parse(await read('traefik/authproxy.yaml'))
  const found = at(file, 'http', 'middlewares', 'authproxy', 'forwardAuth')
  t.ok(isRecord(found))
  const { trustForwardHeader, authResponseHeadersRegex, authRequestHeaders } = isRecord(found)
    ? found
    : {}
  t.equal(trustForwardHeader, false)
  t.equal(authRequestHeaders, undefined)
  const matches = new RegExp(String(authResponseHeadersRegex).replace(/^\(\?i\)/, ''), 'i')
  t.strictSame(isRecord(found) && found['authResponseHeaders'], ['Cookie'])
  for (const name of [...all, ...spellings]) t.match(name, matches, name)
  for (const name of ['Cookie', 'X-Forwarded-For', 'Remote-Control', 'X-Authproxyish']) {
    t.notMatch(name, matches, name)
  }
  for (const router of ['application', 'authproxy-probe']) {
    const chain = at(file, 'http', 'routers', router, 'middlewares')
    t.ok(Array.isArray(chain) && chain.includes('authproxy'), router)
  }
  t.match(at(file, 'http', 'routers', 'authproxy', 'rule'), /\/saml\/.*\/__authproxy/)
  const entry: unknown = parse(await read('traefik/traefik.yaml'))
  t.equal(at(entry, 'entryPoints', 'websecure', 'forwardedHeaders', 'insecure'), false)
})

t.test('Envoy fails closed, sends what a check needs, and copies every field', async t => {
  const text = await read('envoy/envoy.yaml')
  const file: unknown = parse(text)
  t.ok(isRecord(file))
  t.match(text, /failure_mode_allow: false/)
  t.match(text, /path_prefix: \/check\n/)
  t.match(text, /headers_with_underscores_action: REJECT_REQUEST/)
  t.match(text, /normalize_path: false/)
  // A short list lacks X-HTTP-Method-Override and its likes, or names of the operator's own.
  t.match(text, 'allowed_headers: { patterns: [{ safe_regex: { regex: ".*" } }] }')
  const copied = text.slice(text.indexOf('allowed_upstream_headers'))
  const patterns = [...copied.matchAll(/- \{ (exact|prefix): ([a-z-]+), ignore_case: true \}/g)]
  const isCopied = (name: string) =>
    patterns.some(([, how, word = '']) => {
      const plain = name.toLowerCase()
      return how === 'exact' ? plain === word : plain.startsWith(word)
    })
  for (const name of [...all, 'Cookie']) t.ok(isCopied(name), name)
})

t.test(
  'Envoy Gateway fails closed, drops what Envoy drops before the check, and copies every field',
  async t => {
    const text = await read('../kubernetes/envoy-gateway.yaml')
    const all = parseAllDocuments(text).map((document): unknown => document.toJS())
    const spec = (kind: string) =>
      at(
        all.find(each => at(each, 'kind') === kind),
        'spec',
      )
    const check = at(spec('SecurityPolicy'), 'extAuth')
    t.match(check, { failOpen: false, http: { path: '/check' } })
    t.strictSame(at(check, 'http', 'headersToBackend'), [
      'Cookie',
      ...byDefault,
      'X-Authproxy-Request-ID',
    ])
    const sent = at(check, 'headersToExtAuth')
    const overrides = foreignNames.filter(({ family }) => family === 'override')
    for (const name of [
      ...overrides.map(({ name }) => name),
      ...['Cookie', 'Origin', 'Sec-Fetch-Site', 'Sec-WebSocket-Key', 'Upgrade', 'X-Forwarded-For'],
      ...['Access-Control-Request-Method', 'X-Authproxy-Authorization', 'X-Authproxy-Probe'],
    ]) {
      t.ok(Array.isArray(sent) && sent.includes(name), name)
    }
    const ofEnvoy = await read('envoy/envoy.yaml')
    const [, lua = ''] = /inline_string: \|\n(.*?)\n +- name/s.exec(ofEnvoy) ?? []
    const plain = (text: string) => text.trim().replace(/^ +/gm, '')
    const extension = at(spec('EnvoyExtensionPolicy'), 'lua')
    t.equal(plain(String(at(Array.isArray(extension) ? extension[0] : {}, 'inline'))), plain(lua))
    t.strictSame(at(spec('EnvoyProxy'), 'filterOrder'), [
      { name: 'envoy.filters.http.lua', before: 'envoy.filters.http.ext_authz' },
    ])
    const [, forwardAuth = ''] = /^# {3}(forwardAuth: .*)$/m.exec(text) ?? []
    const config = gatewayConfig({
      domain: 'app.example.org',
      idpMetadataURL: 'https://idp.example.org/metadata',
      proxy: { listenAddress: '0.0.0.0:8080', targetURL: 'http://application:3000' },
      ...Object(parse(forwardAuth)),
    })
    t.equal(config.forwardAuth?.edge, 'envoy')
  },
)

/** The families whose fields the edge itself has to remove or write; the names that are sent are those of an identity. */
const removed = foreignNames.filter(({ family }) => !['override', 'framing'].includes(family))

for (const edge of Object.keys(contracts)) {
  t.test(`95: ${edge} removes every field a client may not say, in every spelling`, async t => {
    const fate = await fatesAt(edge)
    for (const { name } of removed) {
      for (const spelt of spellingsOf(name)) {
        // Only servers of one kind read a hyphen at the end, and they take it for an underscore.
        t.not(fate(spelt), 'passes', spelt)
      }
    }
    for (const name of ['X-Requested-With', 'Accept', 'Destination', 'Authorization']) {
      t.equal(fate(name), 'passes', name)
    }
  })
}

t.test('the page has the table, with what each edge does', async t => {
  const page = await readFile(join(packageRoot(), 'docs/forward-auth.md'), 'utf8')
  const table = await foreignTable()
  for (const row of table) t.ok(page.includes(`${row}\n`), row)
  t.equal(
    page.match(/^\| `[^|]*`(?: \|[^|]*){8} \|$/gm)?.length,
    table.length - 2,
    'and no other row',
  )
})

t.test('a page tells of each edge', async t => {
  const page = await readFile(join(packageRoot(), 'docs/forward-auth.md'), 'utf8')
  for (const edge of Object.keys(contracts)) t.match(page, `packaging/edges/${edge}`)
})

function at(value: unknown, ...names: readonly string[]): unknown {
  return names.reduce((found, name) => (isRecord(found) ? found[name] : undefined), value)
}
