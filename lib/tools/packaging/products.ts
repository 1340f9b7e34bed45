/**
 * The parts of each of the two programs: its templates, its documents, its units and examples. The Debian packages, the npm
 * packages and the lists of parts are made from this table; which modules a program needs, program-files.ts finds.
 */

/** A program with the files that are shipped beside its modules. */
export interface Product {
  readonly name: 'cachesvc' | 'authproxy'
  readonly summary: string
  /** Paragraphs of plain text. */
  readonly description: readonly string[]
  /** Directories of `templates/` the program reads. */
  readonly templates: readonly string[]
  /** Files besides programs and manuals: their path in a Debian package, and in the repository. */
  readonly files: ReadonlyMap<string, string>
  /** Names of files in `docs/`. */
  readonly documents: readonly string[]
  /** Empty directories of a Debian package. */
  readonly directories?: readonly string[]
  readonly suggests?: string
}

const units = 'usr/lib/systemd/system'

/** Configurations of edges that ask for checks: where they are installed, and where they are from. */
const edges = [
  ...['nginx/authproxy.conf', 'nginx/authproxy-protect.conf', 'caddy/Caddyfile'],
  ...['haproxy/haproxy.cfg', 'haproxy/authproxy.lua', 'envoy/envoy.yaml'],
  ...['traefik/traefik.yaml', 'traefik/authproxy.yaml'],
].map(
  file => [`usr/share/doc/authproxy/examples/edges/${file}`, `packaging/edges/${file}`] as const,
)

/** Recipes of authproxy, in docs/recipes. */
const recipes = [
  ...['entra-id', 'okta', 'keycloak', 'ad-fs', 'google-workspace', 'shibboleth-idp'],
  ...['simplesamlphp', 'kubernetes', 'several-applications'],
  ...['README', 'traefik', 'aws-load-balancer', 'cloudflare', 'compose', 'appliance'],
]

/** Both programs. */
export const products: readonly Product[] = [
  {
    name: 'cachesvc',
    summary: 'caching proxy for APT archives',
    description: [
      'A package that one machine has fetched reaches every other machine from the cache, also while the archive cannot be reached. Content is checked against its digest while it is sent, and every answer says why it was given.',
      'It needs no configuration: it listens on port 3142 and serves machines of private networks.',
    ],
    templates: ['operations'],
    documents: [
      ...[
        'configuration.md',
        'installing.md',
        'upgrading.md',
        'troubleshooting.md',
        'migration.md',
      ],
      ...[
        'snapshots.md',
        'builds.md',
        'delay.md',
        'offline-sites.md',
        'several-machines.md',
        'metrics.md',
        'glossary.md',
      ],
      ...['paid-archives.md', 'sizing.md', 'compatibility.md', 'disk-layout.md'],
      'releasing.md',
      ...[
        'README',
        'ci-and-images',
        'netboot',
        'fai',
        'proxmox',
        'raspberry-pi-os',
        'appliance',
      ].map(name => `recipes/${name}.md`),
    ],
    files: new Map([
      [`${units}/cachesvc.service`, 'packaging/cachesvc.service'],
      [`${units}/cachesvc.socket`, 'packaging/cachesvc.socket'],
      ['usr/lib/systemd/system-generators/cachesvc-generator', 'packaging/cachesvc-generator'],
      ['etc/cachesvc/cachesvc.yaml', 'packaging/cachesvc.yaml'],
      ['usr/share/doc/cachesvc/cachesvc.schema.json', 'packaging/cachesvc.schema.json'],
      ['usr/share/doc/cachesvc/examples/mirrors.yaml', 'packaging/mirrors.yaml'],
      ['usr/share/doc/cachesvc/examples/haproxy.cfg', 'packaging/balancers/haproxy.cfg'],
      ...monitoring('cachesvc'),
      kubernetes('cachesvc'),
    ]),
  },
  {
    name: 'authproxy',
    summary: 'SAML single sign-on in front of a web application',
    description: [
      'A gateway for one web application that knows nothing of SAML: it signs users in with an identity provider such as Entra ID, AD FS or Keycloak, and tells the application in header fields who asks.',
      'Each instance has a configuration of its own. It finds what is wrong with a set-up by itself (authproxy doctor) and brings an identity provider for tests (authproxy dev-idp) and a demonstration (authproxy demo).',
    ],
    templates: ['auth', 'demo', 'dev-idp'],
    documents: [
      ...['authproxy.md', 'authproxy-configuration.md', 'identity-token.md', 'saml-comparison.md'],
      ...['authproxy-applications.md', 'access-rules.md', 'forward-auth.md', 'metrics.md'],
      ...['several-instances.md', 'migration.md', 'glossary.md', 'sizing.md'],
      ...[
        'installing.md',
        'upgrading.md',
        'troubleshooting.md',
        'compatibility.md',
        'disk-layout.md',
        'releasing.md',
      ],
      ...recipes.map(name => `recipes/${name}.md`),
    ],
    files: new Map([
      [`${units}/authproxy@.service`, 'packaging/authproxy@.service'],
      [`${units}/authproxy@.socket`, 'packaging/authproxy@.socket'],
      [`${units}/authproxy-checks@.socket`, 'packaging/authproxy-checks@.socket'],
      ['usr/lib/systemd/system-generators/authproxy-generator', 'packaging/authproxy-generator'],
      ['usr/share/doc/authproxy/examples/authproxy.yaml', 'packaging/authproxy.yaml'],
      ['usr/share/doc/authproxy/examples/authproxy.schema.json', 'packaging/authproxy.schema.json'],
      ...monitoring('authproxy'),
      ...edges,
      kubernetes('authproxy'),
    ]),
    directories: ['etc/authproxy'],
    suggests: 'nginx | apache2 | haproxy | caddy',
  },
]

/** The manifests of a service for Kubernetes: where they are installed, and where they are from. */
function kubernetes(name: string): readonly [to: string, from: string] {
  const file = `kubernetes/${name}.yaml`
  return [`usr/share/doc/${name}/examples/${file}`, `packaging/${file}`]
}

/** Alert rules and the dashboard of a service: where they are installed, and where they are from. */
function monitoring(name: string): ReadonlyArray<readonly [to: string, from: string]> {
  return ['alerts.yaml', 'dashboard.json'].map(file => [
    `usr/share/doc/${name}/examples/${name}-${file}`,
    `packaging/monitoring/${name}-${file}`,
  ])
}
