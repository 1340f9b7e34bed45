import { createHash } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { variableOf } from '../../../lib/auth/config/environment.ts'
import { configCheck, loadConfig } from '../../../lib/auth/config/loading/load-config.ts'
import { decodeConfig } from '../../../lib/config/config-file.ts'

const least = `domain: app.example.org
idpMetadataURL: https://idp.example.org/metadata
proxy:
  listenAddress: 127.0.0.1:8080
  targetURL: http://127.0.0.1:3000
`

function load(text: string) {
  return decodeConfig(text, 'app.yaml', configCheck('app'))
}

function problemsOf(text: string): readonly string[] {
  const loaded = load(text)
  return loaded.ok ? [] : loaded.problems
}

t.test('the least there can be is enough', t => {
  const loaded = load(least)
  t.match(loaded, {
    ok: true,
    warnings: [],
    value: {
      domain: 'app.example.org',
      baseUrl: 'https://app.example.org',
      listen: { address: '127.0.0.1', port: 8080 },
      target: { scheme: 'http', host: '127.0.0.1', port: 3000 },
      configPath: '/var/lib/authproxy/app.json',
      saml: {
        entityId: 'https://app.example.org/saml/metadata',
        acsUrl: 'https://app.example.org/saml/acs',
        sloUrl: 'https://app.example.org/saml/slo',
      },
    },
  })
  t.end()
})

t.test('everything that is missing is told at once', t => {
  const problems = problemsOf('samlRequestSigning: sometimes').join('\n')
  for (const text of [
    'domain not set',
    'proxy.listenAddress not set',
    'proxy.targetURL not set',
    'no IdP metadata source',
    'one of auto, always, never',
  ]) {
    t.match(problems, text)
  }
  t.match(problemsOf(`${least}idpMetadataFile: /x.xml\n`), [/two IdP metadata sources/])
  t.end()
})

