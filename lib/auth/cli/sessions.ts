/**
 * The command `authproxy sessions` ends the sessions of a user. It asks the running instance, which also works while the
 * configuration file is wrong.
 */
import { type CommandLine, helpText, obey, type Program, WrongUsage } from '../../command-line.ts'
import { type ReadResult, readFailure, readResult } from '../../config/reading.ts'
import { ownName } from '../../files/directory-owner.ts'
import { printable } from '../../log/redact.ts'
import { type ExitCode, exitCodes, print } from '../../program.ts'
import { loadConfig } from '../config/loading/load-config.ts'
import { longestUser } from '../control.ts'
import { instanceOf, placeOptions } from './arguments.ts'
import { askInstance } from './ask.ts'

export const sessions = {
  name: 'authproxy sessions',
  usage: ['end --user NAME [INSTANCE] [OPTION]...'],
  about:
    'Ends sessions of a running instance. They are in cookies of browsers, so there is no list of them; the list of those that have ended is kept beside the dynamic configuration.',
  commands: {
    help: { summary: 'print this text; the default' },
    end: {
      operands: '[INSTANCE]',
      summary: 'end all sessions of a user that were made until now, in all browsers',
    },
  },
  options: {
    ...placeOptions,
    user: {
      value: 'NAME',
      of: ['end'],
      read: readUser,
      help: 'the user, as in the log and X-Authproxy-User, in upper or lower case',
    },
  },
  notes: `Exit status: 0 the sessions have ended, 1 they have not, or may come back
with a restart, 2 wrong usage.
`,
} as const satisfies Program

type Line = CommandLine<typeof sessions>

/** Runs the command with the arguments behind its name. */
export function sessionsCommand(argv: readonly string[]): Promise<ExitCode> {
  return obey(sessions, argv, runSessions)
}

async function runSessions(line: Line): Promise<ExitCode> {
  const { run, options } = line
  if (run === 'help') {
    await print(helpText(sessions))
    return exitCodes.success
  }
  const { user } = options
  if (user === undefined) throw new WrongUsage('end needs the user: --user NAME')
  const place = { ...instanceOf(line), environment: process.env }
  const tell = (sentence: string) => print(`authproxy: ${printable(sentence)}\n`, process.stderr)
  const loaded = await loadConfig(place)
  if (!loaded.ok) for (const problem of loaded.problems) await tell(problem)
  return askInstance({ ...place, loaded }, { do: 'end-sessions', user, by: caller() }, tell)
}

function readUser(text: string): ReadResult<string> {
  if (text.length > longestUser) return readFailure(`is longer than ${longestUser} characters`)
  return /\p{Cc}/u.test(text) ? readFailure('has control characters') : readResult(text)
}

/** The caller, for the log: the user of the process, and the user who became that one by sudo. */
function caller(): string {
  const { SUDO_USER: before } = process.env
  const now = ownName() ?? `user ${process.geteuid?.()}`
  return before === undefined || before === '' || before === now
    ? now
    : `${before}, by sudo as ${now}`
}
