/**
 * The specification, sections 1 and 2: what the service does, and its settings. A subtest for every statement, named after it.
 */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { readEnvironment } from '../../lib/auth/config/environment.ts'
import { configCheck, loadConfig } from '../../lib/auth/config/loading/load-config.ts'
import { decodeConfig } from '../../lib/config/config-file.ts'
import { gatewayConfig } from '../fixtures/gateway/gateway.ts'
import { ownDirectory, startWhole } from '../fixtures/gateway/whole-gateway.ts'
import { RawClient } from '../fixtures/http/raw-client.ts'
import { htmlOf, readAsked } from '../fixtures/saml/browser.ts'
import { sp } from '../fixtures/saml/idp.ts'

const least = `domain: app.example.org
idpMetadataURL: https://idp.example.org/metadata
proxy:
  listenAddress: 127.0.0.1:8080
  targetURL: http://127.0.0.1:3000
`

function load(text: string) {
  return decodeConfig(text, 'app.yaml', configCheck('app'))
}

function problemsOf(text: string): string {
  const loaded = load(text)
  return loaded.ok ? '' : loaded.problems.join('\n')
}

function change(from: string, to: string): string {
  return problemsOf(least.replace(from, to))
}

async function place(t: Test, text: string) {
  const configDirectory = await ownDirectory(t)
  await writeFile(join(configDirectory, 'shop.yaml'), text)
  return { instance: 'shop', file: undefined, configDirectory }
}

t.test(
  '1.1, 1.2 Listens on proxy.listenAddress, forwards requests after a login by SAML',
  async t => {
    const { browser, backend, idp, port } = await startWhole(t)
    t.match(readAsked(await browser.navigate('/')).address, /^https:\/\/idp\.example\.org\/sso/)
    await browser.signIn(idp)
    t.equal(backend.requests.length, 0, 'nothing before a person is known')
    for (const target of ['/page?x=1', '/page?x=2']) {
      t.equal(htmlOf(await browser.navigate(target)), 'the application')
      t.equal(backend.requests.at(-1)?.target, target)
    }
    t.ok(port > 0)
    const elsewhere = await startWhole(t, { proxy: { listenAddress: '127.0.0.2:0' } })
    const there = await RawClient.connect(t, elsewhere.port, { host: '127.0.0.2' })
    t.equal((await there.get('/', { Host: sp.domain })).status, 401)
    await t.rejects(RawClient.connect(t, elsewhere.port), { code: 'ECONNREFUSED' })
  },
)

t.test('1.5 Several instances side by side, each with its own file and address', async t => {
  const [one, two] = [await startWhole(t), await startWhole(t)]
  t.not(one.port, two.port)
  t.not(one.config.configPath, two.config.configPath)
  await one.browser.signIn(one.idp)
  await two.browser.signIn(two.idp)
  t.equal(htmlOf(await one.browser.navigate('/')), 'the application')
  t.equal(htmlOf(await two.browser.navigate('/')), 'the application')
  for (const [name, value] of one.browser.cookies) two.browser.cookies.set(name, value)
  t.equal((await two.browser.navigate('/')).status, 401)
  t.equal(two.backend.requests.length, 1, 'a session of one is none of the other')
})

t.test('2. Static configuration: <config_dir>/<instance>.yaml', async t => {
  const loaded = await loadConfig({ ...(await place(t, least)), environment: {} })
  t.match(loaded, { ok: true, from: /shop\.yaml$/, value: { instance: 'shop' } })
})

const whole = {
  AUTHPROXY_DOMAIN: 'env.example.org',
  AUTHPROXY_IDP_METADATA_URL: 'https://idp.example.org/metadata',
  AUTHPROXY_PROXY_LISTEN_ADDRESS: '127.0.0.1:8081',
  AUTHPROXY_PROXY_TARGET_URL: 'http://127.0.0.1:3001',
}

t.test('2. Static configuration: a complete environment is used alone', async t => {
  const at = await place(t, `${least}passthroughPaths: [/file/]\n`)
  const loaded = await loadConfig({ ...at, environment: whole })
  t.match(loaded, { ok: true, from: 'the environment', value: { domain: 'env.example.org' } })
  t.same(loaded.ok && loaded.value.passthroughPaths, [], 'nothing of the file')
})

t.test('2. Static configuration: an incomplete environment: the file, not merged', async t => {
  const at = await place(t, least)
  for (const name of Object.keys(whole)) {
    const environment = { ...whole, AUTHPROXY_PASSTHROUGH_PATHS: '/env/', [name]: '' }
    const loaded = await loadConfig({ ...at, environment })
    t.match(loaded, { ok: true, value: { domain: 'app.example.org' } }, name)
    t.same(loaded.ok && loaded.value.passthroughPaths, [], 'nothing of the environment')
    t.match(loaded.notes.join(), name, 'and it is told what is missing')
  }
})

