/**
 * Compiles authproxy without one of its features: `node dist/tools/without-auth.js FEATURE [TEST...]`. It copies the repository to a temporary
 * directory, deletes the folder of the feature, its line in lib/auth/features.ts, its check of `authproxy doctor` and the tests that need what
 * is gone, compiles, and runs the named tests there.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { packageRoot } from '../lib/package.ts'
import { exitCodes, print, run } from '../lib/program.ts'

const features = ['doctor', 'forward-auth', 'replay', 'shared-state']

/** Files in which a feature has lines of its own. */
const LISTS = ['lib/auth/features.ts', 'lib/auth/doctor/checks/examine.ts']

await run('without-auth', async () => {
  const [feature = '', ...tests] = process.argv.slice(2)
  if (!features.includes(feature)) {
    await print(`name a feature: ${features.join(', ')}\n`, process.stderr)
    return exitCodes.usage
  }
  const root = mkdtempSync(join(tmpdir(), `without-${feature}-`))
  try {
    for (const path of tracked()) {
      if (existsSync(join(packageRoot(), path))) cpSync(join(packageRoot(), path), join(root, path))
    }
    symlinkSync(join(packageRoot(), 'node_modules'), join(root, 'node_modules'))
    rmSync(join(root, 'lib/auth', feature), { recursive: true })
    rmSync(join(root, `lib/auth/doctor/checks/${feature}.ts`), { force: true })
    rmSync(join(root, 'test/auth', feature), { recursive: true, force: true })
    for (const list of LISTS) deleteLines(join(root, list), feature)
    const gone = deleteTests(root)
    await print(`without ${feature}: ${gone.length} files of tests go with it\n`)
    const tsc = join(packageRoot(), 'node_modules/.bin/tsc')
    const compiled = spawnSync(tsc, ['-p', '.', '--outDir', 'dist'], {
      cwd: root,
      stdio: 'inherit',
    })
    if (compiled.status !== 0) return exitCodes.failure
    await print('it compiles\n')
    const failed = tests.filter(test => {
      const { status } = spawnSync(process.execPath, [join('dist/test', `${test}.js`)], {
        cwd: root,
        stdio: ['ignore', 'ignore', 'inherit'],
      })
      return status !== 0
    })
    if (tests.length > 0)
      await print(`${tests.length - failed.length} of ${tests.length} tests pass\n`)
    for (const test of failed) await print(`failed: ${test}\n`)
    return failed.length === 0 ? exitCodes.success : exitCodes.failure
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
})

function tracked(): readonly string[] {
  const list = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], {
    cwd: packageRoot(),
  })
  return list
    .toString()
    .split('\n')
    .filter(path => path !== '')
}

/** Deletes the import of a feature from a list, and the line of each name that it imported. */
function deleteLines(path: string, feature: string): void {
  if (!existsSync(path)) return
  const lines = readFileSync(path, 'utf8').split('\n')
  const isImport = (line: string) => line.startsWith('import ') && line.includes(`/${feature}`)
  const names = lines.filter(isImport).flatMap(line => line.match(/(?<=\{ )\w+/g) ?? [])
  const isGone = (line: string) =>
    names.some(name => [`${name},`, `...${name},`].includes(line.trim()))
  writeFileSync(path, lines.filter(line => !isImport(line) && !isGone(line)).join('\n'))
}

/** Deletes the files outside lib that import a file that is gone, and those that import these. */
function deleteTests(root: string): readonly string[] {
  const paths = tracked().filter(path => /^(?:test|bench|tools)\/.*\.ts$/.test(path))
  const gone: string[] = []
  for (let before = -1; gone.length > before; ) {
    before = gone.length
    for (const path of paths.filter(each => existsSync(join(root, each)))) {
      const text = readFileSync(join(root, path), 'utf8')
      const missing = [...text.matchAll(/(?:\bfrom |\bimport |\bimport\()'(\.[^']+)'/g)].some(
        ([, file = '']) => !existsSync(join(root, dirname(path), file)),
      )
      if (missing) {
        rmSync(join(root, path))
        gone.push(path)
      }
    }
  }
  return gone
}
