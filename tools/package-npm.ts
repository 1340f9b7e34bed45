/**
 * Builds the npm packages of both programs: `npm run package:npm [-- DIRECTORY]`, in packages/npm without one. SOURCE_DATE_EPOCH is the
 * time of every file; without it, the time of the commit.
 */
import { mkdir, rm } from 'node:fs/promises'
import { resolve } from 'node:path'
import { packageRoot, packageVersion } from '../lib/package.ts'
import { exitCodes, print, run } from '../lib/program.ts'
import { buildVersion } from './packaging/build-version.ts'
import { buildNpmPackage } from './packaging/npm-package.ts'
import { products } from './packaging/products.ts'
import { programFiles } from './packaging/program-files.ts'

await run('package-npm', async () => {
  const [, , directory] = process.argv
  const output = resolve(directory ?? 'packages/npm')
  const root = resolve(packageRoot())
  process.umask(0o022)
  if (directory === undefined) await rm(output, { recursive: true, force: true })
  await mkdir(output, { recursive: true })
  const build = { root, output, ...buildVersion(packageVersion(), root) }
  for (const product of products) {
    const files = programFiles(root, `dist/bin/${product.name}.js`)
    await print(`${buildNpmPackage(product, { ...build, files })}\n`)
  }
  return exitCodes.success
})
