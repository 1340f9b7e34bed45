/**
 * Builds the Debian packages of both programs: `npm run package:deb [-- DIRECTORY]`.
 */
import { mkdir } from 'node:fs/promises'
import { resolve } from 'node:path'
import { access } from '../lib/auth/cli/access.ts'
import { authproxy } from '../lib/auth/cli/arguments.ts'
import { cachesvc } from '../lib/cache/cli/arguments.ts'
import { packageRoot } from '../lib/package.ts'
import { exitCodes, print, run } from '../lib/program.ts'
import { demo, devIdp } from '../lib/tools/dev-idp/arguments.ts'
import { buildDebianPackage, type DebianPackage } from '../lib/tools/packaging/debian-package.ts'

const units = 'usr/lib/systemd/system'

const packages: readonly DebianPackage[] = [
  {
    name: 'cachesvc',
    summary: 'caching proxy for APT archives',
    description: [
      'A package that one machine has fetched reaches every other machine from the cache, also while the archive cannot be reached. Content is checked against its digest while it is sent, and every answer says why it was given.',
      'It needs no configuration: it listens on port 3142 and serves machines of private networks.',
    ],
    completed: { table: cachesvc },
    templates: ['operations'],
    documents: [
      ...[
        'configuration.md',
        'installing.md',
        'upgrading.md',
        'troubleshooting.md',
        'migration.md',
      ],
      ...['snapshots.md', 'offline-sites.md'],
    ],
    files: new Map([
      [`${units}/cachesvc.service`, 'packaging/cachesvc.service'],
      [`${units}/cachesvc.socket`, 'packaging/cachesvc.socket'],
      ['usr/lib/systemd/system-generators/cachesvc-generator', 'packaging/cachesvc-generator'],
      ['etc/cachesvc/cachesvc.yaml', 'packaging/cachesvc.yaml'],
      ['usr/share/doc/cachesvc/cachesvc.schema.json', 'packaging/cachesvc.schema.json'],
    ]),
  },
  {
    name: 'authproxy',
    summary: 'SAML single sign-on in front of a web application',
    description: [
      'A gateway for one web application that knows nothing of SAML: it signs users in with an identity provider such as Entra ID, AD FS or Keycloak, and tells the application in header fields who asks.',
      'Each instance has a configuration of its own. It finds what is wrong with a set-up by itself (authproxy doctor) and brings an identity provider for tests (authproxy dev-idp) and a demonstration (authproxy demo).',
    ],
    completed: {
      table: authproxy,
      within: [access, devIdp, demo],
      named: { INSTANCE: '/etc/authproxy' },
    },
    templates: ['auth', 'demo', 'dev-idp'],
    documents: [
      ...['authproxy.md', 'authproxy-configuration.md', 'identity-token.md', 'saml-comparison.md'],
      ...['access-rules.md'],
      ...['installing.md', 'upgrading.md', 'troubleshooting.md'],
    ],
    files: new Map([
      [`${units}/authproxy@.service`, 'packaging/authproxy@.service'],
      ['usr/share/doc/authproxy/examples/authproxy.yaml', 'packaging/authproxy.yaml'],
      ['usr/share/doc/authproxy/examples/authproxy.schema.json', 'packaging/authproxy.schema.json'],
    ]),
    directories: ['etc/authproxy'],
    suggests: 'nginx | apache2 | haproxy',
  },
]

await run('package-deb', async () => {
  const [output = 'dist/deb'] = process.argv.slice(2)
  const root = packageRoot()
  process.umask(0o022)
  await mkdir(resolve(output), { recursive: true })
  const at = Number(process.env['SOURCE_DATE_EPOCH'] ?? Math.floor(Date.now() / 1000))
  for (const description of packages) {
    const file = buildDebianPackage(description, {
      root: resolve(root),
      output: resolve(output),
      at,
    })
    await print(`${file}\n`)
  }
  return exitCodes.success
})