t.test('what is wrong is told with its place and the mend', t => {
  const change = (from: string, to: string) => problemsOf(least.replace(from, to)).join('\n')
  for (const [from, to, expected] of [
    [
      'app.example.org',
      'https://app.example.org/x',
      /app.yaml:1:9: domain: .*write app.example.org/,
    ],
    ['targetURL', 'targetUrl', /did you mean targetURL/],
    ['http://127.0.0.1:3000', 'http://127.0.0.1:3000/base', /a path cannot be added/],
    ['http://127.0.0.1:3000', 'http://user:secret@127.0.0.1', /^(?!.*secret).*user name/],
    ['http://127.0.0.1:3000', '127.0.0.1:3000', /origin of the backend/],
    ['http://127.0.0.1:3000', 'https://app.example.org', /leads back to the public origin/],
    ['http://127.0.0.1:3000', 'https://APP.example.org.:443/', /leads back to the public origin/],
    ['http://127.0.0.1:3000', 'http://127.0.0.1:8080', /leads back to proxy.listenAddress/],
    ['http://127.0.0.1:3000', 'http://localhost:8080', /leads back to proxy.listenAddress/],
    ['127.0.0.1:8080', 'localhost:8080', /write 127.0.0.1:8080/],
    ['127.0.0.1:8080', '127.0.0.1', /port is missing/],
    ['app.example.org', '""', /domain: .*the public host name alone/],
    ['app.example.org', 'app.example.org/x', /no path; write app.example.org/],
    ['app.example.org', 'bücher.example.org', /write xn--bcher-kva\.example\.org/],
    ['app.example.org', 'BÜCHER.example.org:8443', /write xn--bcher-kva\.example\.org:8443/],
    [
      'app.example.org',
      'app.example.org.',
      /without the dot at its end; write app\.example\.org"?$/m,
    ],
    ['app.example.org', 'app.example.org.:8443', /write app\.example\.org:8443/],
    ['app.example.org', 'a@app.example.org', /domain: /],
    ['http://127.0.0.1:3000', '3000', /origin of the backend/],
    ['http://127.0.0.1:3000', 'ftp://127.0.0.1', /origin of the backend/],
    ['http://127.0.0.1:3000', 'http://127.0.0.1:3000/?a', /a path cannot be added/],
    ['https://idp.example.org/metadata', '7', /idpMetadataURL: .*a URL such as/],
    ['https://idp.example.org/metadata', 'idp.example.org', /idpMetadataURL: .*a URL such as/],
  ] as const) {
    t.match(change(from, to), expected, to)
  }
  const digits = 'ab'.repeat(32)
  const one = `sha256: ${digits}`
  for (const [more, expected] of [
    ['passthroughPaths: ["/"]', /let every request pass/],
    ['passthroughPaths: [api]', /begins with/],
    ['passthroughPaths: ["/a/../b"]', /dot segments/],
    ['passthroughPaths: ["/a?b"]', /path alone/],
    ['passthroughTokens: [{name: a, token: short}]', /fewer than 16/],
    ['passthroughTokens: [{name: a}]', /none of sha256, token, sha256File, tokenFile/],
    ['passthroughTokens: [{sha256: abc, name: a}]', /64 hexadecimal/],
    ['passthroughTokens: [{token: 0123456789abcdef}]', /has no name/],
    ['passthroughTokens: [{name: a, token: 0123456789abcdef, expires: soon}]', /a date such as/],
    ['identity: {attributes: [{name: User, from: [x]}]}', /taken by a field of our own/],
    ['identity: {attributes: [{name: users, from: [x]}]}', /taken by a field of our own/],
    ...['Probe', 'redirect', 'Edge-Secret'].map(name => {
      const setting = `identity: {attributes: [{name: ${name}, from: [x]}]}`
      return [setting, /taken by a field of our own/] as const
    }),
    ['identity: {attributes: [{name: Email, from: [x]}]}', /field of the known attribute email/],
    ['identity: {attributes: [{name: subject-id, from: [x]}]}', /known attribute subjectId/],
    ['identity: {attributes: [{name: a}, {name: A}]}', /is the field of an earlier attribute, a/],
    ['admin: {listenAddress: 127.0.0.1:8080}', /same as proxy.listenAddress/],
    ['admin: {listenAddress: 8080}', /same as proxy.listenAddress/],
    ['admin: {listenAddress: 0.0.0.0:8080}', /same as proxy.listenAddress/],
    ['admin: {listenAddress: "[::]:8080"}', /same as proxy.listenAddress/],
    ['passthroughPaths: [7]', /a path prefix such as/],
    ['  webSocketOrigins: [7]', /an origin such as/],
    ['  webSocketOrigins: [https://app.example.org/]', /without a slash at the end/],
    ['passthroughTokens: [{name: a, token: 1234567890123456}]', /found no text/],
    ['passthroughTokens: [{name: a, token: 0123456789 abcdef}]', /visible ASCII without spaces/],
    ['passthroughTokens: [{name: a, sha256: 12}]', /found a number, expected 64/],
    ['passthroughTokens: [{name: a, sha256: THE-64-DIGITS-OF-SHA256SUM}]', /64 hexadecimal/],
    ...['', 'password', 'test', 'changeme'].map(word => {
      const digest = createHash('sha256').update(word).digest('hex')
      return [`passthroughTokens: [{name: a, sha256: "${digest}"}]`, /guessed first/] as const
    }),
    ['passthroughTokens: [{name: a, token: 0123456789abcdef, expires: 7}]', /a date such as/],
    [`passthroughTokens: [{name: a, token: 0123456789abcdef, sha256: ${digits}}]`, /leave one/],
    [`passthroughTokens: [{name: a, ${one}}, {name: a, ${one}}]`, /earlier token as well/],
    ['identity: {attributes: [{name: "a b", from: [x]}]}', /letters, digits and hyphens/],
  ] as const) {
    const problems = problemsOf(`${least}${more}\n`).join('\n')
    t.match(problems, expected, more)
    t.notMatch(problems, /0123456789/, 'no token is quoted')
  }
  t.end()
})

