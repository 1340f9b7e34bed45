/**
 * The list of defences that can be switched off, list.txt.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { packageRoot } from '../../lib/package.ts'

/** A line of list.txt. */
export interface Defence {
  /** Its number in test/auth/threats.md. */
  readonly attack: number
  readonly what: string
  /** Compiled file below `dist/lib`. */
  readonly file: string
  /** Text that occurs once in it, and what takes its place. */
  readonly from: string
  readonly to: string
  /** Compiled tests below `dist/test`, one of which has to fail. */
  readonly tests: readonly string[]
}

/** All of them, in the order of the list. */
export const defences: readonly Defence[] = readFileSync(
  join(packageRoot(), 'test/defences/list.txt'),
  'utf8',
)
  .split('\n')
  .filter(line => line !== '' && !line.startsWith('#'))
  .map((line): Defence => {
    const [attack, what = '', file = '', from = '', to = '', tests = ''] = line.split(' ~ ')
    return { attack: Number(attack), what, file, from, to, tests: tests.split(' ') }
  })
