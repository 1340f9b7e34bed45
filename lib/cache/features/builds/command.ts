/**
 * The command `cachesvc build` asks the running service about its builds. It exports a locked build itself.
 */
import { resolve } from 'node:path'
import { writeFileAtomically } from '../../../files/atomic-file.ts'
import { packageVersion } from '../../../package.ts'
import { type ExitCode, exitCodes, print } from '../../../program.ts'
import type { Config } from '../../config/config.ts'
import { type Build, buildNameRule, contentsOf, isBuildName } from './build.ts'
import { encodeBuild, listText } from './build-file.ts'
import { readBuild } from './builds.ts'
import { buildMember } from '../bundle/format.ts'
import { keepingKey } from '../../store/key.ts'
import type { BuildFormat } from '../../cli/arguments.ts'
import { askService } from '../../cli/explain.ts'
import { exportChosen } from '../bundle/command.ts'
import { printComplaint } from '../../cli/base/terminal.ts'

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
  config: Config,
  { json, format }: { readonly json: boolean; readonly format: BuildFormat },
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
    return exportBuild(name, printed ? undefined : resolve(file), { config, format })
  const path = act === 'import' ? resolve(file) : ''
  return askService(config.cacheDirectory, { do: 'build', act, name, file: path, json })
}

async function exportBuild(
  name: string,
  path: string | undefined,
  { config, format }: { readonly config: Config; readonly format: BuildFormat },
): Promise<ExitCode> {
  const build = await readBuild(config.cacheDirectory, name)
  if (typeof build === 'string' || build.locked === undefined) {
    const because = typeof build === 'string' ? build : 'it is recorded still, so lock it first'
    await printComplaint(`the build ${name} cannot be exported: ${because}`)
    return exitCodes.failure
  }
  if (format === 'bundle') return exportBundleOf(build, path ?? '', config)
  const text = await (format === 'list' ? listText(build) : spdx(build))
  if (path === undefined) await print(text)
  else await writeFileAtomically(path, text)
  return exitCodes.success
}

async function spdx(build: Build): Promise<string> {
  const { spdxText } = await import('./spdx.ts')
  return spdxText(build, `cachesvc-${packageVersion()}`)
}

async function exportBundleOf(build: Build, path: string, config: Config): Promise<ExitCode> {
  const digests = contentsOf([build])
  const keys = new Set([...digests.keys()].map(keepingKey))
  let found = 0
  const code = await exportChosen(path, config, async () => ({
    chosen: key => {
      if (keys.has(key)) found += 1
      return keys.has(key)
    },
    unread: [],
    members: [{ name: buildMember(build.name), text: encodeBuild(build, false) }],
  }))
  if (code === exitCodes.success && found < digests.size) {
    await printComplaint(
      `${digests.size - found} contents of ${build.name} are missing in the store`,
    )
    return exitCodes.failure
  }
  return code
}
