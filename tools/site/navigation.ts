/**
 * The sections of the site, by what a reader wants, and the pages in each. A document that stands in no section is an error, so that
 * no page can be found by the search alone.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** A page in the menu: the file of the repository that it is made from, and its short name. */
export interface Entry {
  readonly source: string
  readonly title: string
}

export interface Section {
  readonly title: string
  readonly entries: readonly Entry[]
}

/** The first page and the page of pictures are made from no file. */
export const frontPage = 'index'
export const picturesPage = 'pictures'

/** The list of decisions, and the folder it is made from. */
export const decisionsFolder = 'docs/decisions'

type Listed = Readonly<Record<string, string>>

const start: Listed = {
  [frontPage]: 'Start',
  'README.md': 'Overview',
  'docs/answers.md': 'Short answers',
  'docs/installing.md': 'Install',
  'docs/migration.md': 'Move from another program',
  'docs/compared.md': 'Compared with others',
  [picturesPage]: 'Pictures',
  'docs/glossary.md': 'Glossary',
}

const cachesvc: Listed = {
  'docs/delay.md': 'Delay updates (delay, hold)',
  'docs/deny.md': 'Deny packages, and recall',
  'docs/snapshots.md': 'Snapshots: pin a day',
  'docs/builds.md': 'Reproducible builds',
  'docs/offline-sites.md': 'Offline and air-gapped sites',
  'docs/other-package-managers.md': 'dnf, zypper, apk and pacman',
  'docs/paid-archives.md': 'Repositories with a password (credentials)',
  'docs/several-machines.md': 'High availability: several machines',
  'docs/configuration.md': 'All settings of cachesvc',
}

const authproxy: Listed = {
  'docs/authproxy.md': 'Set up',
  'docs/authproxy-applications.md': 'Applications',
  'docs/access-rules.md': 'Access rules (access)',
  'docs/forward-auth.md': 'Forward-auth: nginx, HAProxy, Caddy, …',
  'docs/identity-token.md': 'Identity token (identity.token)',
  'docs/several-instances.md': 'High availability: several instances (state)',
  'docs/authproxy-configuration.md': 'All settings of authproxy',
}

const operating: Listed = {
  'docs/troubleshooting.md': 'Troubleshooting',
  'docs/upgrading.md': 'Upgrade',
  'docs/metrics.md': 'Metrics and alerts',
  'docs/sizing.md': 'Sizing',
  'docs/compatibility.md': 'What may change in 1.x',
  'SECURITY.md': 'Report a vulnerability',
  'CHANGELOG.md': 'Changelog',
}

const reference: Listed = {
  'man/cachesvc.8': 'cachesvc(8)',
  'man/cachesvc.yaml.5': 'cachesvc.yaml(5)',
  'man/authproxy.8': 'authproxy(8)',
  'man/authproxy.yaml.5': 'authproxy.yaml(5)',
  'docs/cachesvc-request.md': 'A request to cachesvc',
  'docs/authproxy-failures.md': 'Failures of authproxy by code',
  'docs/authproxy-request.md': 'A request to authproxy',
  'docs/cachesvc-threats.md': 'Threat model of cachesvc',
  'docs/authproxy-threats.md': 'Threat model of authproxy',
}

const design: Listed = {
  'docs/design.md': 'Design',
  [decisionsFolder]: 'Decisions',
  'bench/README.md': 'How speed is measured',
  'bench/results.md': 'Measured speed',
  'bench/compared-apt.md': 'Compared with no cache',
  'bench/compared-saml.md': 'Compared with other service providers',
  'CONTRIBUTING.md': 'Contributing',
}

/** All sections, without entries that have no file. Throws when a document of the repository is in none. */
export function sectionsOf(root: string): readonly Section[] {
  const recipes = Object.fromEntries(
    documentsIn(root, 'docs/recipes').map(path => [path, titleOf(root, path)]),
  )
  const listed = { start, cachesvc, authproxy, recipes, operating, reference, design }
  const all = Object.assign({}, ...Object.values(listed))
  for (const source of ['.', 'docs', 'bench'].flatMap(folder => documentsIn(root, folder))) {
    if (!Object.hasOwn(all, source))
      throw new Error(`${source} stands in no section of tools/site/navigation.ts`)
  }
  const section = (title: string, pages: Listed): Section => ({
    title,
    entries: Object.entries(pages)
      .filter(([source]) => isMade(source) || existsSync(join(root, source)))
      .map(([source, name]) => ({ source, title: name })),
  })
  return [
    section('Start', start),
    section('cachesvc', cachesvc),
    section('authproxy', authproxy),
    section('Recipes', recipes),
    section('Operating', operating),
    section('Reference', reference),
    section('Design and decisions', design),
  ]
}

/** Whether a page is made from no file. */
function isMade(source: string): boolean {
  return source === frontPage || source === picturesPage
}

/** The decisions, which have a page each and stand in their list alone. */
export function decisionsOf(root: string): readonly Entry[] {
  return documentsIn(root, decisionsFolder).map(source => ({
    source,
    title: titleOf(root, source),
  }))
}

function documentsIn(root: string, folder: string): string[] {
  return readdirSync(join(root, folder))
    .filter(name => name.endsWith('.md'))
    .sort()
    .map(name => join(folder, name))
}

function titleOf(root: string, path: string): string {
  const [, title] = /^# (.+)$/m.exec(readFileSync(join(root, path), 'utf8')) ?? []
  if (title === undefined) throw new Error(`${path} has no heading`)
  return title.replaceAll('`', '')
}
