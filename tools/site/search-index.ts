/**
 * What the search reads: the text of every page, in parts that begin at headings, with the words that readers use for them. It is a
 * script, because a browser reads no other file of a directory by `file:`.
 */
import { headingsIn, type Page, textIn } from './page.ts'

/** A page as the search reads it. */
interface IndexedPage {
  readonly place: string
  readonly title: string
  /** How much it counts: reasons, history and measurements stand below the pages that say what to do. */
  readonly weight: number
  readonly parts: readonly IndexedPart[]
}

interface IndexedPart {
  /** The anchor; empty for the beginning of a page. */
  readonly id: string
  readonly heading: string
  readonly keywords: string
  readonly text: string
}

/** Pages that repeat what others say, and pages that show a file of the repository: schemas, units, package.json. */
function isIndexed({ place, source }: Page): boolean {
  const repeats = /^man\/.*\.5$/.test(source) || place === 'index.html'
  return !repeats && (/\.(?:md|8)$/.test(source) || source === 'pictures')
}

function weightOf(source: string): number {
  if (source === 'docs/answers.md') return 1.6
  if (source === 'README.md' || source === 'docs/glossary.md') return 0.5
  if (/^(?:docs\/decisions|bench|test)\/|^CHANGELOG|^CONTRIBUTING|^docs\/design/.test(source))
    return 0.15
  if (/-(?:request|threats)\.md$|^docs\/compared/.test(source)) return 0.4
  return /^man\//.test(source) ? 0.6 : 1
}

/** Words by which readers look for a page or a part of one, and which it need not use itself. */
const keywords: Readonly<Record<string, string>> = {
  'docs/answers.md#how-do-i-take-access-away-now': 'lockout kick user revoke session ban',
  'docs/answers.md#what-do-i-back-up': 'backup restore',
  'docs/answers.md#can-it-cache-https': 'https archive tls',
  'docs/installing.md#debian-packages': 'install deb',
  'docs/installing.md#what-is-where': 'uninstall purge remove change port listen',
  'docs/migration.md': 'migrate move apt-cacher-ng squid',
  'docs/several-machines.md': 'failover high availability ha redundancy cluster load balancer',
  'docs/several-machines.md#a-bucket-for-all-nodes': 's3 minio garage ceph bucket object store',
  'docs/several-instances.md': 'failover high availability ha redundancy redis valkey cluster',
  'docs/offline-sites.md': 'offline airgap air-gapped no internet export import',
  'docs/paid-archives.md': 'private repository password token credentials ppa esm',
  'docs/snapshots.md': 'pin packages date snapshot freeze',
  'docs/delay.md': 'delay hold pin quarantine staged rollout updates',
  'docs/builds.md': 'reproducible build lock record replay sbom',
  'docs/access-rules.md': 'group admins only post method path allow list authorization',
  'docs/forward-auth.md': 'nginx auth_request forward auth traefik caddy envoy haproxy',
  'docs/metrics.md': 'prometheus grafana alerts monitoring dashboard',
  'docs/authproxy.md#when-it-does-not-work': 'why login failed error reference explain',
  'docs/authproxy.md#5-keep-it-running':
    'rotate certificate keys rollover lockout kick user restore',
  'docs/authproxy.md#3-the-edge': 'websocket nginx apache haproxy caddy reverse proxy health check',
  'docs/troubleshooting.md#when-the-disk-is-full': 'cache full disk space quota limit',
  'docs/troubleshooting.md': '403 forbidden 503 520 hash sum mismatch error apt',
  'docs/configuration.md#retentionsize': 'limit disk space quota cache full maximum size',
  'docs/configuration.md#httpsorigin_ca': 'self-signed certificate private ca',
  'docs/authproxy-configuration.md#proxytargetcertificates':
    'self-signed certificate private ca backend',
  'docs/configuration.md#indexclients': 'password for the web interface pages protect restrict',
  'docs/authproxy-applications.md#logout-signing-a-user-out': 'logout log out user sign out',
  'docs/recipes/ci-and-images.md': 'docker build container image gitlab github ci',
  'docs/upgrading.md': 'upgrade downgrade version',
  'SECURITY.md': 'vulnerability cve report',
}

/** The script with the texts of all pages. */
export function searchIndex(pages: readonly Page[]): string {
  return `searchIndex(${JSON.stringify(indexedPages(pages))})\n`
}

/** The texts of all pages. Throws when a keyword leads nowhere. */
export function indexedPages(pages: readonly Page[]): readonly IndexedPage[] {
  const unused = new Set(Object.keys(keywords))
  const keywordsOf = (place: string) => {
    unused.delete(place)
    return keywords[place] ?? ''
  }
  const indexed = pages.filter(isIndexed).map(({ place, title, source, html }) => ({
    place,
    title,
    weight: weightOf(source),
    parts: partsOf(html).map(([id, heading, text], index) => ({
      id,
      heading,
      text,
      keywords: keywordsOf(index === 0 ? source : `${source}#${id}`),
    })),
  }))
  if (unused.size > 0) throw new Error(`keywords of no page: ${[...unused].join(', ')}`)
  return indexed
}

/** Anchor, heading and text of each part; the first one has no anchor. */
function partsOf(
  html: string,
): ReadonlyArray<readonly [id: string, heading: string, text: string]> {
  const [first = '', ...others] = html.split(/(?=<h[1-6] id=)/)
  const parts = others.map(part => {
    const [heading] = headingsIn(part)
    const text = proseOf(part.replace(/^<h[1-6][\s\S]*?<\/h[1-6]>/, ''))
    return [heading?.level === 1 ? '' : (heading?.id ?? ''), heading?.text ?? '', text] as const
  })
  const before = proseOf(first)
  return before === '' ? parts : [['', '', before] as const, ...parts]
}

function proseOf(html: string): string {
  return textIn(html.replace(/<\/(td|th|li|dt|dd|p|div)>|<br>/g, ' ')).replace(/\s+/g, ' ')
}
