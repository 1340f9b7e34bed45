/**
 * The list of attacks, threats.md beside this file: every number once, every file and test it names; and tests of answers that are
 * shown nowhere else.
 */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { assertionXml, responseXml } from '../../demo/idp/response.ts'
import { packageRoot } from '../../lib/package.ts'
import { signElement } from '../../lib/saml/signature/sign.ts'
import { defences } from '../defences/list.ts'
import { arranged } from '../fixtures/gateway/attacked.ts'
import { domain } from '../fixtures/gateway/gateway.ts'
import { formOf } from '../fixtures/saml/browser.ts'
import { SamlLab } from '../fixtures/saml/lab.ts'

const root = packageRoot()

/** A stolen key of the identity provider, which nothing answers. */
const notProtected = '43'

t.test('the list has every number once, and names files and tests that exist', t => {
  const list = readFileSync(join(root, 'test/auth/threats.md'), 'utf8')
  const rows = [...list.matchAll(/^\| (\d+) \|.*\| (.*?) \| (.*?) \|$/gm)]
  t.same(
    rows.map(([, number]) => Number(number)),
    Array.from({ length: 140 }, (_, i) => i + 1),
  )
  for (const [, number = '', held = '', shown = ''] of rows) {
    if (number === notProtected) continue
    const [files = [], tests = []] = [held, shown].map(cell => cell.match(/[\w./-]+\.ts/g) ?? [])
    t.ok(files.length > 0 && tests.length > 0, `${number} is held and shown`)
    for (const file of files) t.ok(existsSync(join(root, 'lib', file)), `${number}: ${file}`)
    for (const file of tests) t.ok(existsSync(join(root, file)), `${number}: ${file}`)
    const titles = tests.flatMap(file => titlesIn(join(root, file)))
    t.ok(
      titles.some(title => title.split(', ').includes(number)),
      `${number}: a test is named by the number`,
    )
  }
  t.end()
})

t.test('each defence that can be switched off stands where the list says, once', t => {
  for (const { attack, what, file, from } of defences) {
    const text = readFileSync(join(root, 'dist/lib', file), 'utf8')
    t.equal(text.split(from).length, 2, `${attack}, ${what}: ${from}`)
  }
  t.end()
})

/** The numbers before the titles of a file's tests: `'44, 45: no identity …'`. */
function titlesIn(file: string): readonly string[] {
  return [...readFileSync(file, 'utf8').matchAll(/['`](\d+(?:, \d+)*): /g)].map(
    ([, numbers = '']) => numbers,
  )
}

t.test('22: no library is locked in a version that writes hostile XML as other XML', t => {
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'))
  const least: Readonly<Record<string, ReadonlyArray<readonly number[]>>> = {
    '@xmldom/xmldom': [
      [0, 8, 13],
      [0, 9, 10],
    ],
    'xml-crypto': [[6, 0, 1]],
    '@node-saml/node-saml': [[5, 1, 0]],
  }
  let seen = 0
  for (const [path, { version }] of Object.entries<{ version: string }>(packages)) {
    const name = path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)
    const floors = least[name]
    if (floors === undefined) continue
    seen += 1
    const parts = version.split('.').map(Number)
    const line = floors.filter(([major, minor]) => major !== 0 || minor === parts[1])
    t.ok(
      line.some(floor => isAtLeast(parts, floor)),
      `${path} ${version}`,
    )
  }
  t.ok(seen >= 3)
  t.end()
})

function isAtLeast(version: readonly number[], floor: readonly number[]): boolean {
  const [at] = floor.flatMap((part, i) => (part === version[i] ? [] : [i]))
  return at === undefined || (version[at] ?? 0) > (floor[at] ?? 0)
}

t.test('31: an assertion without Conditions is refused', async t => {
  const lab = await SamlLab.open(t, 'entra')
  const asked = await lab.browser.login('/')
  const { response, assertion } = lab.idp.writing({ inResponseTo: asked.id })
  const whole = assertionXml(assertion)
  const bare = whole.replace(/<saml:Conditions.*<\/saml:Conditions>/s, '')
  t.not(bare, whole)
  const signed = (text: string) =>
    responseXml(response, signElement(text, { id: assertion.id, key: lab.idp.key }))
  await lab.browser.deliver(signed(bare))
  t.strictSame(lab.codes, ['audience'])
  await lab.browser.deliver(signed(whole))
  t.equal(lab.subjects.length, 1, 'with them it is taken')
})

t.test(
  '41: markup from a client is text on pages, and pages run no script but their own',
  async t => {
    const lab = await SamlLab.open(t, 'entra')
    const RelayState = '"><script>alert(1)</script>'
    const { content } = await lab.browser.deliverRaw(formOf({ SAMLResponse: 'PGE+', RelayState }))
    const page = content.kind === 'bytes' ? content.bytes.toString() : ''
    t.match(page, 'alert(1)')
    t.notMatch(page, '<script>alert')
    const { send } = await arranged(t)
    const answer = await send('GET / HTTP/1.1\nHost: other.example.org\nAccept: text/html\n\n')
    t.equal(answer.status, 421)
    const policy = 'fields' in answer ? answer.fields.get('Content-Security-Policy') : undefined
    t.match(policy, "default-src 'none'; style-src 'nonce-")
    t.notMatch(policy, 'script-src')
  },
)

t.test('59: a field called __proto__ is a field like any other', async t => {
  const { backend, cookie, send } = await arranged(t)
  const answer = await send(`GET / HTTP/1.1\nHost: ${domain}\nCookie: ${cookie}\n__proto__: x\n\n`)
  t.equal(answer.status, 200)
  t.equal(backend.requests.at(-1)?.fields.get('__proto__'), 'x')
})
