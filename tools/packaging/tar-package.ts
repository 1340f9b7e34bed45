/**
 * Builds the archive of a program to unpack and run: `NAME-VERSION-linux-ARCHITECTURE.tar.xz` with one directory, in which `bin/NAME`
 * starts it. `tar` and `xz` write the file.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { CarriedNode } from './carried-node.ts'
import { stageProgram } from './npm-package.ts'
import { type PackageBuild, put, settle } from './package-tree.ts'
import type { Product } from './products.ts'

interface TarBuild extends PackageBuild {
  readonly node: CarriedNode
}

/** Builds the archive and returns the path of its file. Throws when `tar` or `xz` is missing or fails. */
export function buildTarPackage(product: Product, build: TarBuild): string {
  const { node, output, at } = build
  const name = `${product.name}-${build.version}-linux-${node.architecture}`
  const tree = join(output, `${name}.tree`)
  rmSync(tree, { recursive: true, force: true })
  const place = join(tree, name)
  stageProgram(product, build, place)
  for (const { path, from } of build.files) {
    if (path.startsWith('node_modules/')) put(join(place, path), readFileSync(from))
  }
  put(join(place, 'bin/node'), readFileSync(node.program), 0o755)
  put(join(place, 'node.LICENSE'), readFileSync(node.licence))
  settle(tree, at)
  const unfinished = join(output, `${name}.unfinished`)
  execFileSync(
    'tar',
    [
      ...['--create', '--format=ustar', '--sort=name', '--numeric-owner', '--owner=0', '--group=0'],
      ...[`--mtime=@${at}`, `--use-compress-program=${packing}`, `--file=${unfinished}`],
      ...[`--directory=${tree}`, name],
    ],
    { env: { ...process.env, LC_ALL: 'C', TAR_OPTIONS: '', XZ_DEFAULTS: '', XZ_OPT: '' } },
  )
  rmSync(tree, { recursive: true })
  const file = join(output, `${name}.tar.xz`)
  renameSync(unfinished, file)
  return file
}

/** With several threads xz writes blocks of a fixed size, so that the bytes do not depend on the number of processors. */
const packing = `xz -${process.env['DPKG_DEB_COMPRESSOR_LEVEL'] ?? '6'} --threads=2`
