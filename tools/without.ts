/**
 * The delete test: does a program compile, and do its other tests pass, without a feature? It removes the feature's folder, its tests and its
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
  chmodSync,
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
import { dirname, join } from 'node:path'
import { packageRoot } from '../lib/package.ts'

const root = packageRoot()

/** A program with features. */
interface Delible {
  /** The folders of a feature, and single files that only it needs. */
  readonly parts: (feature: string) => readonly string[]
  /** The files with a line for each feature. */
  readonly lists: readonly string[]
  readonly features: readonly string[]
  /** Whether a test that needs what is gone goes too. Without this it must not be there. */
  readonly dependentsGo: boolean
  /** The tests that compare texts with the whole program, or are of other parts, by the beginnings of their paths. */
  readonly leftOut: readonly string[]
}

const everywhere = [
  ...['documentation', 'interfaces', 'monitoring', 'packaging', 'manual', 'site', 'translations'],
  ...['config/dump', 'sso', 'http'],
]

const cachesvc: Delible = {
  parts: feature =>
    ['lib/cache/features', 'test/cache/features', 'test/fixtures/features'].map(
      folder => `${folder}/${feature}/`,
    ),
  lists: [
    'lib/cache/features.ts',
    'lib/cache/features/settings.ts',
    'test/fixtures/recorded/features.ts',
  ],
  features: readdirSync(join(root, 'lib/cache/features'), { withFileTypes: true })
    .filter(one => one.isDirectory())
    .map(({ name }) => name),
  dependentsGo: true,
  leftOut: [
    ...everywhere,
    ...['cache/config/manual', 'cache/config/all-settings', 'cache/pairs', 'auth', 'saml'],
  ],
}

/** Fixtures that exercise a feature by its settings, so that no import shows it. */
const authFixtures: Readonly<Record<string, readonly string[]>> = {
  'forward-auth': ['test/fixtures/gateway/checks.ts', 'test/fixtures/edges/'],
  'shared-state': ['test/fixtures/state/'],
  tokens: ['test/fixtures/gateway/token-lab.ts'],
}

const authproxy: Delible = {
  parts: feature => [
    ...['lib/auth', 'test/auth'].map(folder => `${folder}/${feature}/`),
    ...['lib', 'test'].map(folder => `${folder}/auth/doctor/checks/${feature}.ts`),
    ...(authFixtures[feature] ?? []),
  ],
  lists: ['lib/auth/features.ts', 'lib/auth/doctor/checks/examine.ts'],
  features: ['doctor', 'forward-auth', 'replay', 'shared-state', 'tokens'],
  dependentsGo: true,
  leftOut: [
    ...everywhere,
    'auth/rooms',
    'auth/threat-model',
    'auth/pairs',
    'auth/recipes',
    'auth/cli/explain',
    'cache',
  ],
}

/** Copies the tree, with what is not committed yet, and without the feature. */
function copyWithout(feature: string, { parts, lists, dependentsGo }: Delible): string {
  const copy = mkdtempSync(join(tmpdir(), `without-${feature}-`))
  // Some tests run a program as another user.
  chmodSync(copy, 0o755)
  const listing = ['ls-files', '--cached', '--others', '--exclude-standard']
  const files = execFileSync('git', listing, { cwd: root, encoding: 'utf8' }).split('\n')
  for (const file of files.filter(one => one !== '' && existsSync(join(root, one)))) {
    if (parts(feature).some(part => file.startsWith(part))) continue
    cpSync(join(root, file), join(copy, file), { recursive: true })
  }
  for (const list of lists.filter(one => existsSync(join(copy, one)))) {
    const text = readFileSync(join(root, list), 'utf8')
    writeFileSync(join(copy, list), withoutLines(text, feature))
  }
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'))
  if (dependentsGo) deleteDependents(copy, files)
  return copy
}

/** Deletes the tests and tools that import a file that is gone, and those that import these. */
function deleteDependents(copy: string, files: readonly string[]): void {
  const rest = files.filter(file => /^(?:test|bench|tools)\/.*\.ts$/.test(file))
  for (let before = Infinity, left = rest.length; left < before; ) {
    before = left
    const there = rest.filter(file => existsSync(join(copy, file)))
    const orphans = there.filter(file => {
      const text = readFileSync(join(copy, file), 'utf8')
      const imports = text.matchAll(/(?:\bfrom |\bimport |\bimport\()'(\.[^']+\.ts)'/g)
      return [...imports].some(([, to = '']) => !existsSync(join(copy, dirname(file), to)))
    })
    for (const file of orphans) rmSync(join(copy, file))
    left = there.length - orphans.length
  }
}

/** The text of a list without the import of the feature, and without the line of what is imported. */
function withoutLines(text: string, feature: string): string {
  const imports = new RegExp(
    `^import \\{ (\\w+) \\} from '[^']*/${feature}(?:/[^']*|\\.ts)'\n`,
    'm',
  )
  const [line, name] = imports.exec(text) ?? []
  if (line === undefined) return text
  return text.replace(line, '').replace(new RegExp(`^ +(\\.\\.\\.)?${name},\n`, 'm'), '')
}

function run(copy: string, program: string, args: readonly string[]): boolean {
  return spawnSync(program, args, { cwd: copy, stdio: 'inherit' }).status === 0
}

/** The test files of the copy that do not compare texts with the whole program. */
function testsIn(copy: string, { leftOut }: Delible): readonly string[] {
  return readdirSync(join(copy, 'test'), { recursive: true, encoding: 'utf8' }).filter(
    path =>
      path.endsWith('.ts') &&
      !/^(fixtures|runner)\//.test(path) &&
      !leftOut.some(one => path.startsWith(one)),
  )
}

const [feature = '', option, ...chosen] = process.argv.slice(2)
const program = [cachesvc, authproxy].find(({ features }) => features.includes(feature))
if (program === undefined) {
  const names = [...cachesvc.features, ...authproxy.features].join(', ')
  process.stderr.write(`name one of ${names}\n`)
  process.exit(2)
}
const copy = copyWithout(feature, program)
try {
  const compiles = run(copy, join(root, 'node_modules/.bin/tsc'), ['-p', '.', '--outDir', 'dist'])
  process.stdout.write(`without ${feature}: ${compiles ? 'it compiles' : 'it does not compile'}\n`)
  let passes = compiles
  if (compiles && option === '--tests') {
    const paths =
      chosen.length > 0 ? chosen : testsIn(copy, program).map(path => join('test', path))
    passes = run(copy, process.execPath, ['dist/test/runner/main.js', '--jobs=2', ...paths])
    process.stdout.write(`without ${feature}: the other tests ${passes ? 'pass' : 'fail'}\n`)
  }
  process.exitCode = passes ? 0 : 1
} finally {
  rmSync(copy, { recursive: true, force: true })
}
