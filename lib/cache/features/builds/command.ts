/**
 * The command `cachesvc build` asks the running service about its builds. It exports a locked build itself.
 */
import { resolve } from 'node:path'
import { writeFileAtomically } from '../../../files/atomic-file.ts'
import { packageVersion } from '../../../package.ts'
import { type ExitCode, exitCodes, print } from '../../../program.ts'
import { printComplaint } from '../../cli/base/terminal.ts'
import { keepingKey } from '../../store/key.ts'
import type { CommandContext } from '../feature.ts'
import { type Build, buildNameRule, contentsOf, isBuildName } from './build.ts'
import { buildSuffix, encodeBuild, listText, recordsDirectory } from './build-file.ts'
import { readBuild } from './records.ts'

type BuildFormat = 'bundle' | 'list' | 'spdx'

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
  const text = await (format === 'list' ? listText(build) : spdx(build))
  if (path === undefined) await print(text)
  else await writeFileAtomically(path, text)
  return exitCodes.success
}

async function spdx(build: Build): Promise<string> {
  const { spdxText } = await import('./spdx.ts')
  return spdxText(build, `cachesvc-${packageVersion()}`)
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
