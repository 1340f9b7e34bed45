/**
 * Time is a parameter: the files of the programs take a clock, and tests wait for events, but for those that are named here with the
 * reason.
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

/** The tests and fixtures that have timers of the machine. A test that waits for something awaits its event, or uses `until.ts`. */
const timersOfTests: Readonly<Record<string, string>> = {
  'apt/outage.ts': 'the pace of a client that tries again',
  'apt/pipeline.ts': 'a client that reads slowly',
  'apt/restarts.ts': 'the pace of a client that connects again and again',
  'apt/updated-midway.ts': 'moments in the work of processes, by chance',
  'cache/features/ahead/ahead.ts': 'advances a manual clock while another thread works',
  'cache/suites/updated-midway.ts': 'moments in the work of clients, by chance',
  'cache/features/shared/object-stores.ts': 'real object stores count whole seconds',
  'faults/fuzz.ts': 'a process has to come to rest before its memory is read',
  'faults/kill.ts': 'moments in the work of a process, by chance',
  'faults/slow.ts': 'clients that send slowly',
  'fixtures/archive/archive-origin.ts': 'an origin of a given rate',
  'fixtures/cache/cache.ts': 'advances a manual clock while files are read and written',
  'fixtures/cache/proxy-process.ts': 'ends a process that does not stop',
  'fixtures/compare/comparison.ts': 'advances a manual clock while files are read and written',
  'fixtures/http/wire.ts': 'the deadline of a peer',
  'fixtures/process/command.ts': 'ends a process that does not stop',
  'fixtures/process/log.ts': 'keeps a process alive',
  'fixtures/process/ports.ts': 'looks for what another process does',
  'fixtures/process/program.ts': 'keeps a process alive',
  'fixtures/sso/child.ts': 'ends a process that does not stop',
  'fixtures/sso/gateway.ts': 'another process looks at its clock every 20 ms',
  'fixtures/store/holding.ts': 'keeps a process alive',
  'fixtures/time/until.ts': 'looks for what no event tells',
  'real/apt-integration.ts': 'ends a process that does not stop',
  'real/several-nodes.ts': 'the pace of an archive that publishes',
  'runner/test-file.ts': 'ends a process that does not stop',
  'sso/traffic.ts': 'clients that read and write slowly',
}

/** A timer, at the place where it is set or as an import. `t.setTimeout` and that of a socket are deadlines. */
const setsTimer =
  /(?<![.\w'`])set(?:Timeout|Interval)\(|import \{[^}]*\bset(?:Timeout|Interval)\b[^}]*\} from 'node:timers\/promises'/

/** The timers in the text of tests that the runner is tested with. */
const inTests = new Set(['test-runner.ts', 'time.ts'])

t.test('tests wait for events and not for time', async t => {
  const tests = join(packageRoot(), 'test')
  const setting = readdirSync(tests, { recursive: true, encoding: 'utf8' })
    .filter(path => path.endsWith('.ts') && !inTests.has(path))
    .filter(path => setsTimer.test(readFileSync(join(tests, path), 'utf8')))
  t.strictSame(setting.sort(), Object.keys(timersOfTests).sort())
  for (const one of [
    'setTimeout(f, 1)',
    "import { setTimeout as p } from 'node:timers/promises'",
  ]) {
    t.match(one, setsTimer)
  }
  t.notMatch("import { setImmediate } from 'node:timers/promises'\nt.setTimeout(1)", setsTimer)
})
