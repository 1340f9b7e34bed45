/**
 * Builds the Debian packages of both programs: `npm run package:deb [-- [--with-node=amd64,arm64] DIRECTORY]`. With that option each
 * program has a package for each of these machines too, which brings its own Node.js: npm fetches it.
 * `--node-pin=FILE` names another Node.js than packaging/node.json does. SOURCE_DATE_EPOCH is the time of every file; without it, the time of the commit.
 */
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { packageRoot, packageVersion } from '../lib/package.ts'
import { exitCodes, print, run } from '../lib/program.ts'
import { buildVersion } from '../lib/tools/packaging/build-version.ts'
import { fetchNode, nodeArchitectures, nodePin } from '../lib/tools/packaging/carried-node.ts'
import { buildDebianPackage, type DebianPackage } from '../lib/tools/packaging/debian-package.ts'
import { programFiles } from '../lib/tools/packaging/program-files.ts'

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

const packages: readonly DebianPackage[] = [
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
      ...['paid-archives.md', 'sizing.md'],
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
      ...['installing.md', 'upgrading.md', 'troubleshooting.md'],
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

await run('package-deb', async () => {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      'with-node': { type: 'string', default: '' },
      'node-pin': { type: 'string', default: join(packageRoot(), 'packaging/node.json') },
    },
  })
  const [output = 'dist/deb'] = positionals
  const asked = values['with-node'].split(',').filter(word => word !== '')
  const wrong = asked.find(word => !nodeArchitectures.some(known => known === word))
  if (wrong !== undefined) {
    throw new Error(`--with-node=${wrong}: there are ${nodeArchitectures.join(' and ')}`)
  }
  const root = resolve(packageRoot())
  process.umask(0o022)
  await mkdir(resolve(output), { recursive: true })
  const { version, at } = buildVersion(packageVersion(), root)
  const given = process.env['SOURCE_DATE_EPOCH']
  const time = given === undefined ? (at ?? Math.floor(Date.now() / 1000)) : Number(given)
  const work = await mkdtemp(join(tmpdir(), 'package-deb-'))
  try {
    const wanted = nodeArchitectures.filter(name => asked.includes(name))
    const nodes = wanted.map(name => fetchNode(nodePin(values['node-pin']), name, join(work, name)))
    for (const description of packages) {
      const files = programFiles(root, `dist/bin/${description.name}.js`)
      for (const node of [undefined, ...nodes]) {
        const build = { root, output: resolve(output), version, files, at: time, node }
        await print(`${buildDebianPackage(description, build)}\n`)
      }
    }
  } finally {
    await rm(work, { recursive: true, force: true })
  }
  return exitCodes.success
})
