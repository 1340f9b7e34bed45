/**
 * Builds everything that a release consists of: `npm run release [-- [--untagged] [--with-node=MACHINES] DIRECTORY]`, in packages/release
 * without a directory, which it empties first.
 *
 *     cachesvc_…_all.deb, …_amd64.deb, …_arm64.deb     of both programs
 *     cachesvc-….tgz                                   the npm package
 *     cachesvc-…-linux-amd64.tar.xz, …-arm64.tar.xz    to unpack and run, with Node.js inside
 *     cachesvc-….cdx.json                              the parts it is made of (CycloneDX)
 *     SHA256SUMS                                       the digests of all of these, which the releaser signs
 *
 * The commit has to have the tag of the version and no file may be changed, and package.json has to name places that exist; `--untagged`
 * is for trying it. CONTRIBUTING.md has the steps.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { Failure } from '../lib/errors.ts'
import { packageRoot, packageVersion } from '../lib/package.ts'
import { exitCodes, print, run } from '../lib/program.ts'
import { buildVersion, isChanged, tagsOfCommit } from './packaging/build-version.ts'
import { nodePin } from './packaging/carried-node.ts'
import { dependenciesOf } from './packaging/npm-package.ts'
import { placeholdersOf } from './packaging/placeholders.ts'
import { type Product, products } from './packaging/products.ts'
import { programFiles } from './packaging/program-files.ts'
import { sbom } from './packaging/sbom.ts'

await run('release', async () => {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      untagged: { type: 'boolean', default: false },
      'with-node': { type: 'string', default: 'amd64,arm64' },
    },
  })
  const root = resolve(packageRoot())
  const output = resolve(positionals[0] ?? 'packages/release')
  const machines = values['with-node']
  if (!values.untagged) assertReleasable(root)
  process.umask(0o022)
  await rm(output, { recursive: true, force: true })
  await mkdir(output, { recursive: true })

  build('package-npm.js', output)
  build('package-deb.js', `--with-node=${machines}`, output)
  build('package-tar.js', `--with-node=${machines}`, output)
  for (const product of products) {
    const { version } = buildVersion(packageVersion(), root)
    const file = join(output, `${product.name}-${version}.cdx.json`)
    await writeFile(file, partsOf(product, root, machines !== ''))
  }
  const names = (await readdir(output)).sort()
  const lines = names.map(async name => `${await sha256(join(output, name))}  ${name}\n`)
  await writeFile(join(output, 'SHA256SUMS'), (await Promise.all(lines)).join(''))
  await print(`${output}: ${names.length} files, and SHA256SUMS. Compare it with a second build, then sign it:
  gpg --armor --detach-sign ${join(output, 'SHA256SUMS')}\n`)
  return exitCodes.success
})

/** Throws when what is checked out is not the tagged commit of the version, or when package.json has placeholders. */
function assertReleasable(root: string): void {
  const tag = `v${packageVersion()}`
  const problems = [
    ...(tagsOfCommit(root).includes(tag)
      ? []
      : [`the commit that is checked out has no tag ${tag}`]),
    ...(isChanged(root) ? [`files differ from the commit ${tag}`] : []),
    ...placeholdersOf(JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))).map(
      ({ field, value }) => `set ${field} in package.json to a place that exists, not ${value}`,
    ),
  ]
  if (problems.length === 0) return
  const hint = 'CONTRIBUTING.md has the steps; --untagged builds all the same, to try it'
  throw new Failure(`${problems.join('\n')}\n${hint}`, { code: 'release' })
}

/** Runs one of the programs beside this one. Throws when it fails. */
function build(program: string, ...words: readonly string[]): void {
  const path = join(import.meta.dirname, program)
  const line = ['--experimental-import-meta-resolve', path, ...words]
  execFileSync(process.execPath, line, { stdio: 'inherit' })
}

function partsOf({ name, summary }: Product, root: string, hasNode: boolean): string {
  const { direct, all } = dependenciesOf(root, programFiles(root, `dist/bin/${name}.js`))
  const node = hasNode ? nodePin(join(root, 'packaging/node.json')) : undefined
  const built = buildVersion(packageVersion(), root)
  const imports = Object.keys(direct)
  return sbom({ name, summary, licence: 'MIT', imports, packages: all, node, ...built })
}

async function sha256(path: string): Promise<string> {
  return createHash('sha256')
    .update(await readFile(path))
    .digest('hex')
}
