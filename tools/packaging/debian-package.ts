/**
 * Builds the Debian packages of cachesvc and authproxy: the paths of their files, and the control files for dpkg. `dpkg-deb`
 * packs them.
 */

import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs'
import { join } from 'node:path'
import { jsonText } from '../../lib/json.ts'
import type { CarriedNode } from './carried-node.ts'
import { type PackageBuild, packedContent, put, settle } from './package-tree.ts'
import type { Product } from './products.ts'
import { packagesAmong } from './program-files.ts'

interface DebianBuild extends PackageBuild {
  /** The Node.js in the package, which then needs none of the system. */
  readonly node?: CarriedNode | undefined
}

/** The fields of package.json that a package repeats, with the version of the build. */
type Manifest = Readonly<Record<'version' | 'homepage' | 'author', string>>

/** Debian's name of a version. One with Node.js is higher than the same without, so that apt takes it where both are offered. */
export function debianVersion(version: string, node?: CarriedNode): string {
  return `${version.replace('-', '~')}-1${node === undefined ? '' : `+node${node.version}`}`
}

/** Builds the package and returns the path of its file. Throws when `dpkg-deb` is missing or fails. */
export function buildDebianPackage(product: Product, build: DebianBuild): string {
  const written: Manifest = JSON.parse(readFileSync(join(build.root, 'package.json'), 'utf8'))
  const manifest = { ...written, version: build.version }
  const version = debianVersion(build.version, build.node)
  const architecture = build.node?.architecture ?? 'all'
  const tree = join(build.output, product.name)
  rmSync(tree, { recursive: true, force: true })
  stage({ ...product, version, architecture, manifest, build, tree })
  settle(tree, build.at)
  const file = join(build.output, `${product.name}_${version}_${architecture}.deb`)
  // A name that `*.deb` does not match, until the file is whole.
  const unfinished = `${file}.unfinished`
  const packing = build.node === undefined ? slimPacking : nodePacking
  const options = ['--root-owner-group', `-Z${packing.by}`]
  execFileSync('dpkg-deb', [...options, '--build', tree, unfinished], {
    env: {
      DPKG_DEB_COMPRESSOR_LEVEL: packing.level,
      ...process.env,
      SOURCE_DATE_EPOCH: `${build.at}`,
    },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  renameSync(unfinished, file)
  rmSync(tree, { recursive: true })
  return file
}

const slimPacking = { by: 'xz', level: '6' }

/**
 * Node.js is 120 MB. xz takes some two minutes of processor time for each package, and zstd at this level five seconds for a sixth more
 * bytes. dpkg reads zstd in Debian from 12 on, and in Ubuntu from 18.04 on.
 */
const nodePacking = { by: 'zstd', level: '9' }

interface Staged extends Product {
  readonly version: string
  readonly architecture: string
  readonly manifest: Manifest
  readonly build: DebianBuild
  readonly tree: string
}

function stage(staged: Staged): void {
  const { name, tree, build, manifest } = staged
  const read = (from: string) => readFileSync(join(build.root, from))
  const write = (to: string, content: string | Buffer, mode?: number) =>
    put(join(tree, to), content, mode)
  const copy = (from: string, to: string, mode?: number) => write(to, read(from), mode)

  const home = `usr/lib/${name}`
  const { files } = build
  for (const { path, from } of files) write(`${home}/${path}`, readFileSync(from))
  write(`${home}/package.json`, jsonText(manifest))
  copy(`bin/${name}`, `${home}/bin/${name}`, 0o755)
  copy('bin/launch.sh', `${home}/bin/launch.sh`)
  if (build.node !== undefined) {
    write(`${home}/bin/node`, readFileSync(build.node.program), 0o755)
    write(`usr/share/doc/${name}/node.LICENSE`, readFileSync(build.node.licence))
    write(`usr/share/lintian/overrides/${name}`, nodeTags.map(tag => `${name}: ${tag}\n`).join(''))
  }
  for (const directory of staged.templates) {
    const from = `templates/${directory}`
    cpSync(join(build.root, from), join(tree, home, from), { recursive: true })
  }
  mkdirSync(join(tree, 'usr/bin'), { recursive: true })
  symlinkSync(`../lib/${name}/bin/${name}`, join(tree, 'usr/bin', name))

  for (const directory of staged.directories ?? []) {
    mkdirSync(join(tree, directory), { recursive: true })
  }
  for (const page of [`${name}.8`, `${name}.yaml.5`]) {
    write(`usr/share/man/man${page.at(-1)}/${page}.gz`, packedContent(read(`man/${page}`)))
  }
  const completions = `packaging/completions/${name}`
  copy(`${completions}.bash`, `usr/share/bash-completion/completions/${name}`)
  copy(`${completions}.zsh`, `usr/share/zsh/vendor-completions/_${name}`)
  copy(`packaging/${name}.sysusers`, `usr/lib/sysusers.d/${name}.conf`)
  for (const [to, from] of staged.files)
    copy(from, to, statSync(join(build.root, from)).mode & 0o777)
  const documents = `usr/share/doc/${name}`
  write(`${documents}/copyright`, copyright(staged, packagesAmong(files)))
  for (const file of staged.documents) copy(`docs/${file}`, `${documents}/${file}`)
  write(`${documents}/changelog.gz`, packedContent(read('CHANGELOG.md')))
  write(`${documents}/changelog.Debian.gz`, packedContent(Buffer.from(changelog(staged))))

  const content = filesBelow(tree)
  for (const script of ['postinst', 'prerm', 'postrm']) {
    copy(`packaging/deb/${name}.${script}`, `DEBIAN/${script}`, 0o755)
  }
  write('DEBIAN/control', control(staged, content))
  write('DEBIAN/md5sums', digests(tree, content))
  const settings = content.filter(path => path.startsWith('etc/'))
  if (settings.length > 0) write('DEBIAN/conffiles', settings.map(path => `/${path}\n`).join(''))
}

/** The tags of lintian for the program of Node.js, which is packed as its authors built it. */
const nodeTags = ['unstripped-binary-or-object', 'embedded-library']

function filesBelow(tree: string, below = ''): string[] {
  return readdirSync(join(tree, below), { withFileTypes: true })
    .flatMap(entry => {
      const path = join(below, entry.name)
      if (entry.isDirectory()) return filesBelow(tree, path)
      return entry.isFile() ? [path] : []
    })
    .sort()
}

function control(staged: Staged, content: readonly string[]): string {
  const { name, version, architecture, manifest, tree, summary, suggests, build } = staged
  const size = content.reduce((sum, path) => sum + statSync(join(tree, path)).size, 0)
  const needed =
    build.node === undefined ? 'nodejs (>= 20.18)' : 'libc6 (>= 2.28), libstdc++6 (>= 8)'
  const description = [...staged.description, ...carrying(build.node)]
  const paragraphs = description.map(text => wrapped(text).join('\n')).join('\n .\n')
  const fields = [
    ['Package', name],
    ['Version', version],
    ['Architecture', architecture],
    ['Maintainer', manifest.author],
    ['Installed-Size', `${Math.ceil(size / 1024)}`],
    ['Depends', `${needed}, systemd | systemd-standalone-sysusers`],
    ['Recommends', 'ca-certificates'],
    ...(suggests === undefined ? [] : [['Suggests', suggests]]),
    ['Section', 'net'],
    ['Priority', 'optional'],
    ['Homepage', manifest.homepage],
    ['Description', `${summary}\n${paragraphs}`],
  ]
  return fields.map(([field, value]) => `${field}: ${value}\n`).join('')
}

function carrying(node: CarriedNode | undefined): string[] {
  if (node === undefined) return []
  return [
    `This package has Node.js ${node.version} inside, for its own use, and needs none of the system.`,
  ]
}

/** Lines of at most 78 columns, each with the space a continued field begins with. */
function wrapped(text: string): string[] {
  return (text.match(/\S.{0,75}(?=\s|$)/g) ?? []).map(line => ` ${line}`)
}

function digests(tree: string, content: readonly string[]): string {
  const lines = content
    .filter(path => !path.startsWith('etc/'))
    .map(path => {
      const hash = createHash('md5').update(readFileSync(join(tree, path)))
      return `${hash.digest('hex')}  ${path}\n`
    })
  return lines.join('')
}

function changelog({ name, version, manifest, build }: Staged): string {
  const time = new Date(build.at * 1000).toUTCString().replace('GMT', '+0000')
  const change = `  * Version ${manifest.version}. See changelog.gz for what changed.`
  return `${name} (${version}) stable; urgency=medium\n\n${change}\n\n -- ${manifest.author}  ${time}\n`
}

/** Our licence, and that of every dependency in the package. */
function copyright({ name, build, manifest }: Staged, packages: readonly string[]): string {
  const own = readFileSync(join(build.root, 'LICENSE'), 'utf8')
  const others = packages.map(path => {
    const directory = join(build.root, path)
    const manifest = JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8'))
    const { license = 'see its home page' } = manifest
    const file = readdirSync(directory)
      .sort()
      .find(entry => /^(licen[cs]e|copying)/i.test(entry))
    const text = file === undefined ? '' : readFileSync(join(directory, file), 'utf8')
    const said = /Apache License/.test(text) ? withoutApache(text) : text
    return `${'-'.repeat(72)}\n${manifest.name} ${manifest.version}, licence: ${license}\n\n${said}`
  })
  const node =
    build.node === undefined
      ? []
      : [`Node.js ${build.node.version}: /usr/share/doc/${name}/node.LICENSE\n`]
  return [`Source: ${manifest.homepage}\n\n${own}`, 'It contains:\n', ...node, ...others].join('\n')
}

/** The text without the Apache licence, which Debian has once for all packages. */
function withoutApache(text: string): string {
  const owners = text.match(/^.*Copyright (\(c\) )?[0-9A-Z].*$/gm) ?? []
  return [...owners, 'The licence is in /usr/share/common-licenses/Apache-2.0.', ''].join('\n')
}
