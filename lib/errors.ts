/**
 * Failures with a code, the side at fault, facts, a cause, and a sentence that clients may read. The message and the facts are for the log;
 * `publicText` is for the client. A failure that reaches no response, such as one of a start or a command, needs neither side nor sentence.
 */

/** The side at fault: the client, the origin or backend, or this service. */
type Fault = 'downstream' | 'upstream' | 'internal'

export type Facts = Readonly<Record<string, string | number | boolean | undefined>>

type FailureDetails = {
  readonly code: string
  readonly facts?: Facts
  readonly cause?: unknown
  /** Whether it lasts until a person acts. A start that fails so is not tried again. */
  readonly lasting?: true
} & (Public | { readonly fault?: never; readonly publicText?: never })

interface Public {
  readonly fault: Fault
  /** A fixed sentence safe to show in public. */
  readonly publicText: string
}

export class Failure extends Error {
  readonly code: string
  readonly fault: Fault
  readonly publicText: string
  readonly facts: Facts
  readonly lasting: boolean

  constructor(message: string, details: FailureDetails) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause })
    this.name = new.target.name
    this.code = details.code
    this.fault = details.fault ?? 'internal'
    this.publicText = details.publicText ?? 'The service made a mistake.'
    this.facts = details.facts ?? {}
    this.lasting = details.lasting ?? false
  }
}

/** The `code` of an error thrown by Node, such as `ENOENT`; undefined for any other value. */
export function systemCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined
  return typeof error.code === 'string' ? error.code : undefined
}

/** The result of a promise; undefined when it rejects with one of these codes, which say that there is no such file. */
export async function valueUnlessMissing<T>(
  found: Promise<T>,
  codes: readonly string[] = ['ENOENT'],
): Promise<T | undefined> {
  try {
    return await found
  } catch (error) {
    if (codes.includes(systemCode(error) ?? '')) return undefined
    throw error
  }
}

/** Returns the sentence of the Failure that `act` throws, or undefined when it throws nothing. */
export async function problemOf(act: () => unknown): Promise<string | undefined> {
  try {
    await act()
    return undefined
  } catch (error) {
    if (error instanceof Failure) return error.message
    throw error
  }
}

/** Returns the result of `act`, or undefined when it throws. */
export function attempt<T>(act: () => T): T | undefined {
  try {
    return act()
  } catch {
    return undefined
  }
}

/** Why a file cannot be read, in words for the user who named it. */
export function unreadableReason(error: unknown): string {
  return unreadable.get(systemCode(error)) ?? explainError(error)
}

const notReadable =
  'this user may not read it; run the command as the user of the service (sudo -u USER …), or check its owner and group'

const unreadable: ReadonlyMap<string | undefined, string> = new Map([
  ['ENOENT', 'there is no such file'],
  ['EACCES', notReadable],
  ['EPERM', notReadable],
  ['EISDIR', 'it is a directory'],
  ['ENOTDIR', 'a part of this path is not a directory'],
])

/** The message of any thrown value, with the messages of its causes, in one line. */
export function explainError(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const own = error.message === '' ? (systemCode(error) ?? error.name) : error.message
  if (error instanceof AggregateError && error.message === '') {
    return error.errors.map(explainError).join('; ')
  }
  if (error.cause === undefined) return own
  // Messages that wrap others often repeat them.
  const cause = explainError(error.cause)
  return own.includes(cause) ? own : `${own}: ${cause}`
}
