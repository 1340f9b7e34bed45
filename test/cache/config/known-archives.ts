/**
 * The file of `overrides.mirrors`: which hosts have one archive together.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { builtInArchives, checkKnownArchives } from '../../../lib/cache/config/known-archives.ts'
import { loadConfig } from '../../../lib/cache/config/loading/load-config.ts'
import { route, routeRules } from '../../../lib/cache/policy/routing.ts'
import { decodeConfig } from '../../../lib/config/config-file.ts'
import { formatUri, parseUri } from '../../../lib/http/message/target.ts'
import { packageRoot } from '../../../lib/package.ts'
import { user } from '../../fixtures/cache/cache-config.ts'

/** What is loaded of a configuration with this file of mirrors. */
async function loadWith(t: Test, mirrors: string, settings = '') {
  const directory = t.testdir({ 'mirrors.yaml': mirrors })
  const path = join(directory, 'cachesvc.yaml')
  writeFileSync(path, `overrides:\n  mirrors: ${directory}/mirrors.yaml\n${settings}`)
  const again = () => loadConfig(path, {}, user)
  return { directory, again, loaded: await again() }
}

/** Where requests go, and by which rule. */
function routed(loaded: Awaited<ReturnType<typeof loadConfig>>, asked: string): string {
  if (!loaded.ok) throw new Error(loaded.problems.join('\n'))
  const uri = parseUri(`http://${asked}`)
  if ('problem' in uri) throw new Error(uri.problem)
  const { target, rule } = route(uri, routeRules(loaded.value))
  return `${formatUri(target).replace('http://', '')} ${rule?.name ?? '-'}`
}

const own = `
archives:
  - name: debian
    places: [.debian.org/debian, ftp.example.edu/pub/linux/debian]
    path: /debian
  - name: vendor
    places: [mirror.example.org/pub/vendor, .example.net/vendor, whole.example.com, ftp.example.com:8080/v]
    except: [old]
    to: mirror.example.org/pub/vendor
  - name: addons
    places: [addons.example.net]
    to: mirror.example.org/addons
    with: vendor
`

t.test('the file of the package is what is built in', t => {
  const text = readFileSync(join(packageRoot(), 'packaging/mirrors.yaml'), 'utf8')
  const read = decodeConfig(text, 'mirrors.yaml', checkKnownArchives)
  t.ok(read.ok)
  t.strictSame(read.ok && read.value, builtInArchives())
  t.end()
})

t.test('requests for every place of an archive go to one host', async t => {
  const { loaded } = await loadWith(t, own, '  debian_server: near.example.org/m\n')
  for (const [asked, expected] of [
    ['ftp.de.debian.org/debian/x', 'near.example.org/m/debian/x overrides.debian_server'],
    ['ftp.example.edu/pub/linux/debian/x', 'near.example.org/m/debian/x overrides.debian_server'],
    ['ftp.example.edu/pub/x', 'ftp.example.edu/pub/x -'],
    ['ftp.example.edu/pub/linux/debian', 'ftp.example.edu/pub/linux/debian -'],
    ['ftp.example.edu:81/pub/linux/debian/x', 'ftp.example.edu:81/pub/linux/debian/x -'],
    ['a.example.net/vendor/x', 'mirror.example.org/pub/vendor/x overrides.mirrors (vendor)'],
    ['example.net/vendor/x', 'mirror.example.org/pub/vendor/x overrides.mirrors (vendor)'],
    ['old.example.net/vendor/x', 'old.example.net/vendor/x -'],
    ['whole.example.com/y/x', 'mirror.example.org/pub/vendor/y/x overrides.mirrors (vendor)'],
    ['ftp.example.com:8080/v/x', 'mirror.example.org/pub/vendor/x overrides.mirrors (vendor)'],
    ['ftp.example.com/v/x', 'ftp.example.com/v/x -'],
    [
      'mirror.example.org/pub/vendor/x',
      'mirror.example.org/pub/vendor/x overrides.mirrors (vendor)',
    ],
    ['addons.example.net/x', 'mirror.example.org/addons/x overrides.mirrors (vendor)'],
    ['archive.ubuntu.com/ubuntu/x', 'archive.ubuntu.com/ubuntu/x -'],
  ] as const) {
    t.equal(routed(loaded, asked), expected, asked)
  }
  const rules = loaded.ok ? routeRules(loaded.value).map(({ from }) => from) : []
  t.equal(rules[1], 'mirror.example.org/pub/vendor/ and 3 more')
})

t.test('a reload reads it again, and a wrong file names its line', async t => {
  const { directory, again, loaded } = await loadWith(t, own)
  t.ok(loaded.ok)
  const path = join(directory, 'mirrors.yaml')
  writeFileSync(path, own.replaceAll('vendor', 'seller'))
  t.match(routed(await again(), 'a.example.net/seller/x'), 'mirror.example.org/pub/seller/x')
  for (const [text, expected] of [
    ['archives:\n  - name: a\n', /mirrors\.yaml:2:\d+: archives\[0\]\.places not set/],
    ['archives: 5', /mirrors\.yaml:1:\d+: archives: found 5/],
    [own.replace('except: [old]', 'excpt: []'), /:8:5: .*excpt: .*did you mean except/],
    [own.replace('.debian.org/debian', '/debian'), /:4:\d+: .*places\[0\]: the host is missing/],
    [own.replace('.debian.org/debian, ', '"a b", '), /:4:\d+: .*places\[0\]: found "a b"/],
    [own.replace('path: /debian', 'path: a/debian'), /:5:\d+: .*path: names a host/],
    [own.replace('name: vendor', 'name: debian'), /:6:\d+: .*name: is listed twice/],
    [own.replace('to: mirror', '# '), /:6:\d+: .*name: is fetched from nowhere; name a host/],
    [own.replace('with: vendor', 'with: other'), /:13:\d+: .*with: is not the name of another/],
    [own.replace('with: vendor', 'with: addons'), /:13:\d+: .*with: is not the name of another/],
    ['archives:\n  - name: a\n    places: []\n    to: b\n', /:3:\d+: .*places: has no place/],
    ['archives: [', /mirrors\.yaml:\d+:\d+: /],
  ] as const) {
    writeFileSync(path, text)
    const wrong = await again()
    t.notOk(wrong.ok, text)
    const problems = wrong.ok ? '' : wrong.problems.join('\n')
    t.match(problems, expected)
    t.match(problems, /cachesvc\.yaml:2:12: overrides\.mirrors: /)
  }
  writeFileSync(path, 'archives: []')
  writeFileSync(join(directory, 'cachesvc.yaml'), 'overrides: { mirrors: /none/mirrors.yaml }')
  const absent = await again()
  t.match(absent.ok ? [] : absent.problems, [/mirrors\.yaml: there is no such file/])
})

t.test('a setting for an archive that the file lacks is told', async t => {
  const { loaded } = await loadWith(t, 'archives: []', '  ubuntu_server: near.example.org\n')
  t.ok(loaded.ok)
  t.match(loaded.warnings, [/overrides\.ubuntu_server: has no effect: .* no archive ubuntu/])
})

t.test('the built-in table is right, and a wrong one is not passed over', async t => {
  t.strictSame(
    builtInArchives().map(({ name }) => name),
    ['ubuntu', 'debian', 'debian-security'],
  )
  const wrong = { archives: [{ name: 'debian', places: [] }] }
  t.throws(() => builtInArchives(wrong), /built-in archives are wrong: .*has no place/)
})
