/**
 * The delete test: does cachesvc compile, and do its other tests pass, without a feature? It removes the feature's folder, its tests and its
 * lines in the lists of a copy of the tree, and compiles that.
 *
 *     node dist/tools/without.js builds              compiles
 *     node dist/tools/without.js builds --tests      compiles, and runs the tests
 *     node dist/tools/without.js builds --tests test/cache/cli ...    compiles, and runs these
 *
 * Documents, completions and the recorded list tell of the whole program, so the tests that compare them with it are left out.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { packageRoot } from '../lib/package.ts'

const folders = ['lib/cache/features', 'test/cache/features', 'test/fixtures/features']
const lists = [
  'lib/cache/features.ts',
  'lib/cache/features/settings.ts',
  'test/fixtures/recorded/features.ts',
]

/** The tests that compare texts with the whole program, by the beginnings of their paths. */
const ofTheWhole = [
  ...['documentation', 'interfaces', 'monitoring', 'packaging', 'manual', 'site', 'translations'],
  ...['cache/config/manual', 'cache/pairs', 'config/dump', 'sso', 'auth', 'saml', 'http'],
]

const root = packageRoot()

/** Copies the tree, with what is not committed yet, and without the feature. */
function copyWithout(feature: string): string {
  const copy = mkdtempSync(join(tmpdir(), `without-${feature}-`))
  const listing = ['ls-files', '--cached', '--others', '--exclude-standard']
  const files = execFileSync('git', listing, { cwd: root, encoding: 'utf8' }).split('\n')
  for (const file of files.filter(one => one !== '' && existsSync(join(root, one)))) {
    if (folders.some(folder => file.startsWith(`${folder}/${feature}/`))) continue
    if (isTestOf(feature, file)) continue
    cpSync(join(root, file), join(copy, file), { recursive: true })
  }
  for (const list of lists) {
    const text = readFileSync(join(root, list), 'utf8')
    writeFileSync(join(copy, list), withoutLines(text, feature))
  }
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'))
  return copy
}

/** Whether a file outside of the folders tests the feature together with another: it imports a fixture of the feature. */
function isTestOf(feature: string, file: string): boolean {
  if (!/^(test|bench)\/.*\.ts$/.test(file) || lists.includes(file)) return false
  return readFileSync(join(root, file), 'utf8').includes(`fixtures/features/${feature}/`)
}

/** The text of a list without the import of the feature, and without the line of what is imported. */
function withoutLines(text: string, feature: string): string {
  const imports = new RegExp(`^import \\{ (\\w+) \\} from '[^']*/${feature}/[^']*'\n`, 'm')
  const [line, name] = imports.exec(text) ?? []
  if (line === undefined) return text
  return text.replace(line, '').replace(new RegExp(`^ +(\\.\\.\\.)?${name},\n`, 'm'), '')
}

function run(copy: string, program: string, args: readonly string[]): boolean {
  return spawnSync(program, args, { cwd: copy, stdio: 'inherit' }).status === 0
}

/** The test files of the copy that do not compare texts with the whole program. */
function testsIn(copy: string): readonly string[] {
  return readdirSync(join(copy, 'test'), { recursive: true, encoding: 'utf8' }).filter(
    path =>
      path.endsWith('.ts') &&
      !/^(fixtures|runner)\//.test(path) &&
      !ofTheWhole.some(one => path.startsWith(one)),
  )
}

const [feature = '', option, ...chosen] = process.argv.slice(2)
if (!existsSync(join(root, folders[0] ?? '', feature, 'feature.ts'))) {
  const known = readdirSync(join(root, 'lib/cache/features'), { withFileTypes: true })
  const names = known.filter(one => one.isDirectory()).map(({ name }) => name)
  process.stderr.write(`name one of ${names.join(', ')}\n`)
  process.exit(2)
}
const copy = copyWithout(feature)
try {
  const compiles = run(copy, join(root, 'node_modules/.bin/tsc'), ['-p', '.', '--outDir', 'dist'])
  process.stdout.write(`without ${feature}: ${compiles ? 'it compiles' : 'it does not compile'}\n`)
  let passes = compiles
  if (compiles && option === '--tests') {
    const paths = chosen.length > 0 ? chosen : testsIn(copy).map(path => join('test', path))
    passes = run(copy, process.execPath, ['dist/test/runner/main.js', '--jobs=2', ...paths])
    process.stdout.write(`without ${feature}: the other tests ${passes ? 'pass' : 'fail'}\n`)
  }
  process.exitCode = passes ? 0 : 1
} finally {
  rmSync(copy, { recursive: true, force: true })
}
