/**
 * Builds archives of both programs to unpack and run: `npm run package:tar [-- [--with-node=amd64,arm64] DIRECTORY]`, in packages/tar
 * without a directory. Each has its own Node.js, which npm fetches as for the Debian packages, and everything else that the program needs.
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
import { products } from './packaging/products.ts'
import { programFiles } from './packaging/program-files.ts'
import { buildTarPackage } from './packaging/tar-package.ts'

await run('package-tar', async () => {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      'with-node': { type: 'string', default: 'amd64,arm64' },
      'node-pin': { type: 'string', default: join(packageRoot(), 'packaging/node.json') },
    },
  })
  const output = resolve(positionals[0] ?? 'packages/tar')
  const machines = machinesOf(values['with-node'])
  const root = resolve(packageRoot())
  process.umask(0o022)
  if (positionals.length === 0) await rm(output, { recursive: true, force: true })
  await mkdir(output, { recursive: true })
  const work = await mkdtemp(join(tmpdir(), 'package-tar-'))
  try {
    const pin = nodePin(values['node-pin'])
    const nodes = machines.map(name => fetchNode(pin, name, join(work, name)))
    for (const product of products) {
      const files = programFiles(root, `dist/bin/${product.name}.js`)
      for (const node of nodes) {
        const build = { root, output, ...buildVersion(packageVersion(), root), files, node }
        await print(`${buildTarPackage(product, build)}\n`)
      }
    }
  } finally {
    await rm(work, { recursive: true, force: true })
  }
  return exitCodes.success
})