t.test('no problem quotes a token, wherever it was written by mistake', async t => {
  const secret = 'c0ffee5ecret0123456789abcdef'
  for (const tokens of [
    `\n  - ${secret}`,
    `\n  - 12345678901234567890`,
    ` ${secret}`,
    ` 12345678901234567890`,
    `\n  - name: a\n    token: *${secret}`,
    `\n  - name: a\n    token: !${secret}`,
    `\n  - name: a\n    token: &${secret}`,
    `\n  - name: a\n    token: '${secret}`,
    `\n  - name: a\n    token:${secret}`,
    `\n  - name: a\n    ${secret}`,
    `\n  - ${secret}: a`,
    `\n  - name: a\n    sha256: ${secret}`,
    `\n  - name: a\n    token: ${secret}\n    expires: ${secret}`,
  ]) {
    const problems = problemsOf(`${least}passthroughTokens:${tokens}\n`).join('\n')
    t.match(problems, /^app.yaml:\d+:\d+: /, tokens)
    t.notMatch(problems, /c0ffee|123456/, tokens)
  }
  const environment = {
    AUTHPROXY_DOMAIN: 'app.example.org',
    AUTHPROXY_IDP_METADATA_URL: 'https://idp.example.org/metadata',
    AUTHPROXY_PROXY_LISTEN_ADDRESS: '127.0.0.1:8080',
    AUTHPROXY_PROXY_TARGET_URL: 'http://127.0.0.1:3000',
  }
  for (const name of ['PASSTHROUGH_TOKENS', 'IDENTITY_TOKEN']) {
    const wrong = { ...environment, [`AUTHPROXY_${name}`]: secret }
    const directory = { configDirectory: t.testdir(), file: undefined }
    const loaded = await loadConfig({ instance: 'app', environment: wrong, ...directory })
    t.notOk(loaded.ok, name)
    t.notMatch(JSON.stringify(loaded), secret, name)
  }
})

t.test(
  'the proxy for metadata: without its password in any message, and the proxy of the environment is not taken',
  async t => {
    const file = { configDirectory: t.testdir({ 'app.yaml': least }), file: undefined }
    const place = { instance: 'app', ...file }
    const notesOf = async (environment: Readonly<Record<string, string>>) =>
      (await loadConfig({ ...place, environment })).notes.join('\n')
    t.equal(await notesOf({}), '')
    t.equal(await notesOf({ HTTPS_PROXY: '', http_proxy: 'http://proxy.example.org' }), '')
    for (const name of ['HTTPS_PROXY', 'https_proxy', 'ALL_PROXY', 'all_proxy']) {
      const note = await notesOf({ [name]: 'http://ann:s3cret@proxy.example.org:3128/' })
      t.match(note, `sets ${name}, which is ignored`)
      t.match(note, /set idpMetadataProxy: http:\/\/proxy\.example\.org:3128$/)
      t.notMatch(note, /ann|s3cret/)
    }
    const whole = {
      AUTHPROXY_DOMAIN: 'app.example.org',
      AUTHPROXY_IDP_METADATA_URL: 'https://idp.example.org/metadata',
      AUTHPROXY_PROXY_LISTEN_ADDRESS: '127.0.0.1:8080',
      AUTHPROXY_PROXY_TARGET_URL: 'http://127.0.0.1:3000',
      AUTHPROXY_IDP_METADATA_PROXY: 'http://ann:s3cret@proxy.example.org:3128',
      HTTPS_PROXY: 'http://proxy.example.org:3128',
    }
    const loaded = await loadConfig({ ...place, environment: whole })
    const set = { host: 'proxy.example.org', port: 3128, credentials: 'ann:s3cret' }
    t.match(loaded, { ok: true, value: { saml: { idpMetadataProxy: set } } })
    t.notMatch(loaded.notes.join(), /ignored/)
    for (const [url, problem] of [
      ['https://ann:s3cret@proxy.example.org', /the scheme https.*not supported/],
      ['ann:s3cret@proxy.example.org:3128', /no scheme/],
      ['http://ann:s3cret%@proxy.example.org', /begins no escape/],
    ] as const) {
      const problems = problemsOf(`${least}idpMetadataProxy: "${url}"\n`).join()
      t.match(problems, problem)
      t.notMatch(problems, 's3cret')
    }
    const fromDisk = least.replace(/idpMetadataURL: .*/, 'idpMetadataFile: /etc/authproxy/idp.xml')
    const { warnings } = load(`${fromDisk}idpMetadataProxy: http://proxy.example.org\n`)
    t.match(warnings.join(), /idpMetadataProxy: has no effect/)
    t.end()
  },
)

