/**
 * Finds the directory of this package, and reads its version and its project page. Only this file knows that the compiled tree (`dist/lib`)
 * is one level deeper than the sources (`lib`).
 */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isRecord } from './json.ts'

/** The absolute path of the directory that holds package.json, templates/ and man/. Throws when the package is incomplete. */
export function packageRoot(): string {
  for (const up of ['..', '../..']) {
    const candidate = join(import.meta.dirname, up)
    if (existsSync(join(candidate, 'package.json'))) return candidate
  }
  throw new Error(`no package.json above ${import.meta.dirname}: the installation is incomplete`)
}

/** The version in package.json. It reads the file, so call it once, at start. Throws when the file is missing or names no version. */
export function packageVersion(): string {
  return manifestEntry('version')
}

/** The home page of the project, `homepage` in package.json. It reads the file, so call it once, at start. */
export function projectPage(): string {
  return manifestEntry('homepage')
}

function manifestEntry(name: string): string {
  const path = join(packageRoot(), 'package.json')
  const manifest: unknown = JSON.parse(readFileSync(path, 'utf8'))
  const value = isRecord(manifest) ? manifest[name] : undefined
  if (typeof value === 'string') return value
  throw new Error(`${path} names no ${name}`)
}
