import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { authproxy } from '../../../lib/auth/cli/arguments.ts'
import { configCheck } from '../../../lib/auth/config/loading/load-config.ts'
import { authproxyManual } from '../../../lib/auth/config/manual.ts'
import { settings } from '../../../lib/auth/config/settings.ts'
import { failuresFile } from '../../../lib/auth/pages/failure-records.ts'
import { revocationsPath } from '../../../lib/auth/session/revocation.ts'
import { helpText } from '../../../lib/command-line.ts'
import { decodeConfig } from '../../../lib/config/config-file.ts'
import { manualFiles } from '../../../lib/config/manual.ts'
import { manualPages } from '../../../lib/config/settings.ts'
import { packageRoot } from '../../../lib/package.ts'
import { gatewayConfig } from '../../fixtures/gateway/gateway.ts'
import { startPatient } from '../../fixtures/gateway/patient.ts'

t.test('the manuals in the repository are those of the settings', async t => {
  for (const [path, content] of manualFiles(authproxyManual)) {
    t.equal(
      await readFile(join(packageRoot(), path), 'utf8'),
      content,
      `${path}: run npm run manual`,
    )
  }
})

t.test('the example file is a right configuration, with its comments and without', async t => {
  const text = await readFile(join(packageRoot(), 'packaging/authproxy.yaml'), 'utf8')
  const check = (yaml: string) => decodeConfig(yaml, 'authproxy.yaml', configCheck('app'))
  t.match(check(text), { ok: true, warnings: [] })
  const all = text
    .split('\n')
    .filter(line => !line.startsWith('#idpMetadataFile'))
    .map(line => line.replace(/^( *)#(?=[a-z ]+[A-Za-z]*:| {2}- | {4})/, '$1'))
    .join('\n')
    .replace('/INSTANCE', '/app')
  t.match(check(all), { ok: false, problems: [/passthroughTokens.*64 hexadecimal digits/] })
  t.match(check(withDigest(all)), { ok: true }, 'only the digest has to be filled in')
})

/** The example with a digest in the place where one has to be filled in. */
function withDigest(yaml: string): string {
  return yaml.replace('THE-64-DIGITS-OF-SHA256SUM', 'ab'.repeat(32))
}

t.test('examples in the manual are right', t => {
  const least = {
    domain: 'app.example.org',
    idpMetadataURL: 'https://idp.example.org/metadata',
    proxy: { listenAddress: '127.0.0.1:8080', targetURL: 'http://127.0.0.1:3000' },
  }
  for (const page of manualPages(settings)) {
    if (!('setting' in page) || page.setting.example === undefined) continue
    const example = parse(withDigest(page.setting.example))
    const proxy = { ...least.proxy, ...example.proxy }
    t.match(configCheck('app')({ ...least, ...example, proxy }), { ok: true }, page.path.join('.'))
  }
  t.end()
})

t.test('authproxy(8) knows every command and option', async t => {
  const manual = (await readFile(join(packageRoot(), 'man/authproxy.8'), 'utf8')).replaceAll(
    '\\-',
    '-',
  )
  const help = helpText(authproxy)
  const words = [...help.matchAll(/^ {2}([a-z][a-z-]+) /gm), ...help.matchAll(/(--[a-z-]+)/g)]
  t.ok(words.length > 10)
  for (const [, word = ''] of words) t.ok(manual.includes(word), word)
})

t.test(
  'authproxy(8) says how values are encoded unless told, and names the files beside the keys',
  async t => {
    const manual = await readFile(join(packageRoot(), 'man/authproxy.8'), 'utf8')
    const { identityFields, saml, configPath } = gatewayConfig({
      domain: 'app.example.org',
      idpMetadataFile: '/idp.xml',
      proxy: { listenAddress: '127.0.0.1:8080', targetURL: 'http://127.0.0.1:3000' },
    })
    const said = { utf8: 'UTF-8', percent: 'percent-encoded' }[identityFields.encoding]
    t.match(manual, new RegExp(`^Values are ${said}[,;. ]`, 'm'))
    const { metadataCacheFile, usedIdsPath } = saml
    const marks = [revocationsPath(configPath), usedIdsPath].map(path => `${path}.PROCESS`)
    for (const file of [failuresFile(configPath), metadataCacheFile, ...marks]) {
      const ending = file.slice(configPath.length).replace(/[0-9a-f]{16}/, 'DIGEST')
      t.ok(manual.includes(`( ${ending} `), ending)
    }
  },
)

t.test('the sample in authproxy(8) has the checks there are', async t => {
  const manual = await readFile(join(packageRoot(), 'man/authproxy.8'), 'utf8')
  const sample = /^\$ sudo.*?^\.fi$/ms.exec(manual)?.[0].replaceAll('\\-', '-') ?? ''
  const patient = await startPatient(t)
  const found = await patient.examined({ groups: 150 })
  t.same(
    [...sample.matchAll(/^(?:ok {3}|doubt|WRONG) {2}([^:]+):/gm)].map(([, what]) => what),
    found.map(({ what }) => what),
  )
})
