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
import { explain, explanationText } from '../explain.ts'
import { rulesOf } from '../policy/policy.ts'
import { withStore } from './list.ts'

/** Asks the service that owns the cache directory, prints what it says, and answers the exit code it names. */
export async function askService(directory: string, request: object): Promise<ExitCode> {
  const code = await ask(directory, request, () => {
    throw failure(
      `The service of ${directory} answers its own user and root alone: try it with sudo.`,
    )
  })
  if (code !== undefined) return code
  throw failure(
    `No cachesvc runs with the cache directory ${directory}: start it, or name its directory with --cache-dir.`,
  )
}

/** The same when one runs and this user may ask it; undefined otherwise. */
export function askIfRunning(directory: string, request: object): Promise<ExitCode | undefined> {
  return ask(directory, request, () => undefined)
}

async function ask(
  directory: string,
  request: object,
  forbidden: () => undefined,
): Promise<ExitCode | undefined> {
  const reply = await askOwner(directory, request, systemClock).catch(error => {
    // The socket is its owner's and root's.
    if (['EACCES', 'EPERM'].includes(systemCode(error) ?? '')) return forbidden()
    throw error
  })
  return reply && tell(reply.answer)
}

async function tell(answer: unknown): Promise<ExitCode> {
  const { out, complaints, code } = decoded(answer)
  if (out !== '') await print(out)
  for (const complaint of complaints) await print(`cachesvc: ${complaint}\n`, process.stderr)
  return code
}

/** An answer of another version may be of another shape. */
function decoded(answer: unknown) {
  const { out, complaints, code } = isRecord(answer) ? answer : {}
  const known = Object.values(exitCodes).find(one => one === code)
  if (typeof out !== 'string' || !Array.isArray(complaints) || known === undefined) {
    throw failure('The running service is of another version: restart it.')
  }
  return { out, complaints: complaints.map(String), code: known }
}

function failure(sentence: string): Failure {
  return new Failure(sentence, {
    code: 'service-not-asked',
    fault: 'internal',
    publicText: sentence,
  })
}

/**
 * Prints how a request for `url` would be answered, a line for each question, as the service that runs with the cache directory
 * says. Without one, or when it answers others alone, it reads the store by itself. A `url` that is none is wrong usage.
 */
export async function printExplanation(url: string, config: Config): Promise<ExitCode> {
  const code = await askIfRunning(config.cacheDirectory, { do: 'explain', of: url })
  if (code !== undefined) return code
  let understood = true
  await withStore(config, async store => {
    const now = systemClock.now()
    const found = explanationText(await explain(url, { rules: rulesOf(config), store, now }))
    understood = found.understood
    await print(found.text)
  })
  return understood ? exitCodes.success : exitCodes.usage
}
