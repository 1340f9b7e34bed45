/**
 * What a command prints when it asks a running service over its admin socket: the service says the text and the exit code, so that a
 * command need not understand the figures of another version.
 */
import { askOwner, type Property } from './admin-socket.ts'
import { systemClock } from './async/clock.ts'
import type { Reload } from './daemon.ts'
import { Failure, systemCode } from './errors.ts'
import { isRecord } from './json.ts'
import { type ExitCode, exitCodes, print } from './program.ts'

/** What a command prints and ends with. */
export interface CommandAnswer {
  readonly out: string
  /** Lines for standard error. */
  readonly complaints: readonly string[]
  readonly code: ExitCode
}

export function said(out: string, code: ExitCode = exitCodes.success): CommandAnswer {
  return { out, complaints: [], code }
}

export function complaint(code: ExitCode, ...complaints: readonly string[]): CommandAnswer {
  return { out: '', complaints, code }
}

/** Reloads, and says what came of it; `remarks` are told beside a reload without problems. */
export async function reloadAnswer(
  reload: Reload,
  remarks: () => readonly string[],
): Promise<CommandAnswer> {
  const problems = await reload()
  return problems.length === 0
    ? { ...said('reloaded: the new configuration is in force\n'), complaints: remarks() }
    : complaint(
        exitCodes.configuration,
        ...problems,
        'not reloaded: the running configuration stays in force',
      )
}

/**
 * Asks the service that owns the place, prints what it says and answers its exit code: `forbidden` when it answers others alone,
 * undefined when none runs.
 */
export async function printAnswer(
  place: Pick<Property, 'directory' | 'lock'>,
  request: object,
  complain: (sentence: string) => Promise<void>,
): Promise<ExitCode | 'forbidden' | undefined> {
  let reply: Awaited<ReturnType<typeof askOwner>>
  try {
    reply = await askOwner(place, request, systemClock)
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
    throw serviceNotAsked('The running service is of another version: restart it.')
  }
  if (out !== '') await print(out)
  for (const sentence of complaints) await complain(String(sentence))
  return known
}

export function serviceNotAsked(sentence: string): Failure {
  return new Failure(sentence, { code: 'service-not-asked' })
}
