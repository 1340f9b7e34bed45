/**
 * What this machine's apt is configured with: read at run time, never printed.
 */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { command } from '../fixtures/command.ts'

const etc = '/etc/apt'

/** The machine's source files, reduced to one scheme; file name to text. */
export async function sourceFiles(scheme: 'http' | 'https'): Promise<Record<string, string>> {
  const kept: Record<string, string> = {}
  const parts = await readdir(join(etc, 'sources.list.d')).catch(() => [])
  const named = parts.filter(part => /\.(list|sources)$/.test(part))
  for (const name of ['sources.list', ...named.map(part => `sources.list.d/${part}`)]) {
    const text = await readFile(join(etc, name), 'utf8').catch(() => '')
    const reduced = name.endsWith('.sources') ? stanzas(text, scheme) : lines(text, scheme)
    if (reduced !== '') kept[name] = reduced
  }
  return kept
}

/**
 * The machine's https sources; when it has none, its http sources asked with https, if their hosts answer that. Empty when
 * neither is to be had.
 */
export async function secureSourceFiles(): Promise<Record<string, string>> {
  const own = await sourceFiles('https')
  if (Object.keys(own).length > 0) return own
  const files = Object.entries(await sourceFiles('http'))
  const secure = Object.fromEntries(
    files.map(([name, text]) => [name, text.replaceAll('http://', 'https://')]),
  )
  const answers = addresses(secure).map(url =>
    fetch(url, { method: 'HEAD' }).catch(() => undefined),
  )
  return (await Promise.all(answers)).includes(undefined) ? {} : secure
}

function stanzas(text: string, scheme: string): string {
  const wanted = new RegExp(`^URIs:\\s*${scheme}://`, 'm')
  return text
    .split(/\n\s*\n/)
    .filter(stanza => wanted.test(stanza))
    .map(stanza => `${stanza.trim()}\n`)
    .join('\n')
}

function lines(text: string, scheme: string): string {
  const wanted = new RegExp(`^deb\\s+(\\[.*\\]\\s+)?${scheme}://`)
  return text
    .split('\n')
    .filter(line => wanted.test(line))
    .map(line => `${line}\n`)
    .join('')
}

/** The same with the sources of packages added. */
export function withSources(files: Readonly<Record<string, string>>): Record<string, string> {
  const more = ([name, text]: [string, string]): [string, string] =>
    name.endsWith('.sources')
      ? [name, text.replace(/^Types:.*/m, 'Types: deb deb-src')]
      : [name, text + text.replaceAll(/^deb /gm, 'deb-src ')]
  return Object.fromEntries(Object.entries(files).map(more))
}

/** The addresses in source files. */
export function addresses(files: Readonly<Record<string, string>>): URL[] {
  const found = Object.values(files).flatMap(text => text.match(/^[^#\n]*?https?:\/\/\S+/gm) ?? [])
  return found.map(line => new URL(/https?:\/\/\S+/.exec(line)?.[0] ?? ''))
}

/** As host lists have them: host, and port when it is not the scheme's own. */
export function hosts(files: Readonly<Record<string, string>>): string[] {
  return [...new Set(addresses(files).map(url => url.host))]
}

/** Settings of the machine without which its sources would not verify. */
export async function neededSettings(): Promise<Record<string, string>> {
  const dump = (await command('apt-config', ['dump'])).toString()
  const kept = dump.matchAll(/^(Acquire::Check-(?:Date|Valid-Until)) "(.*)";$/gm)
  const trusted = { 'Dir::Etc::trustedparts': join(etc, 'trusted.gpg.d') }
  return { ...trusted, ...Object.fromEntries([...kept].map(([, name, value]) => [name, value])) }
}

/** What an origin says about one of its files, for the report. */
export async function originHabits(file: URL): Promise<string> {
  const response = await fetch(file, { headers: { Range: 'bytes=0-0' } })
  await response.body?.cancel()
  const sends = (name: string) => `${response.headers.has(name) ? '' : 'no '}${name}`
  const ranges = response.status === 206 ? 'ranges' : 'no ranges'
  return [sends('last-modified'), sends('etag'), ranges].join(', ')
}
