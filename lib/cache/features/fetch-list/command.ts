/**
 * The command `cachesvc fetch`: fills the store of the running proxy with packages from a list, with what they depend on and their
 * sources, for a site without a connection.
 */
import { systemClock } from '../../../async/clock.ts'
import { explainError } from '../../../errors.ts'
import { countOf, size } from '../../../figures.ts'
import { readBounded } from '../../../files/bounded-file.ts'
import { formatAuthority } from '../../../http/message/target.ts'
import { type ExitCode, exitCodes, print } from '../../../program.ts'
import { packageNamed } from '../../archive/package-file.ts'
import { eachOf, fetchThrough, ownAddress } from '../../cli/base/proxy.ts'
import { ProgressLine, printComplaint } from '../../cli/base/terminal.ts'
import type { Config } from '../../config/config.ts'
import { type AptFile, type AptOptions, type OwnApt, openOwnApt, printedFiles } from './own-apt.ts'

export interface FetchOptions extends AptOptions {
  /** The path of the list. */
  readonly packages: string | undefined
  readonly 'with-dependencies': boolean
  readonly sources: boolean
}

/** The bytes of the largest list that is read. */
const mostListBytes = 16 * 1024 * 1024
const mostShown = 10

/** Fetches the indexes and the packages. The exit code is a failure when one did not arrive. */
export async function fetchList(config: Config, options: FetchOptions): Promise<ExitCode> {
  const wrong = usageProblem(options)
  if (wrong !== undefined) {
    await printComplaint(wrong)
    return exitCodes.usage
  }
  const { packages = '' } = options
  const names = namesIn((await readBounded(packages, mostListBytes)).bytes.toString())
  if (names.length === 0) {
    await printComplaint(`${packages} names no package`)
    return exitCodes.failure
  }
  const proxy = `http://${formatAuthority(ownAddress(config.listen[0]))}`
  const apt = await openOwnApt(options, proxy)
  try {
    await printComplaint('reading the indexes', 'info')
    await apt.get('update', '--error-on=any')
    const { files, problems } = await filesOf(apt, names, options)
    return await fetchFiles(files, problems, config)
  } finally {
    await apt.close()
  }
}

function usageProblem(options: FetchOptions): string | undefined {
  const { from, suite, component, keyring, packages } = options
  if (packages === undefined) return 'fetch needs --packages=FILE'
  if (from !== undefined) return suite.length === 0 ? '--from needs a --suite' : undefined
  return suite.length + component.length > 0 || keyring !== undefined
    ? '--suite, --component and --keyring need --from; without it the sources of this machine are read'
    : undefined
}

/** The packages that a list names: a line for each, as apt takes them; `#` begins a comment. */
export function namesIn(list: string): readonly string[] {
  const lines = list.split('\n').map(line => line.replace(/(^|\s)#.*$/, '').trim())
  return [...new Set(lines.filter(line => line !== ''))]
}

/** The files of the packages, each once, and a sentence for each package that has no sources. */
async function filesOf(
  apt: OwnApt,
  names: readonly string[],
  { 'with-dependencies': all, sources }: FetchOptions,
): Promise<{ readonly files: readonly AptFile[]; readonly problems: readonly string[] }> {
  const what = all ? ['install', '--yes'] : ['download']
  const packages = printedFiles(await apt.get(...what, '--print-uris', ...names))
  // The name in the URL is that of the package; apt finds its source and the version.
  const named = new Set(packages.flatMap(({ url }) => packageNamed(url)?.name ?? []))
  const problems: string[] = []
  const found = !sources || named.size === 0 ? [] : await sourcesOf(apt, [...named], problems)
  const files = new Map([...packages, ...found].map(file => [file.url, file]))
  return { files: [...files.values()], problems }
}

/** The files of the sources of packages. One without sources fails the question about all, so that each is then asked for by itself. */
async function sourcesOf(
  apt: OwnApt,
  names: readonly string[],
  problems: string[],
): Promise<readonly AptFile[]> {
  try {
    const words = ['source', '--download-only', '--print-uris', ...names]
    return printedFiles(await apt.get(...words))
  } catch (error) {
    if (names.length === 1) {
      problems.push(explainError(error))
      return []
    }
    const files: AptFile[] = []
    for (const name of names) files.push(...(await sourcesOf(apt, [name], problems)))
    return files
  }
}

async function fetchFiles(
  files: readonly AptFile[],
  problems: readonly string[],
  config: Config,
): Promise<ExitCode> {
  const line = new ProgressLine(process.stderr, systemClock)
  const total = files.reduce((sum, file) => sum + file.size, 0)
  const failed: string[] = []
  let [done, read, stored] = [0, 0, 0]
  await eachOf(files, async ({ url, size: expected, sha256 }) => {
    const found = await fetchThrough(url, config.listen[0], bytes => {
      read += bytes
      line.show(`${done} of ${files.length} files, ${size(read)} of ${size(total)}`)
    })
    done += 1
    if ('because' in found) failed.push(`${url}: ${found.because}`)
    else if (found.bytes !== expected || (sha256 !== undefined && sha256 !== found.digest))
      failed.push(`${url}: it is not the file that the index names`)
    else if (found.wasStored) stored += 1
  })
  line.end()
  const arrived = countOf(files.length - failed.length, 'file')
  await print(`${arrived}, ${size(read)}; ${stored} of them were stored already\n`)
  const wrong = [...problems, ...failed]
  for (const sentence of wrong.slice(0, mostShown)) await printComplaint(sentence)
  if (wrong.length > mostShown) await printComplaint(`and ${wrong.length - mostShown} more`)
  return wrong.length === 0 ? exitCodes.success : exitCodes.failure
}