t.test('a date is a day of the calendar, and a moment has a zone', t => {
  const expires = (date: string) => {
    const token = `{name: a, token: 0123456789abcdef, expires: "${date}"}`
    const loaded = load(`${least}passthroughTokens: [${token}]\n`)
    return loaded.ok ? loaded.value.passthroughTokens[0]?.expires : undefined
  }
  t.equal(expires('2030-12-31'), Date.UTC(2031, 0, 1) - 1)
  t.equal(expires('2030-12-31T12:00:00Z'), Date.UTC(2030, 11, 31, 12))
  t.equal(expires('2030-12-31T12:00:00+02:00'), Date.UTC(2030, 11, 31, 10))
  for (const wrong of [
    '2030-02-31',
    '2030-02-31T12:00:00Z',
    '2030-12-31 (x',
    '2030-12-31 12:00',
    '2030-12-31T12:00:00',
    '2030-12-31T12:00:00+99:00',
  ]) {
    t.equal(expires(wrong), undefined, wrong)
  }
  t.end()
})

t.test('the PROXY protocol needs a peer that may begin with it', t => {
  const on = `${least}  proxyProtocol: true\n`
  t.match(problemsOf(on).join(), /proxyProtocol: also needs proxy\.trustedProxies: name the load/)
  t.strictSame(problemsOf(`${on}  trustedProxies: [192.0.2.7]\n`), [])
  t.end()
})

t.test('our metadata is fetched again before it ends', t => {
  const both = (caching: string) =>
    problemsOf(`${least}saml: {metadataValidity: 1d, metadataCacheDuration: ${caching}}`).join('\n')
  t.match(both('1d'), /metadataCacheDuration: is not less than saml\.metadataValidity/)
  t.equal(both('23h'), '')
  t.end()
})

t.test(
  '94: metadata without TLS is refused, but from this machine, and where its signature is checked',
  t => {
    const from = (url: string, more = '') =>
      load(`${least.replace(/https:\/\/idp[^\n]*/, url)}${more}`)
    const refused = (url: string) => {
      const loaded = from(url)
      t.match(loaded.ok ? '' : loaded.problems.join('\n'), /idpMetadataURL.*without TLS/, url)
    }
    for (const host of [
      'idp.example.org',
      '10.0.0.1',
      '127.evil.example',
      'localhost.evil.example',
    ]) {
      refused(`http://${host}/metadata`)
      refused(`HTTP://${host}/metadata`)
    }
    for (const host of ['127.0.0.1:8989', 'localhost', '[::1]', '127.0.0.2']) {
      t.ok(from(`http://${host}/metadata`).ok, host)
    }
    t.ok(from('https://idp.example.org/metadata').ok)
    t.end()
  },
)

