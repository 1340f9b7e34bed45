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

/** Documents of both programs. */
const documentsOfBoth = documents(`
  installing upgrading troubleshooting migration metrics glossary sizing compatibility
  recipes/README recipes/appliance
`)

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
      ...documentsOfBoth,
      ...documents(`
        configuration snapshots builds delay deny offline-sites other-package-managers several-machines
        paid-archives
        recipes/ci-and-images recipes/netboot recipes/fai recipes/proxmox recipes/raspberry-pi-os
      `),
    ],
    files: new Map([
      [`${units}/cachesvc.service`, 'packaging/cachesvc.service'],
      [`${units}/cachesvc.socket`, 'packaging/cachesvc.socket'],
      ['usr/lib/systemd/system-generators/cachesvc-generator', 'packaging/cachesvc-generator'],
      ['etc/cachesvc/cachesvc.yaml', 'packaging/cachesvc.yaml'],
      ['usr/share/doc/cachesvc/cachesvc.schema.json', 'packaging/cachesvc.schema.json'],
      example('cachesvc', 'mirrors.yaml'),
      example('cachesvc', 'haproxy.cfg', 'balancers/haproxy.cfg'),
      ...examplesOf('cachesvc'),
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
      ...documentsOfBoth,
      ...documents(`
        authproxy authproxy-configuration authproxy-applications authproxy-failures access-rules forward-auth identity-token
        several-instances
        recipes/entra-id recipes/okta recipes/keycloak recipes/ad-fs recipes/google-workspace
        recipes/shibboleth-idp recipes/simplesamlphp recipes/kubernetes recipes/several-applications
        recipes/traefik recipes/aws-load-balancer recipes/cloudflare recipes/compose
      `),
      'forged-tokens.json',
    ],
    files: new Map([
      [`${units}/authproxy@.service`, 'packaging/authproxy@.service'],
      [`${units}/authproxy@.socket`, 'packaging/authproxy@.socket'],
      [`${units}/authproxy-checks@.socket`, 'packaging/authproxy-checks@.socket'],
      ['usr/lib/systemd/system-generators/authproxy-generator', 'packaging/authproxy-generator'],
      example('authproxy', 'authproxy.yaml'),
      example('authproxy', 'authproxy.schema.json'),
      ...examplesOf('authproxy'),
      example('authproxy', 'kubernetes/envoy-gateway.yaml'),
      ...['nginx/authproxy.conf', 'nginx/authproxy-protect.conf', 'caddy/Caddyfile'].map(edge),
      ...['haproxy/haproxy.cfg', 'haproxy/authproxy.lua', 'envoy/envoy.yaml'].map(edge),
      ...['traefik/traefik.yaml', 'traefik/authproxy.yaml'].map(edge),
    ]),
    directories: ['etc/authproxy'],
    suggests: 'nginx | apache2 | haproxy | caddy',
  },
]

/** The paths in `docs/` of documents, from their names with white space between. */
function documents(names: string): readonly string[] {
  return names
    .trim()
    .split(/\s+/)
    .map(name => `${name}.md`)
}

/** An example: where it is installed, and where it is from. */
function example(name: Product['name'], to: string, from = to) {
  return [`usr/share/doc/${name}/examples/${to}`, `packaging/${from}`] as const
}

/** The configuration of an edge that asks for checks. */
function edge(file: string) {
  return example('authproxy', `edges/${file}`)
}

/** The examples that each program has: alert rules, a dashboard, and manifests for Kubernetes. */
function examplesOf(name: Product['name']) {
  return [
    example(name, `${name}-alerts.yaml`, `monitoring/${name}-alerts.yaml`),
    example(name, `${name}-dashboard.json`, `monitoring/${name}-dashboard.json`),
    example(name, `kubernetes/${name}.yaml`),
  ]
}
