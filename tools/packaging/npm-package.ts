/**
 * Builds the npm package of one program: its modules, its manuals, templates and examples, and the dependencies it imports.
 * `npm-shrinkwrap.json` fixes all dependencies at the versions of package-lock.json.
 *
 * `tar` writes the file and this module compresses it, so that its bytes depend on the content and the version of Node.js alone.
 */

import { execFileSync } from 'node:child_process'
import { cpSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { jsonText } from '../../lib/json.ts'
import { type LockedPackages, lockedPackages } from './locked-packages.ts'
import { type PackageBuild, packedContent, put, settle } from './package-tree.ts'
import type { Product } from './products.ts'
import { type ProgramFile, packagesAmong } from './program-files.ts'

/** The fields of package.json that a package repeats. */
const repeated = ['homepage', 'bugs', 'repository', 'author', 'license', 'type', 'engines']

type Manifest = Readonly<Record<string, unknown>> & {
  readonly dependencies: Readonly<Record<string, string>>
}

/** Builds the package and returns the path of its file, `NAME-VERSION.tgz`. Throws when `tar` is missing or fails. */
export function buildNpmPackage(product: Product, build: PackageBuild): string {
  const { name } = product
  const tree = join(build.output, name)
  rmSync(tree, { recursive: true, force: true })
  const place = join(tree, 'package')
  stage(product, build, place)
  settle(tree, build.at)
  const archive = execFileSync(
    'tar',
    [
      ...['--create', '--format=ustar', '--sort=name', '--numeric-owner', '--owner=0', '--group=0'],
      ...[`--mtime=@${build.at}`, `--directory=${tree}`, 'package'],
    ],
    { env: { ...process.env, LC_ALL: 'C' }, maxBuffer: 256 * 1024 * 1024 },
  )
  rmSync(tree, { recursive: true })
  const file = join(build.output, `${name}-${build.version}.tgz`)
  put(file, packedContent(archive))
  return file
}

/** The direct dependencies of a program with their versions, and all packages that these bring. */
export function dependenciesOf(
  root: string,
  files: readonly ProgramFile[],
): { readonly direct: Readonly<Record<string, string>>; readonly all: LockedPackages } {
  const { dependencies } = manifestOf(root)
  const reached = new Set(packagesAmong(files))
  const direct = Object.entries(dependencies).filter(([name]) =>
    reached.has(`node_modules/${name}`),
  )
  const names = direct.map(([name]) => name)
  return { direct: Object.fromEntries(direct), all: lockedPackages(root, names) }
}

function stage(product: Product, build: PackageBuild, place: string): void {
  const { name } = product
  const { direct, all } = dependenciesOf(build.root, build.files)
  stageProgram(product, build, place)
  const { license } = manifestOf(build.root)
  const own = { name, version: build.version, license, dependencies: direct }
  const packages = Object.fromEntries([['', own], ...all])
  put(
    join(place, 'npm-shrinkwrap.json'),
    jsonText({ name, version: build.version, lockfileVersion: 3, requires: true, packages }),
  )
}

/** Writes everything of a program but its dependencies: modules, launcher, manuals, templates, examples and package.json. */
export function stageProgram(product: Product, build: PackageBuild, place: string): void {
  const { root } = build
  const { name } = product
  const written = manifestOf(root)
  const manifest = {
    name,
    version: build.version,
    description: product.summary,
    ...Object.fromEntries(repeated.map(field => [field, written[field]])),
    bin: { [name]: `bin/${name}` },
    man: [`man/${name}.8`, `man/${name}.yaml.5`],
    dependencies: dependenciesOf(root, build.files).direct,
  }
  put(join(place, 'package.json'), jsonText(manifest))
  for (const { path, from } of build.files) {
    if (path.startsWith('dist/')) put(join(place, path), readFileSync(from))
  }
  put(join(place, 'bin', name), readFileSync(join(root, 'bin', name)), 0o755)
  const copied = [
    ...['README.md', 'CHANGELOG.md', 'LICENSE', 'bin/launch.sh', `packaging/${name}.sysusers`],
    ...manifest.man,
    ...['bash', 'zsh'].map(shell => `packaging/completions/${name}.${shell}`),
    ...product.files.values(),
    ...product.documents.map(path => `docs/${path}`),
    ...product.templates.map(directory => `templates/${directory}`),
  ]
  for (const path of copied) cpSync(join(root, path), join(place, path), { recursive: true })
}

function manifestOf(root: string): Manifest {
  return JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
}
