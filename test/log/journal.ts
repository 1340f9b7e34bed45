import { spawnSync } from 'node:child_process'
import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { leadsToJournal, withPriority } from '../../lib/log/journal.ts'
import { createLog, GatheredLines } from '../../lib/log/log.ts'
import { packageRoot } from '../../lib/package.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

t.test('a line of the log for the journal begins with the priority of its level', async t => {
  const lines: string[] = []
  const log = createLog({
    level: 'debug',
    form: 'journal',
    to: { write: line => lines.push(line) },
  })
  log.debug('d')
  log.info('i')
  log.warn('several\nlines', { error: new Error('with\na trace') })
  log.child({ part: 'store' }).error('e')
  t.strictSame(
    lines.map(line => line.slice(0, 3)),
    ['<7>', '<6>', '<4>', '<3>'],
  )
  for (const line of lines) {
    t.match(JSON.parse(line.slice(3)), { message: /./ })
    t.notMatch(line, /"(?:level|time)"/, 'the journal keeps both itself')
    t.equal(line.indexOf('\n'), line.length - 1, 'one line, so one priority')
  }
})

t.test('each line of several has the priority', async t => {
  t.equal(withPriority('warn', 'one\ntwo\n'), '<4>one\n<4>two\n')
  t.equal(withPriority('error', 'one\n\ntwo'), '<3>one\n\n<3>two')
})

t.test('only the descriptor that JOURNAL_STREAM names leads to the journal', async t => {
  const fd = openSync(join(t.testdir({ journal: '' }), 'journal'), 'w')
  t.teardown(() => closeSync(fd))
  const { dev, ino } = fstatSync(fd)
  t.equal(leadsToJournal(fd, { JOURNAL_STREAM: `${dev}:${ino}` }), true)
  t.equal(leadsToJournal(fd, { JOURNAL_STREAM: `${dev}:${ino + 1}` }), false)
  t.equal(leadsToJournal(fd, { JOURNAL_STREAM: 'nonsense' }), false)
  t.equal(leadsToJournal(fd, {}), false)
  t.equal(leadsToJournal(9999, { JOURNAL_STREAM: `${dev}:${ino}` }), false)
})

/** What a process prints whose standard output and error are a file that JOURNAL_STREAM names. */
function printedTo(directory: string, journal: boolean, ...line: readonly string[]): string {
  const file = join(directory, 'printed')
  const fd = openSync(file, 'w')
  const { dev, ino } = fstatSync(fd)
  const environment = journal ? { JOURNAL_STREAM: `${dev}:${ino}` } : {}
  spawnSync(process.execPath, line, {
    env: { ...process.env, ...environment },
    stdio: ['ignore', fd, fd],
  })
  closeSync(fd)
  return readFileSync(file, 'utf8')
}

t.test('the log and the complaints of a program', async t => {
  const directory = t.testdir({ 'wrong.yaml': 'listne: 3142\ndomians: []\n' })
  const log = pathToFileURL(join(packageRoot(), 'dist/lib/log/log.js'))
  const program = `import { createLog } from '${log}'; const log = createLog(); log.warn('w'); await log.flush()`
  const evaluated = ['--input-type=module', '-e', program]
  t.match(printedTo(directory, true, ...evaluated), /^<4>\{"message":"w"\}/)
  t.match(printedTo(directory, false, ...evaluated), /^\{"level":"warn"/)
  for (const name of ['cachesvc', 'authproxy']) {
    const serve = [
      join(packageRoot(), `dist/bin/${name}.js`),
      '--config',
      join(directory, 'wrong.yaml'),
    ]
    const said = printedTo(directory, true, ...serve)
    t.ok(said.split('\n').length > 2, said)
    for (const line of said.trim().split('\n')) t.match(line, new RegExp(`^<[34]>${name}: `))
    t.match(printedTo(directory, false, ...serve), new RegExp(`^${name}: `))
  }
})

t.test('the line about lost lines is marked like the others', async t => {
  const parts: string[] = []
  const finished: (() => void)[] = []
  const lines = new GatheredLines(
    (some, done) => {
      const text = Buffer.concat(some).toString()
      parts.push(text)
      finished.push(() => done(null, Buffer.byteLength(text)))
    },
    { clock: new ManualClock(0), most: 200, asWarning: line => withPriority('warn', line) },
  )
  for (let i = 0; i < 10; i += 1) lines.write(`${'x'.repeat(99)}\n`)
  // The first flush makes room for the line, the second one writes it.
  for (let time = 0; time < 2; time += 1) {
    const flushed = lines.flush(1000)
    for (let done = finished.shift(); done !== undefined; done = finished.shift()) done()
    await flushed
  }
  t.match(parts.join(''), /^<4>\{"level":"warn".*lost/m)
})
