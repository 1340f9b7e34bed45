/**
 * The commands of cachesvc. Each command loads its modules when it runs.
 */

import { systemClock } from '../../async/clock.ts'
import type { Override } from '../../config/dump.ts'
import { problemOf } from '../../errors.ts'
import { formatAuthority } from '../../http/message/target.ts'
import type { Log } from '../../log/log.ts'
import { type ExitCode, exitCodes, print, traceSources } from '../../program.ts'
import { type Config, namedCacheDirectory, type Overrides, surroundings } from '../config/config.ts'
import { configCheck, defaultConfigFile, loadConfig } from '../config/loading/load-config.ts'
import { features } from '../features.ts'
import type { Line } from './arguments.ts'
import { printComplaint } from './base/terminal.ts'

/** Runs a command. Returns the exit code. */
export async function command({ run, operands, options }: Line): Promise<number> {
  const added = features.flatMap(({ commands }) => commands ?? []).find(({ name }) => name === run)
  const { 'check-config': checks, 'dump-config': dumps } = options
  // Both are asked beside an installed service, as a rule by a person who is not its user.
  const serves = run === 'serve' && !checks && !dumps
  const load = () => {
    const overrides = { cacheDirectory: options['cache-dir'], listen: options.listen }
    if (added?.readsConfiguration === true) return defaults(overrides)
    return loadConfig(options.config, overrides, surroundings({ serves }))
  }
  const withFiles = () => load().then(withFilesChecked)
  const loaded = await (checks || serves ? withFiles() : load())
  for (const warning of loaded.warnings) await printComplaint(`warning: ${warning}`, 'warn')
  if (!loaded.ok) {
    for (const problem of loaded.problems) await printComplaint(problem)
    // The service runs on with its old configuration, and operators ask for its status most when the new one is wrong.
    if (run !== 'status' && run !== 'stats' && run !== 'socket-unit') return exitCodes.configuration
    const likely = await likelyConfig(loaded.file, options['cache-dir'])
    if (likely === undefined) return exitCodes.configuration
    if (run === 'socket-unit') return printSocketUnit(likely)
    const { cacheDirectory } = likely
    const { askService } = await import('./base/ask.ts')
    await printComplaint(
      `the configuration is wrong; the service of ${cacheDirectory} is asked`,
      'warn',
    )
    return askService(cacheDirectory, { do: run, json: options.json })
  }
  const { value: config, warnings, file } = loaded
  if (checks) {
    if (file === defaultConfigFile && options['cache-dir'] === undefined) {
      const { serviceDirectoryProblem } = await import('./service-directory.ts')
      const problem = await serviceDirectoryProblem(config.cacheDirectory)
      if (problem !== undefined) {
        await printComplaint(problem)
        return exitCodes.configuration
      }
    }
    await print(`${file ?? 'the defaults'}: no problems\n`)
    return exitCodes.success
  }
  if (dumps) return dumpConfig(loaded, options)
  const ask = async (request: object): Promise<ExitCode> => {
    const { askService } = await import('./base/ask.ts')
    return askService(config.cacheDirectory, request)
  }
  if (added !== undefined)
    return added.run({ operands, options }, { config, features, ask, startService })
  const [of = ''] = operands
  const { json, 'dry-run': dryRun } = options
  switch (run) {
    case 'serve': {
      traceSources()
      const { serveWith } = await import('./serve.ts')
      return serveWith({ config, warnings, file, load: withFiles })
    }
    case 'explain': {
      const { printExplanation } = await import('./explain.ts')
      const { head, field: fields, client } = options
      const asked = { of, method: head ? 'HEAD' : 'GET', fields, client } as const
      return printExplanation(asked, config, options.config)
    }
    case 'get': {
      const { printFile } = await import('./get.ts')
      return printFile(of, config, options.output)
    }
    case 'list': {
      const { printList } = await import('./list.ts')
      return printList(operands[0], config, { json, sort: options.sort })
    }
    case 'remove':
    case 'refresh': {
      if (!dryRun) return ask({ do: run, of })
      const { printChosen } = await import('./list.ts')
      return printChosen(run, of, config)
    }
    case 'retention':
      if (dryRun) return ask({ do: run, json })
      await printComplaint(
        'the service removes files by itself: cachesvc retention --dry-run says which go next',
      )
      return exitCodes.usage
    case 'status':
    case 'stats':
    case 'reload':
      return ask({ do: run, json })
    case 'socket-unit':
      return printSocketUnit(config)
  }
}

