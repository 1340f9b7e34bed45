/**
 * The commands that ask the running service: status, stats, remove, refresh, reload, and explain, which reads the store by itself
 * when none runs.
 */
import { askOwner } from '../../admin-socket.ts'
import { systemClock } from '../../async/clock.ts'
import { Failure, systemCode } from '../../errors.ts'
import { isRecord } from '../../json.ts'
import { type ExitCode, exitCodes, print } from '../../program.ts'
import type { Config } from '../config/config.ts'
import { rulesOf } from '../policy/policy.ts'
import { complain } from './terminal.ts'

/** Asks the service that owns the cache directory, prints what it says, and answers the exit code it names. */
export async function askService(directory: string, request: object): Promise<ExitCode> {
  const code = await ask(directory, request)
  if (code === 'forbidden') {
    throw failure(
      `The service of ${directory} answers its own user and root alone: try it with sudo.`,
    )
  }
  if (code !== undefined) return code
  throw failure(
    `No cachesvc runs with the cache directory ${directory}: start it, or name its directory with --cache-dir.`,
  )
}

/**
 * Prints how a request for `url` would be answered, a line for each question, as the service that runs with the cache directory
 * says. Without one, or when it answers others alone, it reads the store by itself. A `url` that is none is wrong usage. `file` is the
 * configuration file that the command line names: the service answers with the settings it has, which may be others.
 */
export async function printExplanation(
  url: string,
  config: Config,
  file: string | undefined,
): Promise<ExitCode> {
  const code = await ask(config.cacheDirectory, { do: 'explain', of: url })
  if (code !== undefined && code !== 'forbidden') {
    if (file !== undefined) {
      await complain(
        `the running service answered with its own settings, not with those of ${file}`,
      )
    }
    return code
  }
  const parts = { rules: rulesOf(config), now: systemClock.now() }
  const { withStore } = await import('./list.ts')
  const { explain, explanationText } = await import('../explain.ts')
  const findings = await withStore(config, store => explain(url, { ...parts, store }))
  const { text, understood } = explanationText(findings)
  await print(text)
  return understood ? exitCodes.success : exitCodes.usage
}

/** Undefined when none runs. */
async function ask(
  directory: string,
  request: object,
): Promise<ExitCode | 'forbidden' | undefined> {
  let reply: Awaited<ReturnType<typeof askOwner>>
  try {
    reply = await askOwner(directory, request, systemClock)
  } catch (error) {
    // The socket is its owner's and root's.
    if (['EACCES', 'EPERM'].includes(systemCode(error) ?? '')) return 'forbidden'
    throw error
  }
  if (reply === undefined) return undefined
  const { out, complaints, code } = isRecord(reply.answer) ? reply.answer : {}
  const known = Object.values(exitCodes).find(one => one === code)
  // An answer of another version may be of another shape.
  if (typeof out !== 'string' || !Array.isArray(complaints) || known === undefined) {
    throw failure('The running service is of another version: restart it.')
  }
  if (out !== '') await print(out)
  for (const sentence of complaints) await complain(String(sentence))
  return known
}

function failure(sentence: string): Failure {
  return new Failure(sentence, { code: 'service-not-asked' })
}
