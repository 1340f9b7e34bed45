/**
 * The commands of authproxy that need an instance, the daemon among them. Each loads what it needs when it runs.
 */
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'
import { printAnswer } from '../../admin-socket.ts'
import { systemClock } from '../../async/clock.ts'
import { readListenAddress } from '../../config/address-kinds.ts'
import { readResult, readFailure as wrongly } from '../../config/reading.ts'
import { valueAt } from '../../config/settings.ts'
import { explainError } from '../../errors.ts'
import { errorLine } from '../../log/journal.ts'
import type { LogLevel } from '../../log/log.ts'
import { printable } from '../../log/redact.ts'
import { type ExitCode, exitCodes, print, traceSources } from '../../program.ts'
import type { Config } from '../config/config.ts'
import { type LoadedConfig, loadConfig } from '../config/loading/load-config.ts'
import type { StartFinding, UsableConfig } from '../features/feature.ts'
import { features } from '../features.ts'
import { failuresFile } from '../pages/failure-records.ts'
import { addedCommands, instanceOf, type Line } from './arguments.ts'

/** Runs a command that needs the configuration of an instance; answers the exit code. */
export async function command(line: Line): Promise<number> {
  const { run, operands, options } = line
  const place = { ...instanceOf(line), environment: process.env }
  const load = () => loadConfig(place)
  if (run === 'socket-unit') return printSocketUnit(await load(), options.checks)
  const loaded = await load()
  for (const note of loaded.notes) await tell(note, 'info')
  const added = addedCommands.find(({ name }) => name === run)
  // A command of a feature tells the warnings in its own way.
  const told = loaded.ok && added !== undefined ? [] : loaded.warnings
  for (const warning of told) await tell(`warning: ${warning}`, 'warn')
  if (!loaded.ok) {
    const count = loaded.problems.length
    const problems = count === 1 ? '1 problem' : `${count} problems`
    await tell(`failed to load configuration from ${loaded.from}: ${problems}`)
    for (const problem of loaded.problems) await tell(problem)
    const bare = operands.length === 0 && options.config === undefined
    const absent = !existsSync(loaded.from)
    if (bare && absent) await tell(firstSteps)
    if (run === 'explain' && operands.length === 1 && absent) await tell(howToExplain)
    if (run !== 'status' || absent) return exitCodes.configuration
    // The instance runs on with its old configuration, and people ask it most often when the new one is wrong.
    const { askInstance } = await import('./ask.ts')
    return askInstance({ ...place, loaded }, { do: run }, tell)
  }
  const config = loaded.value
  if (options['check-config']) return checkAround(loaded)
  if (options['dump-config']) return dumpConfig(loaded)
  if (added !== undefined) return added.run(line, { loaded })
  switch (run) {
    case 'status':
    case 'reload': {
      const { askInstance } = await import('./ask.ts')
      return askInstance({ ...place, loaded }, { do: run }, tell)
    }
    case 'rotate-keys':
      return rotate(config, options.now)
    case 'explain': {
      const [reference = ''] = operands
      const { lockOf } = await import('../keys/dynamic-file.ts')
      // When the instance does not answer, or is of an older version, its file is read.
      const asked = printAnswer(lockOf(config.configPath), { do: run, reference }, tell)
      const code = await asked.catch(() => undefined)
      if (code !== undefined && code !== 'forbidden') return code
      const { explainFromFile } = await import('../explain.ts')
      const { found, lines } = await explainFromFile(reference, failuresFile(config.configPath))
      await print(`${lines.join('\n')}\n`, found ? process.stdout : process.stderr)
      return found ? exitCodes.success : exitCodes.failure
    }
    default:
      return serveInstance(loaded, load)
  }
}

/** Runs the daemon until it receives a signal to stop; `load` loads the configuration again. */
async function serveInstance(
  { value: config, from }: UsableConfig,
  load: () => Promise<LoadedConfig>,
): Promise<ExitCode> {
  traceSources()
  // Garbage is collected when it is a third of what is in use. By default V8 waits for three times as much, and an instance
  // that has become idle keeps that.
  setFlagsFromString('--heap-growing-percent=35')
  // Threads begin later and take this size. The garbage of one message fits in the young generation, so it is collected there
  // and never moves to the old one.
  setFlagsFromString('--max-semi-space-size=4')
  const [{ startService }, { serve }, { createLog }] = await Promise.all([
    import('../service.ts'),
    import('../../daemon.ts'),
    import('../../log/log.ts'),
  ])
  const log = createLog({ level: config.log.level })
  for (const { warnings } of features) {
    for (const warning of (await warnings?.(config, from)) ?? []) log.warn(warning)
  }
  const reload = async () => {
    const again = await load()
    for (const warning of again.warnings) log.warn(warning)
    return again.ok ? { config: again.value } : { problems: again.problems }
  }
  return serve({
    log,
    start: (start, reloadDaemon) => startService({ config, log, start, reload, reloadDaemon }),
  })
}

/** Prints the drop-in of a socket unit. The unit has to have its address also while another setting is wrong. */
async function printSocketUnit(loaded: LoadedConfig, ofChecks: boolean): Promise<ExitCode> {
  const { socketUnit } = await import('../../http/server/listen.ts')
  const group = ofChecks ? 'forwardAuth' : 'proxy'
  const address = loaded.ok ? listenerOf(loaded.value, group) : await likelyListener(loaded, group)
  if (!address.ok) {
    await tell(`${loaded.from}: ${group}.listenAddress: ${address.problem}`)
    return exitCodes.configuration
  }
  await print(socketUnit([address.value]))
  return exitCodes.success
}