/** Starts a service for a command. */
async function startService(config: Config, log: Log) {
  const service = await import('../service.ts')
  return service.startService({
    config,
    warnings: [],
    log,
    start: { sockets: [], signal: new AbortController().signal },
    reload: async () => ({ problems: ['this service keeps its configuration'] }),
  })
}

/** The configuration when there is no file. */
async function defaults(overrides: Overrides): ReturnType<typeof loadConfig> {
  const checked = configCheck(overrides, surroundings({ serves: false }))({})
  if (!checked.ok) throw new Error('the defaults are wrong')
  return { ...checked, warnings: [], file: undefined }
}

/** A configuration with only the places of a file that has problems. Undefined when the places are wrong themselves. */
async function likelyConfig(
  file: string | undefined,
  named: string | undefined,
): Promise<Config | undefined> {
  const { looseSettings } = await import('../../config/config-file.ts')
  const found = file === undefined ? {} : await looseSettings(file)
  const places = ['cache_directory', 'listen', 'listen_address', 'listen_port', 'alternative_ports']
  const known = places.filter(key => found[key] !== undefined).map(key => [key, found[key]])
  const overrides = { cacheDirectory: named, listen: undefined }
  const checked = configCheck(overrides, surroundings({ serves: false }))(Object.fromEntries(known))
  return checked.ok ? checked.value : undefined
}

/** Prints every setting. `--listen`, `--cache-dir` and the variable for the cache directory take precedence over the file. */
async function dumpConfig(
  { value: { cacheDirectory }, file }: Extract<Loaded, { readonly ok: true }>,
  options: Line['options'],
): Promise<ExitCode> {
  const { dumpSettings } = await import('../../config/dump.ts')
  const { looseSettings } = await import('../../config/config-file.ts')
  const { settings } = await import('../config/settings.ts')
  const document = file === undefined ? {} : await looseSettings(file)
  const { listen = [], 'cache-dir': named } = options
  const overrides = new Map<string, Override>()
  const directory = (source: string) =>
    overrides.set('cache_directory', { value: cacheDirectory, source })
  if (named !== undefined) directory('--cache-dir')
  else if (namedCacheDirectory(surroundings({ serves: false })) !== undefined)
    directory('CACHESVC_CACHE_DIR')
  else if (document['cache_directory'] === undefined) directory('default')
  if (listen.length > 0) {
    const value = listen.map(({ address, port }) =>
      address === undefined ? `:${port}` : formatAuthority({ host: address, port }),
    )
    overrides.set('listen', { value, source: '--listen' })
  }
  const source = (): string => file ?? 'no file'
  await print(dumpSettings(settings, { document, source, overrides }))
  return exitCodes.success
}

async function printSocketUnit({ listen }: Config): Promise<ExitCode> {
  const { socketUnit } = await import('../../http/server/listen.ts')
  await print(socketUnit(listen))
  return exitCodes.success
}

type Loaded = Awaited<ReturnType<typeof loadConfig>>

/** Checks the certificates, keys and credentials that a configuration names. Their problems count as problems of the configuration. */
async function withFilesChecked(loaded: Loaded): Promise<Loaded> {
  if (!loaded.ok) return loaded
  const { originAuthorities } = await import('../fetch/origin-client.ts')
  const { readCredentials } = await import('../fetch/origin-credentials.ts')
  const config: Config = loaded.value
  const problems = [
    ...(await Promise.all(features.map(({ problem }) => problem?.(config, systemClock.now())))),
    await problemOf(() => originAuthorities(config.https.originCa)),
    await problemOf(() => readCredentials(config.archives, process.env)),
  ].filter(problem => problem !== undefined)
  const { warnings, file } = loaded
  return problems.length > 0 ? { ok: false, problems, warnings, file } : loaded
}
