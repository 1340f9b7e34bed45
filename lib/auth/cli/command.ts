/**
 * The commands of authproxy that need an instance: serve, the check of its configuration, rotation of keys, explanations.
 */
import { randomBytes } from 'node:crypto'
import { systemClock } from '../../async/clock.ts'
import { serve } from '../../daemon.ts'
import { createLog } from '../../log/log.ts'
import { type ExitCode, exitCodes, print } from '../../program.ts'
import type { Config } from '../config/config.ts'
import { type LoadedConfig, loadConfig } from '../config/load-config.ts'
import { type Diagnosis, linesOf, sumUp } from '../doctor/check.ts'
import { makeDynamicConfig, rotated } from '../keys/dynamic-config.ts'
import { readDynamicConfig, saveDynamicConfig } from '../keys/dynamic-file.ts'
import { failuresFile } from '../pages/failure-records.ts'
import type { InstanceChoice, InstanceCommand } from './arguments.ts'
import { explain } from './explain.ts'

/** Runs a command that needs the configuration of an instance; answers the exit code. */
export async function command(invocation: InstanceCommand): Promise<ExitCode> {
  const loaded = await load(invocation)
  for (const note of loaded.notes) await tell(note)
  // The doctor tells them among its findings.
  const told = loaded.ok && invocation.run === 'doctor' ? [] : loaded.warnings
  for (const warning of told) await tell(`warning: ${warning}`)
  if (!loaded.ok) {
    const count = loaded.problems.length
    await tell(
      `failed to load configuration from ${loaded.from}: ${count} ${count === 1 ? 'problem' : 'problems'}`,
    )
    for (const problem of loaded.problems) await tell(problem)
    return exitCodes.configuration
  }
  const config = loaded.value
  switch (invocation.run) {
    case 'check-config':
      await print(`${loaded.from}: no problems\n`)
      return exitCodes.success
    case 'serve':
      return serveWith(invocation, config)
    case 'rotate-keys':
      return rotate(config)
    case 'doctor':
      return examine(invocation, loaded)
    case 'explain': {
      const { found, lines } = await explain(invocation.requestId, failuresFile(config.configPath))
      await print(`${lines.join('\n')}\n`, found ? process.stdout : process.stderr)
      return found ? exitCodes.success : exitCodes.failure
    }
  }
}

function load({ instance, configFile, configDirectory }: InstanceChoice): Promise<LoadedConfig> {
  return loadConfig({ instance, file: configFile, configDirectory, environment: process.env })
}

function serveWith(choice: InstanceChoice, config: Config): Promise<ExitCode> {
  const log = createLog({ level: config.log.level })
  return serve({
    log,
    start: async start => {
      // Loaded here, so that the other commands start without the libraries of logins.
      const { startService } = await import('../service.ts')
      return startService({
        config,
        log,
        start,
        reload: async () => {
          const again = await load(choice)
          for (const warning of again.warnings) log.warn(warning)
          return again.ok ? { config: again.value } : { problems: again.problems }
        },
      })
    },
  })
}

async function rotate(config: Config): Promise<ExitCode> {
  const { configPath, domain, saml, session, keyOverlap } = config
  const making = { entityId: saml.entityId, domain, now: systemClock.now(), random: randomBytes }
  const before = await readDynamicConfig(configPath)
  const overlap = { session: session.lifetime, saml: keyOverlap }
  const after =
    before === undefined ? await makeDynamicConfig(making) : await rotated(before, making, overlap)
  await saveDynamicConfig(configPath, after)
  await print(`${configPath}: new keys; a running instance uses them within a second\n`)
  if (before !== undefined) {
    const until = new Date(making.now + keyOverlap).toISOString().slice(0, 10)
    await print(
      `Sessions go on, and so do logins under way. Until ${until} the identity provider has to fetch ${config.baseUrl}/saml/metadata.xml again, or be given ${config.baseUrl}/saml/certificate.crt.\nIf it checks our signatures (signed requests, logout), do so now: the new key signs from this moment on.\n`,
    )
  }
  return exitCodes.success
}

async function examine(
  { groups }: InstanceCommand,
  { value: config, from, warnings }: LoadedConfig & { readonly ok: true },
): Promise<ExitCode> {
  // Its libraries are those of logins, which other commands start without.
  const doctor = await import('../doctor/examine.ts')
  const found: Diagnosis[] = []
  const examination = { config, from, warnings, groups, clock: systemClock, random: randomBytes }
  for await (const diagnosis of doctor.examine(examination)) {
    found.push(diagnosis)
    await print(`${linesOf(diagnosis).join('\n')}\n`)
  }
  const { line, exitCode } = sumUp(found)
  await print(`\n${line}\n`)
  return exitCode
}

function tell(line: string): Promise<void> {
  return print(`authproxy: ${line}\n`, process.stderr)
}
