/**
 * The command `cachesvc recall` lists the clients that were given a package.
 */
import { countOf, moment } from '../../../figures.ts'
import { jsonText } from '../../../json.ts'
import { type ExitCode, exitCodes, print } from '../../../program.ts'
import { packageNamed } from '../../archive/package-file.ts'
import { printComplaint } from '../../cli/base/terminal.ts'
import type { Config } from '../../config/config.ts'
import { type GivenPackage, givenPackages } from './given-record.ts'
import { comparedVersion, mayBeWithin, parseRange } from './row.ts'

/** Prints a line for each client, package file and day. `name` is that of a package, or of its source. */
export async function recall(
  { cacheDirectory, statistics }: Pick<Config, 'cacheDirectory' | 'statistics'>,
  {
    name,
    versions,
    json,
  }: { readonly name: string; readonly versions: string | undefined; readonly json: boolean },
): Promise<ExitCode> {
  const range = versions === undefined ? [] : parseRange(versions)
  if (range === undefined) {
    await printComplaint(
      `${versions} is neither a version nor a range such as ">= 5.6.0, << 5.6.1"`,
    )
    return exitCodes.usage
  }
  const found: GivenPackage[] = []
  let first: number | undefined
  for await (const given of givenPackages(cacheDirectory)) {
    first = Math.min(first ?? given.at, given.at)
    const named = packageNamed(given.file)
    if (named === undefined || (named.name !== name && named.directory !== name)) continue
    const version = comparedVersion({ source: named.name !== name }, named)
    if (mayBeWithin(version, [range]) !== false) found.push(given)
  }
  found.sort((a, b) => (a.client === b.client ? a.at - b.at : a.client < b.client ? -1 : 1))
  if (json) {
    await print(
      jsonText(found.map(({ at, ...one }) => ({ ...one, at: new Date(at).toISOString() }))),
    )
    return exitCodes.success
  }
  const lines = found.map(({ client, at, file }) => `${client}\t${moment(at)}\t${file}\n`)
  const clients = countOf(new Set(found.map(({ client }) => client)).size, 'client')
  const since = first === undefined ? 'the record is empty' : `the record begins ${moment(first)}`
  await print(`${lines.join('')}${clients}; ${since}\n`)
  if (!statistics.recall)
    await printComplaint('statistics.recall is false: nothing is recorded', 'warn')
  return exitCodes.success
}
