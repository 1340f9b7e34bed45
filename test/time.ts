/**
 * Time is a parameter: the files of the programs take a clock, but for those that are named here with the reason.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { packageRoot } from '../lib/package.ts'

const reasons: Readonly<Record<string, string>> = {
  'async/clock.ts': 'the clock of the machine',
  'daemon.ts': 'a signal that ends a step of stopping',
  'metrics.ts': 'figures of this process and its event loop',
  'systemd.ts': 'systemd wants CLOCK_MONOTONIC with a message',
}

/** A reading of the time, or a wait, that asks the machine. A method of the name, such as that of a socket, is none. */
const asksTheMachine =
  /\bDate\.now\(|\bnew Date\(\)|\bperformance\.now\(|\bhrtime\b|(?<![.\w])set(?:Timeout|Interval)\(|AbortSignal\.timeout\(|timers\/promises/

t.test('files that read the time or wait take a clock', async t => {
  const lib = join(packageRoot(), 'lib')
  const paths = readdirSync(lib, { recursive: true, encoding: 'utf8' })
  const asking = paths
    .filter(path => path.endsWith('.ts') && !path.startsWith('tools/'))
    .filter(path => asksTheMachine.test(readFileSync(join(lib, path), 'utf8')))
  t.strictSame(asking.sort(), Object.keys(reasons).sort())
})
