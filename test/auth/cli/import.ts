/**
 * `authproxy import`: a configuration out of the variables of saml-auth-proxy.
 */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { importedConfig, variablesIn } from '../../../lib/auth/cli/import.ts'
import { configCheck } from '../../../lib/auth/config/loading/load-config.ts'
import { decodeConfig } from '../../../lib/config/config-file.ts'
import { packageRoot } from '../../../lib/package.ts'
import { attempt } from '../../fixtures/process/command.ts'
import { cpuTimeOf } from '../../fixtures/time/cpu-time.ts'

const least = [
  'SAML_PROXY_BASE_URL=https://app.example.org/',
  'SAML_PROXY_BACKEND_URL=http://127.0.0.1:3000/',
  'SAML_PROXY_IDP_METADATA_URL=https://idp.example.org/metadata',
]

function imported(...lines: readonly string[]) {
  const { lines: written, isComplete } = importedConfig(variablesIn(lines.join('\n')))
  const text = written.join('\n')
  return { text, isComplete, found: parse(text) }
}

t.test(
  'the variables that have a setting are translated, and the file is one authproxy takes',
  t => {
    const { text, isComplete, found } = imported(
      ...least,
      'SAML_PROXY_ATTRIBUTE_HEADER_MAPPINGS=mail=X-WEBAUTH-USER,urn:oid:0.9.2342.19200300.100.1.1=X-Uid,costCentre=X-Cost,urn:x=X-Y',
      'SAML_PROXY_AUTHORIZE_ATTRIBUTE=memberOf',
      'SAML_PROXY_AUTHORIZE_VALUES=ops, admins',
      'SAML_PROXY_COOKIE_MAX_AGE=1h30m',
      'SAML_PROXY_ALLOW_IDP_INITIATED=true',
      'SAML_PROXY_SIGN_REQUESTS=true',
      'SAML_PROXY_NAME_ID_FORMAT=email',
      'SAML_PROXY_NAME_ID_MAPPING=X-User',
      'SAML_PROXY_DEBUG=1',
    )
    t.same(found, {
      domain: 'app.example.org',
      idpMetadataURL: 'https://idp.example.org/metadata',
      samlRequestSigning: 'always',
      access: [{ path: '/', allow: [{ groups: ['ops', 'admins'] }] }],
      proxy: { listenAddress: '8080', targetURL: 'http://127.0.0.1:3000' },
      saml: {
        nameIDFormat: 'urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress',
        idpInitiated: true,
      },
      session: { lifetime: '5400s' },
      identity: {
        names: [
          'authproxy',
          { field: 'X-WEBAUTH-USER', from: ['email'] },
          { field: 'X-Uid', from: ['uid'] },
          { field: 'X-Cost', from: ['costCentre'] },
          { field: 'X-Y', from: ['attribute2'] },
          { field: 'X-User', from: ['user'] },
        ],
        attributes: [
          { name: 'costCentre', from: ['costCentre'] },
          { name: 'attribute2', from: ['urn:x'] },
        ],
      },
      log: { level: 'debug' },
    })
    t.ok(isComplete)
    t.match(decodeConfig(text, 'app.yaml', configCheck('app')), { ok: true })
    t.end()
  },
)

t.test('every way in which the variables are written is read', t => {
  for (const lines of [
    least,
    least.map(line => `export ${line.replace('=', '="')}"`),
    least.map(line => `      - ${line}\r`),
    least.map(line => `      - "${line}"`),
    least.map(line => `      ${line.replace('=', ': ')}`),
    least.map(line => `- name: ${line.replace('=', '\n  value: "')}"`),
  ]) {
    const { found, isComplete } = imported('# SAML_PROXY_DEBUG=1', ...lines)
    t.match(found, { domain: 'app.example.org', proxy: { targetURL: 'http://127.0.0.1:3000' } })
    t.notOk(found.log)
    t.ok(isComplete, String(lines[0]))
  }
  t.end()
})

