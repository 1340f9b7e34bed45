/**
 * Runs the command of a job: with our input and output, signals passed on, and its end as an exit code.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { constants } from 'node:os'
import { isatty } from 'node:tty'
import { explainError, systemCode } from '../../../errors.ts'
import { printComplaint } from '../../cli/base/terminal.ts'

/** The exit codes of env(1): a command that cannot be run, and one that does not exist. */
const cannotRun = 126
const notFound = 127

/** The signals that are passed on. */
const passedOn = ['SIGTERM', 'SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'] as const

/**
 * Runs the command and resolves to its exit code, or to 128 and the number of the signal that ended it, as shells do. A terminal sends
 * the signals of its keys to the command itself, so that these are not passed on.
 */
export async function runChild(
  [program = '', ...words]: readonly string[],
  environment: NodeJS.ProcessEnv,
): Promise<number> {
  let child: ChildProcess | undefined
  const listeners = passedOn.map(signal => {
    const fromKeys = isatty(0) && (signal === 'SIGINT' || signal === 'SIGQUIT')
    return [signal, () => void (fromKeys || child?.kill(signal))] as const
  })
  // Before the command runs: a signal between the two would end this process alone.
  for (const [signal, listener] of listeners) process.on(signal, listener)
  try {
    child = spawn(program, words, { stdio: 'inherit', env: environment })
    const [code, signal]: readonly unknown[] = await once(child, 'exit')
    return typeof code === 'number' ? code : 128 + constants.signals[signal as NodeJS.Signals]
  } catch (error) {
    const absent = systemCode(error) === 'ENOENT'
    await printComplaint(
      absent ? `there is no command ${program}` : `${program}: ${explainError(error)}`,
    )
    return absent ? notFound : cannotRun
  } finally {
    for (const [signal, listener] of listeners) process.removeListener(signal, listener)
  }
}
