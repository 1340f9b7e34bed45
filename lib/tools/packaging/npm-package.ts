/**
 * Builds the npm package of one program: its modules, its manuals, templates and examples, and the dependencies it imports.
 * `npm-shrinkwrap.json` fixes all dependencies at the versions of package-lock.json.
 *
 * `tar` writes the file and this module compresses it, so that its bytes depend on the content and the version of Node.js alone.
 */
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { type LockedPackages, lockedPackages } from './locked-packages.ts'
import type { PackageBuild } from './package-build.ts'
import type { Product } from './products.ts'
import { type ProgramFile, packagesAmong } from './program-files.ts'
import { settle } from './settled-tree.ts'

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
  writeFileSync(file, gzipSync(archive, { level: 9 }), { mode: 0o644 })
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
  const { root } = build
  const { name } = product
  const put = (to: string, content: string | Buffer, mode = 0o644) => {
    const path = join(place, to)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, content, { mode })
  }
  const copy = (path: string) => cpSync(join(root, path), join(place, path), { recursive: true })

  const { direct, all } = dependenciesOf(root, build.files)
  const written = manifestOf(root)
  const manifest = {
    name,
    version: build.version,
    description: product.summary,
    ...Object.fromEntries(repeated.map(field => [field, written[field]])),
    bin: { [name]: `bin/${name}` },
    man: [`man/${name}.8`, `man/${name}.yaml.5`],
    dependencies: direct,
  }
  put('package.json', json(manifest))
  const own = { name, version: build.version, license: written['license'], dependencies: direct }
  const packages = Object.fromEntries([['', own], ...all])
  put(
    'npm-shrinkwrap.json',
    json({ name, version: build.version, lockfileVersion: 3, requires: true, packages }),
  )

  for (const { path, from } of build.files) {
    if (path.startsWith('dist/')) put(path, readFileSync(from))
  }
  put(`bin/${name}`, readFileSync(join(root, 'bin', name)), 0o755)
  const packaging = [...product.files.values(), `packaging/${name}.sysusers`]
  const completions = ['bash', 'zsh'].map(shell => `packaging/completions/${name}.${shell}`)
  const texts = [
    'README.md',
    'CHANGELOG.md',
    'LICENSE',
    ...product.documents.map(path => `docs/${path}`),
  ]
  const templates = product.templates.map(directory => `templates/${directory}`)
  const others = [
    'bin/launch.sh',
    ...manifest.man,
    ...packaging,
    ...completions,
    ...texts,
    ...templates,
  ]
  for (const path of others) copy(path)
}

function manifestOf(root: string): Manifest {
  return JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
}

function json(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`
}