t.test('2. domain: required', async t => {
  t.match(change('domain: app.example.org\n', ''), /domain not set/)
})

t.test('2. domain: host name only, no scheme and no path', async t => {
  for (const wrong of ['https://app.example.org', 'app.example.org/x', 'app.example.org/', 'a b']) {
    t.match(change('app.example.org', wrong), /app\.yaml:1:9: domain: /, wrong)
  }
})

t.test('2. idpMetadataURL, idpMetadataFile: exactly one is required', async t => {
  t.match(change('idpMetadataURL: https://idp.example.org/metadata\n', ''), /no IdP metadata/)
  t.match(problemsOf(`${least}idpMetadataFile: /idp.xml\n`), /two IdP metadata sources/)
  const local = load(
    least.replace('idpMetadataURL: https://idp.example.org/metadata', 'idpMetadataFile: /idp.xml'),
  )
  t.match(local, { ok: true, value: { saml: { idpMetadata: { from: 'file', path: '/idp.xml' } } } })
  t.equal(readEnvironment({ ...whole, AUTHPROXY_IDP_METADATA_URL: '' }).is, 'incomplete')
})

t.test('2., 7. proxy.listenAddress: required, unique per instance', async t => {
  t.match(change('  listenAddress: 127.0.0.1:8080\n', ''), /proxy\.listenAddress not set/)
  const first = await startWhole(t)
  const again = startWhole(t, { proxy: { listenAddress: `127.0.0.1:${first.port}` } })
  await t.rejects(again, { message: /in use; every instance needs one of its own/ })
})

t.test('2. proxy.listenAddress: ports below 1024 need privileges', async t => {
  t.match(load(least.replace('8080', '443')).warnings, [/below 1024 need a privilege/])
})

t.test('2. proxy.targetURL: required', async t => {
  t.match(change('  targetURL: http://127.0.0.1:3000\n', ''), /proxy\.targetURL not set/)
  t.match(change('127.0.0.1:3000', '127.0.0.1:3000/base'), /targetURL/, 'an origin and no path')
})

t.test('2. proxy.targetURL: not back to the service or its public origin', async t => {
  t.match(change('http://127.0.0.1:3000', 'https://app.example.org'), /public origin/)
  t.match(change('127.0.0.1:3000', '127.0.0.1:8080'), /leads back to proxy.listenAddress/)
})

t.test('2. proxy settings are indented below proxy, with spaces', async t => {
  t.match(load(least), { ok: true })
  t.match(problemsOf(least.replace('  listen', '\tlisten')), /app\.yaml:4/, 'tabs are refused')
  t.match(problemsOf(least.replaceAll('  ', '')), /proxy\.listenAddress not set/)
})

t.test('2. passthroughPaths: a list of literal prefixes', async t => {
  t.same(gatewayConfig({ ...plain, passthroughPaths: ['/a', '/b/'] }).passthroughPaths, [
    '/a',
    '/b/',
  ])
  t.match(problemsOf(`${least}passthroughPaths: {a: 1}\n`), /passthroughPaths/)
})

t.test('2. proxy.trustedProxies: exact addresses or narrow subnets', async t => {
  t.same(load(`${least}  trustedProxies: [192.0.2.7, 192.0.2.0/24]\n`).warnings, [])
  t.match(load(`${least}  trustedProxies: [0.0.0.0/0]\n`).warnings, [/wide network/])
  t.match(problemsOf(`${least}  trustedProxies: [edge.example.org]\n`), /trustedProxies/)
})

t.test('2. proxy.targetDisableSSLVerify: boolean, should remain false', async t => {
  t.equal(gatewayConfig(plain).targetVerify, true)
  const on = `${least}  targetDisableSSLVerify: true\n`.replace('http://127', 'https://127')
  t.match(load(on), { ok: true, warnings: [/can read and change everything/] })
  t.match(problemsOf(`${least}  targetDisableSSLVerify: perhaps\n`), /targetDisableSSLVerify/)
})

t.test('2. proxy.useBasicAuth: boolean', async t => {
  t.equal(gatewayConfig(plain).identityFields.basicAuth, false)
  t.match(problemsOf(`${least}  useBasicAuth: sometimes\n`), /useBasicAuth/)
})

const plain = {
  domain: sp.domain,
  idpMetadataFile: '/idp.xml',
  proxy: { listenAddress: '127.0.0.1:0', targetURL: 'http://127.0.0.1:9' },
}