t.test('what is dangerous is said and done all the same', t => {
  const warned = (text: string) => load(text).warnings.join('\n')
  t.match(
    warned(`${least}  targetDisableSSLVerify: true\n`.replace('http://127', 'https://127')),
    /targetDisableSSLVerify.*read and change everything/,
  )
  t.match(warned(`${least}  trustedProxies: [10.0.0.0/8]\n`), /trustedProxies\[0\].*wide/)
  t.match(warned(least.replace(':8080', ':443')), /below 1024/)
  t.match(warned(`${least}  targetDisableSSLVerify: true\n`), /reached without TLS/)
  t.match(warned(`${least}  trustedProxies: ["2001:db8::/40"]\n`), /trustedProxies\[0\].*wide/)
  t.match(warned(least.replace('127.0.0.1:3000', '8.8.8.8')), /cross the Internet in the clear/)
  t.match(warned(`${least}saml: {allowUnsignedLogout: true}\n`), /end that user’s sessions/)
  for (const [saml, warning] of [
    ['metadataCacheDuration: 20d', /metadataCacheDuration.*more than half of keys\.overlap/],
    ['metadataValidity: 20d', /metadataValidity.*more than half of keys\.overlap/],
    ['metadataValidity: 20d, metadataCacheDuration: 1d', /^$/],
  ] as const) {
    t.match(warned(`${least}saml: {${saml}}\n`), warning, saml)
  }
  t.match(
    warned(`${least}identity: {tokenAudience: x}\n`),
    /tokenAudience: has no effect without identity\.token/,
  )
  t.match(warned(`${least}passthroughPaths: [/api]\n`), /such as \/api-admin/)
  t.equal(warned(`${least}passthroughPaths: [/api/]\n`), '')
  t.end()
})

t.test('a complete environment is used alone; an incomplete one not at all', async t => {
  const directory = await mkdtemp(join(tmpdir(), 'authproxy-'))
  t.teardown(() => rm(directory, { recursive: true }))
  await writeFile(join(directory, 'app.yaml'), `${least}passthroughPaths: [/file/]\n`)
  const place = { instance: 'app', file: undefined, configDirectory: directory }
  const some = { AUTHPROXY_DOMAIN: 'env.example.org', AUTHPROXY_PASSTHROUGH_PATHS: '/env/' }
  const fromFile = await loadConfig({ ...place, environment: some })
  t.match(fromFile, {
    ok: true,
    value: { domain: 'app.example.org', passthroughPaths: ['/file/'] },
  })
  t.match(
    fromFile.notes.join(),
    /AUTHPROXY_DOMAIN, AUTHPROXY_PASSTHROUGH_PATHS are not used.*AUTHPROXY_PROXY_TARGET_URL/,
  )
  const whole = {
    ...some,
    AUTHPROXY_PROXY_LISTEN_ADDRESS: '127.0.0.1:1234',
    AUTHPROXY_PROXY_TARGET_URL: 'http://127.0.0.1:1',
    AUTHPROXY_IDP_METADATA_FILE: '/idp.xml',
    AUTHPROXY_PROXY_USE_BASIC_AUTH: 'true',
    AUTHPROXY_PASSTHROUGH_TOKEN: '0123456789abcdef0123',
    AUTHPROXY_LIMITS_FIELDS: '300',
    AUTHPROXY_IDENTITY_ONLY: '',
  }
  const fromEnvironment = await loadConfig({ ...place, environment: whole })
  t.match(fromEnvironment, {
    ok: true,
    from: 'the environment',
    value: {
      domain: 'env.example.org',
      passthroughPaths: ['/env/'],
      identityFields: { basicAuth: true },
      passthroughTokens: [{ name: 'environment' }],
      limits: { fields: 300 },
    },
  })
  const wrong = await loadConfig({
    ...place,
    environment: { ...whole, AUTHPROXY_DOMIAN: 'x', AUTHPROXY_PASSTHROUGH_PATHS: '/' },
  })
  t.match(wrong, {
    ok: false,
    problems: [/AUTHPROXY_DOMIAN.*AUTHPROXY_DOMAIN/, /^AUTHPROXY_PASSTHROUGH_PATHS/],
  })
  for (const [more, expected] of [
    [{ AUTHPROXY_PROXY_USE_BASIC_AUTH: 'maybe' }, /^AUTHPROXY_PROXY_USE_BASIC_AUTH: /],
    [{ AUTHPROXY_LIMITS_FIELDS: 'many' }, /^AUTHPROXY_LIMITS_FIELDS: /],
    [{ AUTHPROXY_PASSTHROUGH_TOKEN: 'short' }, /^AUTHPROXY_PASSTHROUGH_TOKEN: .*fewer than 16/],
    [{ AUTHPROXY_PASSTHROUGH_PATHS: '/a/,api' }, /^AUTHPROXY_PASSTHROUGH_PATHS \(.*\[1\]\)/],
    [{ AUTHPROXY_ZZZZZZZZZZZZ: 'x' }, /^AUTHPROXY_ZZZZZZZZZZZZ: no such setting; unset it$/],
    [{ AUTHPROXY_IDP_METADATA_URL: 'https://idp.example.org' }, /^two IdP metadata sources/],
  ] as const) {
    const { ok, ...read } = await loadConfig({ ...place, environment: { ...whole, ...more } })
    t.match(ok ? [] : read, { problems: [expected] })
  }
  // Kubernetes sets these for a Service called authproxy, and for one called authproxy-admin.
  const links = {
    AUTHPROXY_SERVICE_HOST: '10.0.0.7',
    AUTHPROXY_SERVICE_PORT: '80',
    AUTHPROXY_SERVICE_PORT_HTTP: '80',
    AUTHPROXY_PORT: 'tcp://10.0.0.7:80',
    AUTHPROXY_PORT_80_TCP: 'tcp://10.0.0.7:80',
    AUTHPROXY_PORT_80_TCP_PROTO: 'tcp',
    AUTHPROXY_PORT_80_TCP_PORT: '80',
    AUTHPROXY_PORT_80_TCP_ADDR: '10.0.0.7',
    AUTHPROXY_ADMIN_SERVICE_HOST: 'fd00::7',
    AUTHPROXY_ADMIN_PORT_53_UDP: 'udp://[fd00::7]:53',
  }
  const linked = await loadConfig({ ...place, environment: { ...whole, ...links } })
  t.match(linked, { ok: true, from: 'the environment' })
  t.match(linked.notes.join('\n'), /^10 variables.*enableServiceLinks: false/)
  const linkedFile = await loadConfig({ ...place, environment: links })
  t.match(linkedFile, { ok: true, from: /app\.yaml/, notes: [/Kubernetes/] })
  t.equal(linkedFile.notes.length, 1, 'nothing is called missing')
  for (const mistake of [
    { AUTHPROXY_PORT: '8080' },
    { AUTHPROXY_SERVICE_HOST: 'app.example.org' },
  ]) {
    t.match(await loadConfig({ ...place, environment: { ...whole, ...links, ...mistake } }), {
      ok: false,
      problems: [/no such setting/],
    })
  }
  t.match(await loadConfig({ ...place, environment: { AUTHPROXY_DOMAIN: 'x' } }), {
    notes: [/^AUTHPROXY_DOMAIN is not used/],
  })
  const none = await loadConfig({ ...place, instance: 'absent', environment: {} })
  t.match(none, { ok: false, problems: [/absent\.yaml/] })
})

