/**
 * An apt repository of Debian packages, in files that any web server can serve. Packages that bring their own Node.js are in the
 * component `main`, those that need the system's (Architecture: all) in `slim`.
 *
 *     pool/main/cachesvc_…_amd64.deb            stay when newer ones come
 *     dists/stable/main/binary-amd64/Packages.gz  also below by-hash
 *     dists/stable/InRelease, Release, Release.gpg
 *     cachesvc.asc                              the key that clients name in Signed-By
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import type { Seconds } from '../../lib/async/clock.ts'

export const suite = 'stable'
const components = ['main', 'slim'] as const
const architectures = ['all', 'amd64', 'arm64'] as const

interface Repository {
  readonly directory: string
  readonly signer: Signer
  /** The date in the Release file. */
  readonly at: Seconds
}

/** A secret key in a keyring of gpg. */
export interface Signer {
  /** The name of the key for gpg: a fingerprint or an address. */
  readonly key: string
  /** The directory of the keyring; the user's own when not given. */
  readonly home?: string
}

interface IndexFile {
  /** Below `dists/stable`. */
  readonly path: string
  readonly content: Buffer
}

/**
 * Adds the packages to the pool and writes the indexes of all that are there. Indexes are written before the Release file that
 * names them. Earlier indexes stay by their digests, for clients that have an earlier Release file.
 */
export async function publish(packages: readonly string[], repository: Repository): Promise<void> {
  const { directory } = repository
  for (const file of packages) {
    const pool = join(directory, 'pool', file.endsWith('_all.deb') ? 'slim' : 'main')
    await mkdir(pool, { recursive: true })
    await replace(join(pool, basename(file)), await readFile(file))
  }
  const indexes = (await Promise.all(components.map(name => indexesOf(directory, name)))).flat()
  const dist = join(directory, 'dists', suite)
  for (const { path, content } of indexes) {
    await replace(join(dist, dirname(path), 'by-hash/SHA256', sha256(content)), content)
    await replace(join(dist, path), content)
  }
  const text = release(indexes, repository.at)
  const signed = (how: readonly string[]) => gpg(repository.signer, how, text)
  const detached = signed(['--armor', '--detach-sign'])
  const cleartext = signed(['--clearsign'])
  await replace(join(dist, 'Release'), text)
  await replace(join(dist, 'Release.gpg'), detached)
  await replace(join(dist, 'InRelease'), cleartext)
  const { signer } = repository
  await replace(join(directory, 'cachesvc.asc'), gpg(signer, ['--armor', '--export', signer.key]))
}

/** Gives the work a new key without a passphrase, for a repository that is tried out, and deletes it afterwards. */
export async function withNewKey(work: (signer: Signer) => Promise<void>): Promise<void> {
  // The path of the agent's socket has to be shorter than 108 bytes, so the directory must not be deep.
  const home = await mkdtemp(join(tmpdir(), 'repository-key-'))
  const signer = { home, key: 'archive@cachesvc.example.org' }
  try {
    const generate = ['--passphrase', '', '--quick-generate-key', signer.key]
    gpg(signer, [...generate, 'ed25519', 'sign', 'never'])
    await work(signer)
  } finally {
    execFileSync('gpgconf', ['--homedir', home, '--kill', 'all'], { timeout: 60_000 })
    await rm(home, { recursive: true, force: true })
  }
}

function gpg({ home, key }: Signer, words: readonly string[], input = ''): Buffer {
  const place = home === undefined ? [] : ['--homedir', home, '--batch']
  const fixed = [...place, '--quiet', '--local-user', key, '--digest-algo', 'SHA512']
  // The standard error is the caller's: an agent asks for a passphrase at the terminal.
  const stdio = ['pipe', 'pipe', 'inherit'] satisfies ('pipe' | 'inherit')[]
  return execFileSync('gpg', [...fixed, ...words], { input, stdio, timeout: 600_000 })
}

async function indexesOf(directory: string, component: string): Promise<IndexFile[]> {
  const pool = join(directory, 'pool', component)
  await mkdir(pool, { recursive: true })
  const names = (await readdir(pool)).filter(name => name.endsWith('.deb')).sort()
  const stanzas = await Promise.all(names.map(name => stanzaOf(directory, component, name)))
  return architectures.flatMap(architecture => {
    const own = stanzas.filter(text => text.includes(`\nArchitecture: ${architecture}\n`))
    const content = Buffer.from(own.join('\n'))
    const path = `${component}/binary-${architecture}/Packages`
    return [
      { path, content },
      { path: `${path}.gz`, content: gzipSync(content, { level: 9 }) },
    ]
  })
}

/** The control fields of the package, and its place in the pool. */
async function stanzaOf(directory: string, component: string, name: string): Promise<string> {
  const path = `pool/${component}/${name}`
  const file = join(directory, path)
  const said = execFileSync('dpkg-deb', ['--field', file], { timeout: 60_000 }).toString()
  const content = await readFile(file)
  const fields = [`Filename: ${path}`, `Size: ${content.length}`, `SHA256: ${sha256(content)}`]
  return `${said.trimEnd()}\n${fields.join('\n')}\n`
}

function release(indexes: readonly IndexFile[], at: Seconds): string {
  const sums = indexes.map(({ path, content }) => ` ${sha256(content)} ${content.length} ${path}\n`)
  const fields = [
    'Origin: cachesvc',
    'Label: cachesvc',
    `Suite: ${suite}`,
    `Codename: ${suite}`,
    `Date: ${new Date(at * 1000).toUTCString().replace('GMT', '+0000')}`,
    `Architectures: ${architectures.join(' ')}`,
    `Components: ${components.join(' ')}`,
    'Acquire-By-Hash: yes',
    'Description: cachesvc and authproxy',
    'SHA256:',
  ]
  return `${fields.join('\n')}\n${sums.join('')}`
}

function sha256(content: Buffer): string {
  return createHash('sha256').update(content).digest('hex')
}

/** A reader gets the old content or the new, never a part. */
async function replace(path: string, content: Buffer | string): Promise<void> {
  await mkdir(dirname(path), { recursive: true })
  await writeFile(`${path}.new`, content)
  await rename(`${path}.new`, path)
}