t.test('what lets fewer people in is never lost in silence', t => {
  const asked = 'SAML_PROXY_AUTHORIZE_ATTRIBUTE=groups'
  t.same(imported(...least, asked).found.access, [{ path: '/', allow: 'nobody' }])
  for (const line of [
    'SAML_PROXY_AUTHORIZE_ATTRIBUTE:\n  groups',
    'SAML_PROXY_AUTHORIZE_ATTRIBUTE:',
    'SAML_PROXY_AUTHORIZE_ATTRIBUTE=\\\ngroups',
    '- name: SAML_PROXY_AUTHORIZE_ATTRIBUTE\n  value:\n    groups',
    '- name: SAML_PROXY_AUTHORIZE_ATTRIBUTE\n  valueFrom: { secretKeyRef: { name: x, key: y } }',
    'docker run -e SAML_PROXY_AUTHORIZE_ATTRIBUTE=groups image',
  ]) {
    const { text, isComplete, found } = imported(...least, line)
    t.notOk(isComplete)
    t.same(found.access, [{ path: '/', allow: 'nobody' }], line)
    t.match(text, '# SAML_PROXY_AUTHORIZE_ATTRIBUTE: to fix: write it as NAME=VALUE')
  }
  for (const value of ['$X', '`x`', 'groups # all', '"groups" # all', '>-', '*all', '"groups",']) {
    const line = `SAML_PROXY_AUTHORIZE_ATTRIBUTE=${value}`
    const { found, isComplete } = imported(...least, line, 'SAML_PROXY_AUTHORIZE_VALUES=ops')
    t.same([isComplete, found.access], [false, [{ path: '/', allow: 'nobody' }]], value)
  }
  const open = imported(...least, 'SAML_PROXY_AUTHORIZE_ATTRIBUTE=')
  t.same([open.isComplete, open.found.access], [true, undefined], 'as without the variable')
  const any = imported(...least, asked, 'SAML_PROXY_AUTHORIZE_VALUES=ops,o*,x*')
  t.same([any.isComplete, any.found.access], [false, [{ path: '/', allow: [{ groups: ['ops'] }] }]])
  const users = imported(
    ...least,
    ...['SAML_PROXY_AUTHORIZE_ATTRIBUTE=users', 'SAML_PROXY_AUTHORIZE_VALUES=root'],
  )
  t.same(users.found.access, [{ path: '/', allow: [{ attribute1: ['root'] }] }], 'no subject')
  const odd = imported(...least, 'SAML_PROXY_NAME_ID_FORMAT=constructor')
  t.equal(odd.found.saml.nameIDFormat, 'constructor')
  const visitors = imported(...least, 'SAML_PROXY_INITIATE_SESSION_PATH=/login')
  t.notOk(visitors.found.access, 'no path is opened to visitors')
  t.match(visitors.text, /# SAML_PROXY_INITIATE_SESSION_PATH: visitors would pass/)
  t.end()
})

t.test('what has no setting is named with what to do, and without its value', t => {
  const { text, isComplete } = imported(
    ...least,
    'SAML_PROXY_COOKIE_NAME=token',
    'SAML_PROXY_ENTITY_ID=urn:secret',
    'SAML_PROXY_COOKIE_DOMAIN=example.org',
    'SAML_PROXY_SP_KEY_PATH=/key',
    'SAML_PROXY_NEW_AUTH_WEBHOOK_URL=https://ada:secret@hooks.example.org/',
    'SAML_PROXY_AUTH_VERIFY=true',
    'SAML_PROXY_FROBNICATE=secret',
  )
  t.ok(isComplete)
  for (const named of [
    'COOKIE_NAME: nothing to set',
    'ENTITY_ID: there is no setting; give the identity provider',
    'COOKIE_DOMAIN: nothing to set: each host has an instance of its own',
    'SP_KEY_PATH: nothing to set: authproxy makes a key of its own',
    'NEW_AUTH_WEBHOOK_URL: there is no webhook',
    'AUTH_VERIFY: the reverse proxy asks forwardAuth.listenAddress',
    'FROBNICATE: is not known here',
  ]) {
    t.match(text, `# SAML_PROXY_${named}`)
  }
  t.notMatch(text, 'secret')
  t.end()
})

t.test('the command writes it, and ends with 1 while something is missing', async t => {
  const file = join(t.testdir(), 'env')
  const run = async (...args: readonly string[]) => {
    const { code, stdout, stderr } = await attempt(join(packageRoot(), 'bin/authproxy'), [
      'import',
      ...args,
    ])
    return { code, stdout: stdout.toString(), stderr: stderr.toString() }
  }
  await writeFile(file, least.join('\n'))
  t.match(await run(file), { code: 0, stdout: /^domain: "app\.example\.org"$/m })
  await writeFile(file, least.slice(1).join('\n'))
  t.match(await run(file), { code: 1, stdout: /^# to fix: domain: name the public host/m })
  await writeFile(file, least.slice(0, 2).join('\n'))
  t.match(await run(file), { code: 1, stdout: /^# to fix: no IdP metadata source set/m })
  t.match(await run(), { code: 2, stderr: /name the file/ })
  t.match(await run('/nowhere/env'), { code: 2, stderr: /there is no such file/ })
})

t.test('a file that is made to take long takes no longer than others', async t => {
  for (const text of [
    '\n',
    ' \n',
    '"',
    'name: SAML_PROXY_A\n\n\n',
    'SAML_PROXY_A=a ',
    'SAML_PROXY_',
  ]) {
    const time = await cpuTimeOf(() =>
      variablesIn(`SAML_PROXY_A=a${text.repeat(300_000 / text.length)}x`),
    )
    t.ok(time < 3000, `${JSON.stringify(text)}: ${time} ms`)
  }
})