t.test('an instance on all addresses cannot be its own backend on this machine', t => {
  const with8080 = (listen: string, target: string) =>
    problemsOf(least.replace('127.0.0.1:8080', listen).replace('127.0.0.1:3000', target)).length
  for (const [listen, target, problems] of [
    ['":8080"', '127.0.0.1:8080', 1],
    ['0.0.0.0:8080', 'localhost:8080', 1],
    ['"[::1]:8080"', 'localhost:8080', 1],
    ['"[::1]:8080"', '127.0.0.1:8080', 0],
    ['192.0.2.1:8080', 'localhost:8080', 0],
  ] as const) {
    t.equal(with8080(listen, target), problems, `${listen} ${target}`)
  }
  t.end()
})

t.test('variables are named after their settings', t => {
  for (const [path, variable] of [
    ['idpMetadataURL', 'AUTHPROXY_IDP_METADATA_URL'],
    ['idpEntityID', 'AUTHPROXY_IDP_ENTITY_ID'],
    ['proxy.targetDisableSSLVerify', 'AUTHPROXY_PROXY_TARGET_DISABLE_SSL_VERIFY'],
    ['samlRequestSigning', 'AUTHPROXY_SAML_REQUEST_SIGNING'],
    ['configPath', 'AUTHPROXY_CONFIG_PATH'],
  ] as const) {
    t.equal(variableOf(path.split('.')), variable)
  }
  t.end()
})
