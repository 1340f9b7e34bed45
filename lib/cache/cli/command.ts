/**
 * The commands of cachesvc. Each loads what it needs when it runs.
 */
import { resolve } from 'node:path'
import { systemClock } from '../../async/clock.ts'
import { type ExitCode, exitCodes, print, traceSources } from '../../program.ts'
import { type Config, surroundings } from '../config/config.ts'
import { loadConfig } from '../config/load-config.ts'
import type { Line } from './arguments.ts'

/** Runs a command; answers the exit code. */
export async function command(line: Line): Promise<ExitCode> {
  if (line.run !== 'password') return withConfig(line, line.run)
  // The configuration may have the password that this is to hash.
  const { printPasswordHash } = await import('./password.ts')
  return printPasswordHash()
}

async function withConfig(
  { operands, options }: Line,
  run: Exclude<Line['run'], 'password'>,
): Promise<ExitCode> {
  const load = () => {
    const overrides = { cacheDirectory: options['cache-dir'], listen: options.listen }
    return loadConfig(options.config, overrides, surroundings())
  }
  const loaded = await load()
  for (const warning of loaded.warnings) await complain(`warning: ${warning}`)
  if (!loaded.ok) return wrongConfiguration(loaded.problems)
  const config = loaded.value
  if (options['check-config']) {
    const problems = await fileProblemsOf(config)
    if (problems.length > 0) return wrongConfiguration(problems)
    await print(`${loaded.file ?? 'the defaults'}: no problems\n`)
    return exitCodes.success
  }
  switch (run) {
    case 'serve': {
      const problems = await fileProblemsOf(config)
      if (problems.length > 0) return wrongConfiguration(problems)
      traceSources()
      const { serveWith } = await import('./serve.ts')
      return serveWith({ config, warnings: loaded.warnings, file: loaded.file, load })
    }
    case 'explain': {
      const { printExplanation } = await import('./ask.ts')
      return printExplanation(operands[0] ?? '', config)
    }
    case 'list': {
      const { printList } = await import('./list.ts')
      return printList(operands[0], config, { json: options.json })
    }
    case 'remove':
    case 'refresh': {
      const [of = ''] = operands
      if (options['dry-run']) {
        const { printChosen } = await import('./list.ts')
        return printChosen(of, config)
      }
      return ask(config, { do: run, of })
    }
    case 'import': {
      const { printImport } = await import('./bundle.ts')
      return printImport(resolve(operands[0] ?? ''), config, { dryRun: options['dry-run'] })
    }
    case 'export': {
      const { printExport } = await import('./bundle.ts')
      const { archive: archives, suite: suites } = options
      return printExport(resolve(operands[0] ?? ''), config, { archives, suites })
    }
    case 'status':
    case 'stats':
    case 'reload':
      return ask(config, { do: run, json: options.json })
    case 'verify-repos': {
      const { verifyRepos } = await import('../verify/command.ts')
      return verifyRepos(config, { json: options.json, dryRun: options['dry-run'] })
    }
  }
}

async function ask({ cacheDirectory }: Config, request: object): Promise<ExitCode> {
  const { askService } = await import('./ask.ts')
  return askService(cacheDirectory, request)
}

async function fileProblemsOf(config: Config): Promise<readonly string[]> {
  const { fileProblems } = await import('./check-files.ts')
  return fileProblems(config, systemClock.now())
}

async function wrongConfiguration(problems: readonly string[]): Promise<ExitCode> {
  for (const problem of problems) await complain(problem)
  return exitCodes.configuration
}

function complain(text: string): Promise<void> {
  return print(`cachesvc: ${text}\n`, process.stderr)
}
