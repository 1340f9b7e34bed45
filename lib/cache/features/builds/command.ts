/**
 * The command `cachesvc build` asks the running service about its builds. It exports a locked build itself, and compares
 * the files that a document names.
 */
import { resolve } from 'node:path'
import { systemClock } from '../../../async/clock.ts'
import { countOf } from '../../../figures.ts'
import { writeFileAtomically } from '../../../files/atomic-file.ts'
import { readBounded } from '../../../files/bounded-file.ts'
import { packageVersion } from '../../../package.ts'
import { type ExitCode, exitCodes, print } from '../../../program.ts'
import { ProgressLine, printComplaint } from '../../cli/base/terminal.ts'
import { keepingKey } from '../../store/key.ts'
import type { CommandContext } from '../feature.ts'
import { type Build, buildNameRule, contentsOf, isBuildName } from './build.ts'
import {
  buildSuffix,
  encodeBuild,
  listText,
  mostRecordBytes,
  recordsDirectory,
} from './build-file.ts'
import { readBuild } from './records.ts'

type BuildFormat = 'bundle' | 'list' | 'spdx' | 'cyclonedx' | 'in-toto'

const actions: Readonly<Record<string, string>> = {
  list: '',
  show: 'NAME',
  record: 'NAME',
  lock: 'NAME',
  unlock: 'NAME',
  remove: 'NAME',
  fetch: 'NAME',
  import: 'NAME FILE',
  export: 'NAME FILE',
  verify: 'FILE',
}

export async function runBuild(
  operands: readonly string[],
  { json, format }: { readonly json: boolean; readonly format: BuildFormat },
  context: CommandContext,
): Promise<ExitCode> {
  const [act = 'list', name = '', file = ''] = operands
  const wants = actions[act]?.split(' ').filter(word => word !== '')
  if (wants === undefined) {
    await printComplaint(
      `build takes ${Object.keys(actions).join(', ')}; not ${JSON.stringify(act)}`,
    )
    return exitCodes.usage
  }
  const printed = act === 'export' && format !== 'bundle' && operands.length === 2
  if (
    operands.length > 1 + wants.length ||
    (!printed && operands.length < wants.length + 1 && act !== 'list')
  ) {
    await printComplaint(`build ${act} takes ${actions[act] || 'nothing more'}`)
    return exitCodes.usage
  }
  if (act === 'verify') return verifyFile(resolve(name), context)
  if (wants.length > 0 && !isBuildName(name)) {
    await printComplaint(buildNameRule)
    return exitCodes.usage
  }
  if (act === 'export')
    return exportBuild(name, printed ? undefined : resolve(file), { context, format })
  const path = act === 'import' ? resolve(file) : ''
  return context.ask({ do: 'build', act, name, file: path, json })
}

async function exportBuild(
  name: string,
  path: string | undefined,
  { context, format }: { readonly context: CommandContext; readonly format: BuildFormat },
): Promise<ExitCode> {
  const build = await readBuild(context.config.cacheDirectory, name)
  if (typeof build === 'string' || build.locked === undefined) {
    const because = typeof build === 'string' ? build : 'it is recorded still, so lock it first'
    await printComplaint(`the build ${name} cannot be exported: ${because}`)
    return exitCodes.failure
  }
  if (format === 'bundle') return exportBundleOf(build, path ?? '', context)
  const text = await textOf(build, format)
  if (path === undefined) await print(text)
  else await writeFileAtomically(path, text)
  return exitCodes.success
}

async function textOf(build: Build, format: Exclude<BuildFormat, 'bundle'>): Promise<string> {
  const version = packageVersion()
  switch (format) {
    case 'list':
      return listText(build)
    case 'spdx':
      return (await import('./spdx.ts')).spdxText(build, `cachesvc-${version}`)
    case 'cyclonedx':
      return (await import('./provenance.ts')).cycloneDxText(build, version)
    case 'in-toto':
      return (await import('./provenance.ts')).resolvedDependenciesText(build)
  }
}

/**
 * Asks the running proxy for each file that a document names, and prints those that are other ones today. The exit code is a failure when
 * a package is; indexes change with each update, and are counted.
 */
async function verifyFile(path: string, { config }: CommandContext): Promise<ExitCode> {
  const { changesWithUpdates, namedFiles } = await import('./verify-file.ts')
  const { eachOf, fetchThrough } = await import('../../cli/base/proxy.ts')
  const files = namedFiles((await readBounded(path, mostRecordBytes)).bytes.toString())
  if (typeof files === 'string') {
    await printComplaint(`${path}: ${files}`)
    return exitCodes.failure
  }
  const line = new ProgressLine(process.stderr, systemClock)
  const wrong: string[] = []
  let [done, moved] = [0, 0]
  await eachOf(files, async file => {
    const found = await fetchThrough(file.url, config.listen[0])
    done += 1
    line.show(`${done} of ${countOf(files.length, 'file')}`)
    if ('digest' in found && found.digest === file.digest) return
    if (changesWithUpdates(file)) moved += 1
    else if ('because' in found) wrong.push(`${file.url}: ${found.because}`)
    else wrong.push(`${file.url}: it has the SHA-256 ${found.digest}, ${file.digest} is named`)
  })
  line.end()
  for (const sentence of wrong.sort()) await printComplaint(sentence)
  const same = files.length - wrong.length - moved
  const indexes = moved === 0 ? '' : `; ${countOf(moved, 'index file')} changed with an update`
  await print(`${same} of ${countOf(files.length, 'file')} as named, ${wrong.length} not${indexes}
`)
  return wrong.length === 0 ? exitCodes.success : exitCodes.failure
}

async function exportBundleOf(
  build: Build,
  path: string,
  { config, features }: CommandContext,
): Promise<ExitCode> {
  const exportFiles = features.find(one => one.exportFiles !== undefined)?.exportFiles
  if (exportFiles === undefined) {
    await printComplaint('this cachesvc writes no bundles: export a list with --format=list')
    return exitCodes.failure
  }
  const digests = contentsOf([build])
  const keys = new Set([...digests.keys()].map(keepingKey))
  let found = 0
  const code = await exportFiles(path, config, async () => ({
    chosen: key => {
      if (keys.has(key)) found += 1
      return keys.has(key)
    },
    unread: [],
    members: [
      { name: `${recordsDirectory}/${build.name}${buildSuffix}`, text: encodeBuild(build, false) },
    ],
  }))
  if (code === exitCodes.success && found < digests.size) {
    await printComplaint(
      `${digests.size - found} contents of ${build.name} are missing in the store`,
    )
    return exitCodes.failure
  }
  return code
}
