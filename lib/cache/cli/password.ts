/**
 * The command `password`: reads a password and prints the line for `index.password`.
 */
import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import { type ExitCode, exitCodes, print } from '../../program.ts'
import { hashLine } from '../config/password-hash.ts'

const least = 8

/** Reads the first line of standard input; a terminal does not show it. */
export async function printPasswordHash(): Promise<ExitCode> {
  const terminal = process.stdin.isTTY === true
  if (terminal) await print('Password: ', process.stderr)
  const password = await firstLine(terminal)
  if (terminal) await print('\n', process.stderr)
  if (password.length < least) {
    await print(`cachesvc: a password has at least ${least} characters\n`, process.stderr)
    return exitCodes.failure
  }
  await print(`${await hashLine(password)}\n`)
  return exitCodes.success
}

async function firstLine(terminal: boolean): Promise<string> {
  const output = new Writable({ write: (_chunk, _encoding, done) => done() })
  const lines = createInterface({ input: process.stdin, output, terminal })
  for await (const line of lines) return line
  return ''
}
