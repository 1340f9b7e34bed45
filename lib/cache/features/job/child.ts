/**
 * Runs the command of a job: with our input and output, signals passed on, and its end as an exit code.
 */
import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import { systemCode } from '../../../errors.ts'

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
  {
    environment,
    terminal,
    complain,
  }: {
    readonly environment: NodeJS.ProcessEnv
    readonly terminal: boolean
    readonly complain: (sentence: string) => Promise<void>
  },
): Promise<number> {
  const child = spawn(program, words, { stdio: 'inherit', env: environment })
  const listeners = passedOn.map(signal => {
    const fromKeys = terminal && (signal === 'SIGINT' || signal === 'SIGQUIT')
    return [signal, () => void (fromKeys || child.kill(signal))] as const
  })
  for (const [signal, listener] of listeners) process.on(signal, listener)
  try {
    return await new Promise<number>((resolve, reject) => {
      child.on('error', reject)
      child.on('exit', (code, signal) => {
        resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal]))
      })
    })
  } catch (error) {
    const absent = systemCode(error) === 'ENOENT'
    const because = error instanceof Error ? error.message : String(error)
    await complain(absent ? `there is no command ${program}` : `${program}: ${because}`)
    return absent ? notFound : cannotRun
  } finally {
    for (const [signal, listener] of listeners) process.removeListener(signal, listener)
  }
}
