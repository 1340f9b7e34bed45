/**
 * The npm packages that a program needs, as package-lock.json names them: those it imports, and what they depend on.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** An entry of `packages` in package-lock.json, as far as packages for release read it. */
export interface LockedPackage {
  readonly version: string
  readonly license?: string
  /** Subresource integrity: `sha512-` and base64. */
  readonly integrity?: string
  readonly dependencies?: Readonly<Record<string, string>>
  readonly optionalDependencies?: Readonly<Record<string, string>>
}

/** By path: `node_modules/jose`, `node_modules/a/node_modules/b`. */
export type LockedPackages = ReadonlyMap<string, LockedPackage>

/** The packages of these names with everything they depend on, by path in order. Throws when the lock lacks one. */
export function lockedPackages(root: string, names: readonly string[]): LockedPackages {
  const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'))
  const packages = new Map<string, LockedPackage>(Object.entries(lock.packages))
  const found = new Map<string, LockedPackage>()
  const waiting = names.map(name => placeOf(packages, name, ''))
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    const entry = packages.get(path)
    if (entry === undefined || found.has(path)) continue
    found.set(path, entry)
    for (const name of needsOf(entry)) waiting.push(placeOf(packages, name, path))
  }
  return new Map([...found].sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** The names that a package depends on. */
export function needsOf(entry: LockedPackage): string[] {
  return Object.keys({ ...entry.dependencies, ...entry.optionalDependencies })
}

/**
 * The path at which Node finds the package of this name for a package at `from`; the nearest counts. Throws when there is none.
 */
export function placeOf(packages: LockedPackages, name: string, from: string): string {
  for (let at = from; ; at = at.replace(/(?:^|\/)node_modules\/(?:@[^/]+\/)?[^/]+$/, '')) {
    const path = `${at === '' ? '' : `${at}/`}node_modules/${name}`
    if (packages.has(path)) return path
    if (at === '')
      throw new Error(`package-lock.json has no ${name}, which ${from || 'a program'} needs`)
  }
}
