/**
 * The files a program needs when it runs: its compiled modules and the modules of its dependencies, followed from import to
 * import. A package carries one build of the many that its dependencies ship.
 *
 * It reads specifiers, not syntax trees: one in a comment is followed too if it leads to a file, which costs a file.
 */
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { attempt } from '../../lib/errors.ts'

/** A file by its path in the package, and where it is now. `node_modules` may be a link to elsewhere. */
export interface ProgramFile {
  readonly path: string
  readonly from: string
}

/**
 * All files below `dist` and `node_modules` that the module needs, with the package.json of every dependency, by path. Node has
 * to run with `--experimental-import-meta-resolve`, which lets it resolve an import as another module would.
 */
export function programFiles(root: string, program: string): ProgramFile[] {
  const manifest = readJson(join(root, 'package.json'))
  const own = new Set(Object.keys(manifest['dependencies'] ?? {}))
  const lock = readJson(join(root, 'package-lock.json'))['packages'] ?? {}
  const found = new Map<string, string>()
  const waiting = [join(root, program)]
  for (let file = waiting.pop(); file !== undefined; file = waiting.pop()) {
    const path = pathOf(file, root)
    if (path === undefined || found.has(path) || isForDevelopment(path, lock)) continue
    found.set(path, file)
    if (/\.[cm]?js$/.test(path)) waiting.push(...imported(file, own), ...manifestsAbove(file))
  }
  return [...found]
    .map(([path, from]) => ({ path, from }))
    .sort((a, b) => (a.path < b.path ? -1 : 1))
}

/** The dependencies among the files: `node_modules/jose`, `node_modules/a/node_modules/b`. */
export function packagesAmong(files: readonly ProgramFile[]): string[] {
  return [...new Set(files.flatMap(({ path }) => packageOf(path) ?? []))]
}

function packageOf(path: string): string | undefined {
  return /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0]
}

function pathOf(file: string, root: string): string | undefined {
  const at = file.indexOf('/node_modules/')
  if (at >= 0) return file.slice(at + 1)
  return file.startsWith(`${root}/`) ? file.slice(root.length + 1) : undefined
}

/** An optional import may lead to a package that is installed for development only. */
function isForDevelopment(path: string, lock: Record<string, unknown>): boolean {
  const name = packageOf(path)
  if (name === undefined) return false
  const entry = lock[name]
  return typeof entry !== 'object' || entry === null || 'dev' in entry
}

const specifiers =
  /(?:\bfrom|\bimport|\bimport\(|\brequire\(|\bnew URL\()\s*(?:'([^'\n]+)'|"([^"\n]+)")/g

function imported(file: string, own: ReadonlySet<string>): string[] {
  const text = readFileSync(file, 'utf8')
  const resolve = isModule(file) ? byImport : byRequire
  const found = [...text.matchAll(specifiers)].map(([, single, double]) =>
    resolve(single ?? double ?? '', file),
  )
  // Some of our modules load a dependency late, by a `require` of their own.
  if (!file.includes('/node_modules/') && text.includes('createRequire')) {
    const words = [...text.matchAll(/'([^'\n]+)'/g)].map(([, word = '']) => word)
    found.push(...words.filter(word => own.has(word)).map(word => byRequire(word, file)))
  }
  // Node's own modules have no path.
  return found.filter(to => to !== undefined).filter(to => to.startsWith('/') && existsSync(to))
}

function isModule(file: string): boolean {
  if (!file.endsWith('.js')) return file.endsWith('.mjs')
  const [nearest] = manifestsAbove(file)
  return nearest !== undefined && `${readJson(nearest)['type']}` === 'module'
}

function byImport(specifier: string, file: string): string | undefined {
  return attempt(() => {
    const url = import.meta.resolve(specifier, pathToFileURL(file).href)
    return url.startsWith('file:') ? fileURLToPath(url) : undefined
  })
}

function byRequire(specifier: string, file: string): string | undefined {
  return attempt(() => createRequire(file).resolve(specifier))
}

/** The package.json files that Node reads for a module, nearest first, up to that of its package. */
function manifestsAbove(file: string): string[] {
  const found: string[] = []
  for (
    let at = dirname(file);
    at !== '/' && !/\/node_modules(\/@[^/]+)?$/.test(at);
    at = dirname(at)
  ) {
    if (existsSync(join(at, 'package.json'))) found.push(join(at, 'package.json'))
    if (existsSync(join(at, 'package-lock.json'))) break
  }
  return found
}

function readJson(path: string): Record<string, Record<string, unknown>> {
  return JSON.parse(readFileSync(path, 'utf8'))
}
