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

/** The page of pictures is made from no file. */
export const picturesPage = 'pictures'

/** The list of decisions, and the folder it is made from. */
export const decisionsFolder = 'docs/decisions'

type Listed = Readonly<Record<string, string>>

const start: Listed = {
  'README.md': 'What they are',
  'docs/answers.md': 'Short answers',
  [picturesPage]: 'Pictures',
  'docs/installing.md': 'Installing',
  'docs/migration.md': 'Moving from another program',
  'docs/glossary.md': 'Words',
}

const cachesvc: Listed = {
  'docs/comparison.md': 'Compared with no cache',
  'docs/snapshots.md': 'An archive as of a day',
  'docs/delay.md': 'Updates that wait',
  'docs/builds.md': 'Builds that can be repeated',
  'docs/offline-sites.md': 'Sites without a connection',
  'docs/other-package-managers.md': 'dnf, zypper, apk and pacman',
  'docs/paid-archives.md': 'Archives with a password',
  'docs/several-machines.md': 'Several machines',
}

const authproxy: Listed = {
  'docs/authproxy.md': 'Setting up',
  'docs/authproxy-applications.md': 'Applications behind it',
  'docs/access-rules.md': 'Who may do what',
  'docs/forward-auth.md': 'An edge that asks',
  'docs/identity-token.md': 'The signed identity',
  'docs/several-instances.md': 'Several instances',
  'docs/saml-comparison.md': 'Compared with others',
}

const operating: Listed = {
  'docs/troubleshooting.md': 'Troubleshooting',
  'docs/upgrading.md': 'Upgrading',
  'docs/compatibility.md': 'What may change in 1.x',
  'docs/releasing.md': 'Releases, and how to verify one',
  'docs/metrics.md': 'Metrics and alerts',
  'docs/sizing.md': 'How large it must be',
  'SECURITY.md': 'Security',
  'CHANGELOG.md': 'Changes',
}

const reference: Listed = {
  'docs/configuration.md': 'Configuration of cachesvc',
  'docs/authproxy-configuration.md': 'Configuration of authproxy',
  'man/cachesvc.8': 'cachesvc(8)',
  'man/cachesvc.yaml.5': 'cachesvc.yaml(5)',
  'man/authproxy.8': 'authproxy(8)',
  'man/authproxy.yaml.5': 'authproxy.yaml(5)',
  'docs/life-of-a-request.md': 'The life of a request',
  'docs/disk-layout.md': 'The cache directory',
  'bench/results.md': 'Measured speed',
}

const design: Listed = {
  'docs/design.md': 'Design',
  [decisionsFolder]: 'Decisions',
  'docs/threat-model.md': 'Threat model',
  'docs/attack-suite.md': 'The attack suite',
  'docs/apt-integration-tests.md': 'Tests of apt',
  'bench/README.md': 'How speed is measured',
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
      .filter(([source]) => source === picturesPage || existsSync(join(root, source)))
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
