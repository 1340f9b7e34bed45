import { writeFileSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { placeKeys } from '../../fixtures/gateway/authproxy-process.ts'
import { ownDirectory } from '../../fixtures/gateway/whole-gateway.ts'
import { attempt } from '../../fixtures/process/command.ts'
import { ScriptedIdp } from '../../fixtures/saml/idp.ts'

async function said(...parameters: readonly string[]) {
  const { code, stdout, stderr } = await attempt(process.execPath, [
    'dist/bin/authproxy.js',
    ...parameters,
  ])
  return { code, out: stdout.toString(), err: stderr }
}

/** Writes the file of an instance in a directory of its own, with metadata; `more` are lines of it. */
async function instance(t: Test, more = (_: string): string => '') {
  const directory = await ownDirectory(t)
  await writeFile(
    join(directory, 'idp.xml'),
    new ScriptedIdp('keycloak', { now: Date.now }).metadata(),
  )
  const lines = [
    'domain: app.example.org',
    `idpMetadataFile: ${directory}/idp.xml`,
    `configPath: ${directory}/app.json`,
    'proxy: { listenAddress: "127.0.0.1:8080", targetURL: "http://127.0.0.1:3000" }',
  ]
  const changed = more(directory)
  const kept = lines.filter(line => !changed.startsWith(`${line.split(':')[0]}:`))
  await writeFile(join(directory, 'app.yaml'), `${[...kept, changed].join('\n')}\n`)
  return said('app', '--config-dir', directory, '--check-config')
}

t.setTimeout(600_000)

t.test('--dump-config names the file, or the variables of a complete environment', async t => {
  const directory = await ownDirectory(t)
  const lines = [
    'domain: app.example.org',
    'idpMetadataFile: /etc/authproxy/idp.xml',
    'proxy: { listenAddress: "127.0.0.1:8080", targetURL: "http://127.0.0.1:3000" }',
    'passthroughTokens: [{ name: robot, token: s3cret-s3cret-s3cret-s3cret-s3cret-s3cret-s3cr }]',
  ]
  const path = join(directory, 'app.yaml')
  await writeFile(path, lines.join('\n'))
  const file = await said('app', '--config-dir', directory, '--dump-config')
  t.match(file, { code: 0, err: '' })
  t.match(file.out, `domain: "app.example.org"  # ${path}\n`)
  t.match(file.out, `\n    token: "[hidden]"  # ${path}\n`)
  t.match(file.out, '\n  lifetime: "12h"  # default\n')
  t.notMatch(file.out, 's3cret')

  const ready = await instance(t)
  const checked = ready.out.replace(/: no problems\n$/, '')
  const dump = await said('app', '--config-dir', dirname(checked), '--dump-config')
  await writeFile(checked, dump.out)
  t.match(await said('app', '--config-dir', dirname(checked), '--check-config'), {
    code: 0,
    err: '',
  })

  await writeFile(path, 'domain: 7')
  const wrong = await said('app', '--config-dir', directory, '--dump-config')
  t.match(wrong, { code: 78, out: '' })

  const env = {
    AUTHPROXY_DOMAIN: 'app.example.org',
    AUTHPROXY_PROXY_LISTEN_ADDRESS: '127.0.0.1:8080',
    AUTHPROXY_PROXY_TARGET_URL: 'http://127.0.0.1:3000',
    AUTHPROXY_IDP_METADATA_FILE: '/etc/authproxy/idp.xml',
    AUTHPROXY_PASSTHROUGH_TOKEN: 's3cret-s3cret-s3cret-s3cret-s3cret-s3cret-s3cr',
  }
  const program = ['dist/bin/authproxy.js', '--dump-config']
  const { code, stdout } = await attempt(process.execPath, program, { env })
  const out = stdout.toString()
  t.equal(code, 0)
  t.match(out, '\n  targetURL: "http://127.0.0.1:3000"  # AUTHPROXY_PROXY_TARGET_URL\n')
  t.match(out, '\n    token: "[hidden]"  # AUTHPROXY_PASSTHROUGH_TOKEN\n')
  t.notMatch(out, 's3cret')
})

t.test('--check-config reads the metadata and looks at the places it will write', async t => {
  t.match(await instance(t), { code: 0, out: /app\.yaml: no problems\n$/, err: '' })
  for (const [more, expected] of [
    [() => 'idpMetadataFile: /nonexistent/idp.xml', /idp\.xml cannot be read: ENOENT/],
    [() => 'configPath: /nonexistent/app.json', /\/nonexistent does not exist; make it/],
    [() => 'pages: { logo: /nonexistent/logo.png }', /cannot read pages\.logo: ENOENT/],
    [(at: string) => `idpMetadataFile: ${at}/app.yaml`, /app\.yaml/],
  ] as const) {
    const { code, out, err } = await instance(t, more)
    t.equal(code, 78)
    t.equal(out, '')
    t.match(err, expected)
    t.notMatch(err, /(ENOENT.*){2}/, 'the reason is told once')
  }
})

t.test(
  'two instances on one host name are told apart by no browser, so neither passes',
  async t => {
    const other = (domain: string) => (directory: string) => {
      writeFileSync(
        join(directory, 'shop.yaml'),
        `domain: ${domain}
idpMetadataFile: ${directory}/idp.xml
configPath: ${directory}/shop.json
proxy: { listenAddress: "127.0.0.1:8081", targetURL: "http://127.0.0.1:3001" }
`,
      )
      return 'domain: app.example.org:8443'
    }
    for (const same of ['app.example.org:9444', 'APP.example.org', 'app.example.org:8443']) {
      const { code, err } = await instance(t, other(same))
      t.equal(code, 78, same)
      t.match(
        err,
        /shop\.yaml has the same host name, app\.example\.org: .* a host name of its own/,
      )
    }
    t.match(await instance(t, other('shop.example.org:8443')), { code: 0, err: '' })
    t.match(
      await instance(t, other('')),
      { code: 0, err: '' },
      'a file that is wrong is its own matter',
    )
  },
)

t.test('warnings are told and change nothing; problems are counted', async t => {
  t.match(await instance(t, () => 'passthroughPaths: [/api]'), {
    ...{ code: 0, out: /no problems/, err: /^authproxy: warning: .*such as \/api-admin/ },
  })
  t.match(await instance(t, () => 'passthroughPaths: [api, "/"]'), {
    ...{ code: 78, err: /failed to load configuration from .*app\.yaml: 2 problems\n/ },
  })
})

t.test(
  'keys are made once, and from then on rotated; the dates say what has to be done',
  async t => {
    const directory = await ownDirectory(t)
    const lines = [
      'domain: app.example.org',
      'idpMetadataFile: /idp.xml',
      `configPath: ${directory}/app.json`,
      'proxy: { listenAddress: "127.0.0.1:8081", targetURL: "http://127.0.0.1:3000" }',
    ]
    await writeFile(join(directory, 'app.yaml'), lines.join('\n'))
    const at = ['app', '--config-dir', directory]
    t.match(await said('rotate-keys', ...at), { code: 0, out: /^[^\n]*: new keys;[^\n]*\n$/ })
    const day = /\d{4}-\d\d-\d\d/
    const checked = new RegExp(`do so by ${day.source}, when signing switches to the new key`)
    t.match(await said('rotate-keys', ...at), { code: 0, out: checked })
    t.match(await said('rotate-keys', ...at, '--now'), { out: /signs from this moment on/ })
    await writeFile(join(directory, 'app.yaml'), [...lines, 'keys: { shared: true }'].join('\n'))
    const refused = {
      code: 78,
      out: '',
      err: /keys\.shared is on, so this instance rotates no keys/,
    }
    t.match(await said('rotate-keys', ...at), refused)
    await writeFile(join(directory, 'app.yaml'), lines.join('\n'))
    t.match(await said('explain', 'r1', ...at), { code: 1, out: '', err: /has been kept yet/ })
    // An instance in the place of the reference.
    t.match(await said('explain', 'app', '--config-dir', directory), {
      ...{ code: 78, err: /default\.yaml: there is no such file\n.*explain REFERENCE INSTANCE\n/ },
    })
  },
)

t.test('an old key of sessions stays as long as what it has signed', async t => {
  const directory = await ownDirectory(t)
  const path = join(directory, 'app.json')
  const lines = [
    'domain: app.example.org',
    'idpMetadataFile: /idp.xml',
    `configPath: ${path}`,
    'proxy: { listenAddress: "127.0.0.1:8081", targetURL: "http://127.0.0.1:3000" }',
  ]
  for (const [more, days] of [
    ['session: { lifetime: 2d }', 2],
    ['session: { lifetime: 2d }\ntokens: { longest: 20d }', 20],
  ] as const) {
    await placeKeys(path, 'app.example.org')
    await writeFile(join(directory, 'app.yaml'), [...lines, more].join('\n'))
    const before = Date.now()
    t.match(await said('rotate-keys', 'app', '--config-dir', directory), { code: 0 })
    const { session } = JSON.parse(await readFile(path, 'utf8'))
    const stays = session[1].retires - before
    t.ok(stays >= days * 86_400_000 && stays < (days + 1) * 86_400_000, `${days} days`)
  }
})

t.test('a file of keys of a former domain is taken, as the service takes it, and said', async t => {
  const directory = await ownDirectory(t)
  await placeKeys(join(directory, 'other.json'), 'other.example.org')
  const { code, err } = await instance(t, () => `configPath: ${directory}/other.json`)
  t.equal(code, 0)
  t.match(
    err,
    /warning: .*other\.json was made for https:\/\/other\.example\.org.*a configPath of its own/,
  )
})

t.test('without an instance it says how to begin', async t => {
  const directory = await ownDirectory(t)
  const { code, err } = await said('--config-dir', directory)
  t.equal(code, 78)
  t.match(err, /no instance is set up\. To try authproxy on this machine: authproxy demo\./)
  t.notMatch((await said('app', '--config-dir', directory)).err, /authproxy demo/)
})
