/**
 * apt with directories of its own: it reads the indexes of an archive through the proxy and says where packages are, with what they
 * depend on. Nothing of the machine's apt is changed.
 *
 * # Facts
 * - With an empty list of installed packages apt names every package that the wanted ones depend on, as for a new machine.
 * - `--print-uris` prints a line for each file: `'URL' NAME SIZE SHA256:DIGEST`. apt asks for nothing else.
 * - Paths that apt.conf(5) documents as absolute stay those of the machine unless they are set one by one.
 */
import { execFile } from 'node:child_process'
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { extname, join } from 'node:path'
import { Failure } from '../../../errors.ts'

/** The archive to read, and what for. */
export interface AptOptions {
  /** The archive; undefined for the sources of this machine, which then have the suites. */
  readonly from: string | undefined
  readonly suite: readonly string[]
  readonly component: readonly string[]
  /** Undefined for the architecture of this machine. */
  readonly arch: string | undefined
  /** The keys of the archive; undefined for those that apt on this machine trusts. */
  readonly keyring: string | undefined
}

/** A file that apt would fetch. */
export interface AptFile {
  readonly url: string
  readonly size: number
  /** Lower-case hex; undefined when the index names none that is strong. */
  readonly sha256: string | undefined
}

export type OwnApt = Awaited<ReturnType<typeof openOwnApt>>

/** Makes the directories and the configuration, with the URL of the proxy. Close it, which removes them. */
export async function openOwnApt(options: AptOptions, proxy: string) {
  const directory = await mkdtemp(join(tmpdir(), 'cachesvc-fetch-'))
  // As root apt downloads as the user _apt, who has to reach its directories.
  await chmod(directory, 0o755)
  const close = () => rm(directory, { recursive: true, force: true })
  try {
    const below = (path: string) => join(directory, path)
    const etc = ['apt.conf.d', 'preferences.d', 'sources.list.d'].map(name => `etc/apt/${name}`)
    for (const path of [...etc, 'lists/partial', 'archives/partial'])
      await mkdir(below(path), { recursive: true })
    await writeFile(below('status'), '')
    if (options.from !== undefined) {
      const keyring = options.keyring && below(`keyring${extname(options.keyring)}`)
      // The user _apt may not be able to read the given file.
      if (keyring !== undefined)
        await writeFile(keyring, await readFile(options.keyring ?? ''), { mode: 0o644 })
      const sources = below('etc/apt/sources.list.d/fetch.list')
      await writeFile(sources, sourceLines(options, options.from, keyring))
    }
    await writeFile(below('apt.conf'), settingLines(options, directory, proxy))
    const env = { ...process.env, APT_CONFIG: below('apt.conf'), LC_ALL: 'C' }
    return {
      /** Runs apt-get. Resolves to what it printed; rejects with its complaints when it fails. */
      get: (...words: readonly string[]) => aptGet(words, { env, cwd: directory }),
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

/** The lines of sources.list(5), for packages and for their sources. */
function sourceLines(
  { suite: suites, component }: AptOptions,
  from: string,
  keyring: string | undefined,
): string {
  const url = /^https?:\/\//.test(from) ? from : `http://${from}`
  const signed = keyring === undefined ? '' : ` [signed-by=${keyring}]`
  return suites
    .flatMap(suite => {
      // A suite that ends with a slash is a directory without components.
      const parts = suite.endsWith('/') ? [] : component.length === 0 ? ['main'] : component
      const rest = [url, suite, ...parts].join(' ')
      return [`deb${signed} ${rest}\n`, `deb-src${signed} ${rest}\n`]
    })
    .join('')
}

/** Debian's names of architectures that have another one in Node.js. */
const architectures: Readonly<Record<string, string>> = { x64: 'amd64', ia32: 'i386', arm: 'armhf' }

function settingLines({ from, arch }: AptOptions, directory: string, proxy: string): string {
  const architecture = arch ?? architectures[process.arch] ?? process.arch
  const machines = from === undefined ? '/etc/apt' : join(directory, 'etc/apt')
  const settings = {
    Dir: directory,
    'Dir::State::lists': join(directory, 'lists'),
    'Dir::State::status': join(directory, 'status'),
    'Dir::Cache::archives': join(directory, 'archives'),
    'Dir::Etc::sourcelist': join(machines, 'sources.list'),
    'Dir::Etc::sourceparts': join(machines, 'sources.list.d'),
    'Dir::Etc::trusted': '/etc/apt/trusted.gpg',
    'Dir::Etc::trustedparts': '/etc/apt/trusted.gpg.d',
    'Dir::Etc::netrc': '/etc/apt/auth.conf',
    'Dir::Etc::netrcparts': '/etc/apt/auth.conf.d',
    'APT::Architecture': architecture,
    'Acquire::http::Proxy': proxy,
    'Acquire::https::Proxy': proxy,
    // Of the machines that install; the environment of this command has none.
    'Acquire::Languages': 'en',
  }
  const lines = Object.entries(settings).map(([name, value]) => `${name} "${value}";\n`)
  return `${lines.join('')}#clear APT::Architectures;\nAPT::Architectures { "${architecture}"; };\n`
}

const mostOutput = 256 * 1024 * 1024

/** Runs apt-get in a directory without packages: `download --print-uris` leaves out the files that the working directory has. */
function aptGet(
  words: readonly string[],
  place: { readonly env: NodeJS.ProcessEnv; readonly cwd: string },
): Promise<string> {
  const options = { ...place, maxBuffer: mostOutput, encoding: 'utf8' as const }
  return new Promise((resolve, reject) => {
    execFile('apt-get', ['--quiet=2', ...words], options, (error, stdout, stderr) => {
      // Without --error-on=any, `update` succeeds when a mirror cannot be reached.
      if (error === null) return resolve(stdout)
      const said = stderr
        .split('\n')
        .filter(line => /^[EW]: /.test(line))
        .map(line => line.slice(3))
      const sentence = said.length === 0 ? error.message : said.join('\n  ')
      reject(new Failure(`apt: ${sentence}`, { code: 'fetch-apt', cause: error }))
    })
  })
}

/** The files in the output of `apt-get --print-uris`. */
export function printedFiles(output: string): readonly AptFile[] {
  return output.split('\n').flatMap(line => {
    const [, url, size, digest] =
      /^'(https?:[^']+)' \S+ (\d+)(?: SHA256:([0-9a-f]{64}))?/.exec(line) ?? []
    return url === undefined ? [] : [{ url, size: Number(size), sha256: digest }]
  })
}
