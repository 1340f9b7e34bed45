/**
 * Runs a program: prints for a terminal or a script, and ends with an exit code.
 */
import { writeFileSync } from 'node:fs'
import { explainError, Failure, systemCode } from './errors.ts'
import { errorLine } from './log/journal.ts'

/** The exit codes of our programs. 78 is EX_CONFIG of sysexits(3): a wrong configuration, or a port that another program uses. */
export const exitCodes = { success: 0, failure: 1, usage: 2, configuration: 78 } as const

export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes]

/**
 * Runs a program and ends the process with its code, even when files or sockets are still open. An error of `main` is a failure and is
 * printed as one line on standard error: a Failure in its own words, any other error with its causes.
 */
export async function run(name: string, main: () => Promise<number>): Promise<never> {
  nameProcess(name)
  let code: number
  try {
    code = await main()
  } catch (error) {
    const why = error instanceof Failure ? error.message : explainError(error)
    await print(errorLine('error', `${name}: ${why}\n`), process.stderr)
    code = exitCodes.failure
  }
  return process.exit(code)
}

/**
 * Sets the name of the process in `ps`, `top`, `ss -p` and `systemctl status`. Without it the name is "node", or "MainThread" since Node.js
 * 24. Unlike process.title this does not overwrite the command line.
 */
function nameProcess(name: string): void {
  try {
    writeFileSync('/proc/self/comm', name)
  } catch {
    // Without /proc the process keeps its name.
  }
}

/** Makes stack traces name the lines of the sources, for modules loaded from now on. It takes time, which only a daemon spends. */
export function traceSources(): void {
  process.setSourceMapsEnabled(true)
}

/** Settles when the text is written, or when its reader has ended (`cachesvc --help | head -1`). Rejects with any other error. */
export function print(text: string, to: NodeJS.WritableStream = process.stdout): Promise<void> {
  return new Promise((settle, fail) => {
    const done = (error?: Error | null) => {
      if (error && systemCode(error) !== 'EPIPE') fail(error)
      else settle()
    }
    // Without a listener the stream's 'error' event would end the process. It comes after the callback.
    to.once('error', done)
    to.write(text, error => {
      if (!error) to.removeListener('error', done)
      done(error)
    })
  })
}