function listenerOf({ listen, forwardAuth }: Config, group: 'proxy' | 'forwardAuth') {
  const place = group === 'proxy' ? listen : forwardAuth?.listen
  return place === undefined ? wrongly('is not set') : readResult(place)
}

async function likelyListener({ from }: LoadedConfig, group: 'proxy' | 'forwardAuth') {
  const { looseSettings } = await import('../../config/config-file.ts')
  const found = valueAt(await looseSettings(from), [group, 'listenAddress'])
  if (group === 'proxy') return readListenAddress(found)
  const { readCheckAddress } = await import('../config/setting-forward-auth.ts')
  return found === undefined ? wrongly('is not set') : readCheckAddress(found)
}

const firstSteps =
  'no instance is set up. To try authproxy on this machine: authproxy demo. To set one up: SETTING UP in authproxy(8); an example is /usr/share/doc/authproxy/examples/authproxy.yaml, or packaging/authproxy.yaml of the source'

const howToExplain =
  'explain takes the reference of a page, and the instance after it: authproxy explain REFERENCE INSTANCE'

/** The checks of `--check-config` beyond the settings: the files the service reads at start, and the places it writes to. */
async function checkAround(loaded: UsableConfig): Promise<ExitCode> {
  const { value: config, from } = loaded
  const { readBrand } = await import('../pages/page.ts')
  const logo = readBrand(config).then(
    (): readonly StartFinding[] => [],
    error => {
      const mend = 'make it readable for the user of the service'
      return [{ state: 'wrong', found: explainError(error), mend }] as const
    },
  )
  const all = features.map(async ({ findings }) => (await findings?.(loaded)) ?? [])
  const found = await Promise.all([...all, logo])
  const bad = found.flat().filter(({ state }) => state !== 'right')
  for (const { state, found, mend = '' } of bad) {
    await tell(`${state === 'wrong' ? '' : 'warning: '}${printable(found)}; ${printable(mend)}`)
  }
  if (bad.some(({ state }) => state === 'wrong')) return exitCodes.configuration
  await print(`${from}: no problems\n`)
  return exitCodes.success
}

/** Prints every setting with its source: the file, or its variable of the environment. */
async function dumpConfig({ from }: UsableConfig): Promise<ExitCode> {
  const [{ dumpSettings }, { problemPlace, readEnvironment }, { settings }] = await Promise.all([
    import('../../config/dump.ts'),
    import('../config/environment.ts'),
    import('../config/settings.ts'),
  ])
  const { looseSettings } = await import('../../config/config-file.ts')
  const set = readEnvironment(process.env)
  const filling =
    set.is === 'complete'
      ? { document: set.found, source: problemPlace }
      : { document: await looseSettings(from), source: () => from }
  await print(dumpSettings(settings, { ...filling, overrides: new Map() }))
  return exitCodes.success
}

async function rotate(config: Config, atOnce: boolean): Promise<ExitCode> {
  if (config.sharedKeys !== undefined) {
    await tell(
      `keys.shared is on, so this instance rotates no keys: run this where the file is made, and copy it to ${config.sharedKeys} of every instance`,
    )
    return exitCodes.configuration
  }
  const [{ makeDynamicConfig, rotateKeys, samlSigns }, { readDynamicConfig, saveDynamicConfig }] =
    await Promise.all([import('../keys/dynamic-config.ts'), import('../keys/dynamic-file.ts')])
  const { configPath, domain, saml, session, tokens, keyOverlap } = config
  const making = { entityId: saml.entityId, domain, now: systemClock.now(), random: randomBytes }
  const before = await readDynamicConfig(configPath)
  // The key of a token stays as long as that of a session.
  const lifetime = Math.max(session.lifetime, tokens.longest ?? 0)
  const overlap = { session: lifetime, saml: keyOverlap, atOnce }
  const after =
    before === undefined
      ? await makeDynamicConfig(making)
      : await rotateKeys(before, making, overlap)
  await saveDynamicConfig(configPath, after)
  await print(`${configPath}: new keys; a running instance uses them within a second\n`)
  if (before !== undefined) {
    const until = day(making.now + keyOverlap)
    const checked = atOnce
      ? 'If it verifies our signatures (signed requests, logout), do so now: the new key signs from this moment on.'
      : `If it verifies our signatures (signed requests, logout), do so by ${day(samlSigns(making.now, keyOverlap))}, when signing switches to the new key. If it accepts only one certificate, replace it at the moment you run authproxy rotate-keys --now.`
    await print(
      `Sessions go on, and so do logins under way. Update the metadata at the identity provider by ${until}: it fetches ${config.baseUrl}/saml/metadata.xml again, or you give it ${config.baseUrl}/saml/certificate.crt.\n${checked}\n`,
    )
  }
  return exitCodes.success
}

/** The day of a moment, in UTC. */
function day(moment: number): string {
  return new Date(moment).toISOString().slice(0, 10)
}

function tell(line: string, level: LogLevel = 'error'): Promise<void> {
  return print(errorLine(level, `authproxy: ${line}\n`), process.stderr)
}
