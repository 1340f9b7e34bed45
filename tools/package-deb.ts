/**
 * Builds the Debian packages of both programs: `npm run package:deb [-- [--with-node=amd64,arm64] DIRECTORY]`. With that option each
 * program has a package for each of these machines too, which brings its own Node.js: npm fetches it.
 * `--node-pin=FILE` names another Node.js than packaging/node.json does. SOURCE_DATE_EPOCH is the time of every file; without it, the time of the commit.
 */
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { packageRoot, packageVersion } from '../lib/package.ts'
import { exitCodes, print, run } from '../lib/program.ts'
import { buildVersion } from './packaging/build-version.ts'
import { fetchNode, machinesOf, nodePin } from './packaging/carried-node.ts'
import { buildDebianPackage } from './packaging/debian-package.ts'
import { products } from './packaging/products.ts'
import { programFiles } from './packaging/program-files.ts'

await run('package-deb', async () => {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      'with-node': { type: 'string', default: '' },
      'node-pin': { type: 'string', default: join(packageRoot(), 'packaging/node.json') },
    },
  })
  const [output = 'packages/deb'] = positionals
  const machines = machinesOf(values['with-node'])
  const root = resolve(packageRoot())
  process.umask(0o022)
  // The documented commands install `*_amd64.deb` from here, so that no package of an earlier build may be left.
  if (positionals.length === 0) await rm(resolve(output), { recursive: true, force: true })
  await mkdir(resolve(output), { recursive: true })
  const { version, at } = buildVersion(packageVersion(), root)
  const work = await mkdtemp(join(tmpdir(), 'package-deb-'))
  try {
    const nodes = machines.map(name =>
      fetchNode(nodePin(values['node-pin']), name, join(work, name)),
    )
    for (const product of products) {
      const files = programFiles(root, `dist/bin/${product.name}.js`)
      for (const node of [undefined, ...nodes]) {
        const build = { root, output: resolve(output), version, files, at, node }
        await print(`${buildDebianPackage(product, build)}\n`)
      }
    }
  } finally {
    await rm(work, { recursive: true, force: true })
  }
  return exitCodes.success
})
