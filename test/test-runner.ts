/**
 * What runs the tests: no failure is lost, and each is named at the end.
 */
import { join } from 'node:path'
import t from 'tap'
import { packageRoot } from '../lib/package.ts'
import { attempt } from './fixtures/process/command.ts'
import { canShare, processesFor } from './runner/processes.ts'
import { readTap, runTestFile, runTestFiles } from './runner/test-file.ts'

t.setTimeout(600_000)

const files = {
  'good.js': `import t from 'tap'
    t.test('a', async t => { t.ok(true); t.ok(true) })
    t.test('b # c', { skip: 'SKIPPED: no such program' }, async () => {})`,
  'bad.js': `import t from 'tap'
    t.test('outer', async t => {
      t.test('inner', async t => { t.ok(true); t.equal('not ok 9 - x', 'y', 'one # two') })
      t.test('broken', async () => { throw new Error('no') })
    })
    t.ok(false, 'later', { todo: true })`,
  'fails.js': `import t from 'tap'
    t.test('outer', async t => {
      t.test('inner', async t => { t.ok(true); t.equal('not ok 9 - x', 'y', 'one # two') })
      t.test('broken', async () => { throw new Error('no') })
    })`,
  'also-good.js': `import t from 'tap'
    t.setTimeout(5000)
    t.test('a', async t => { t.ok(true) })`,
  'exits.js': `import t from 'tap'
    t.test('a', async t => { process.exit(1) })`,
  'hangs.js': `import t from 'tap'
    t.test('waits', async () => { await new Promise(resolve => setTimeout(resolve, 60_000)) })`,
  'no-test.js': '',
  'broken.js': `throw new Error('at import')`,
  'late.js': `import t from 'tap'
    t.test('a', async t => { t.ok(true) })
    process.on('exit', () => { process.exitCode = 3 })`,
}

t.test('the result of a file', async t => {
  const directory = t.testdir(files)
  const result = (name: string, limit = 60_000) => {
    const options = { cwd: packageRoot(), nodeOptions: [], env: {}, limit }
    return runTestFile(join(directory, name), options)
  }
  t.match(await result('good.js'), {
    ok: true,
    passed: 2,
    failures: [],
    skips: ['b # c: SKIPPED: no such program'],
  })
  t.match(await result('bad.js'), {
    ok: false,
    passed: 1,
    failures: ['outer > inner > one # two', 'outer > broken > no'],
    skips: [],
  })
  t.match(await result('no-test.js'), { ok: false, failures: ['ran no test'] })
  const broken = await result('broken.js')
  t.match(broken, { ok: false, failures: ['ended with exit code 1'], errors: /at import/ })
  t.match(await result('late.js'), { ok: false, passed: 1, failures: ['ended with exit code 3'] })
  const { ok, failures } = await result('hangs.js', 3000)
  t.equal(ok, false)
  t.equal(failures.at(-1), 'did not end within 3 s')
})

t.test('several files in one process have each its own result', async t => {
  const directory = t.testdir(files)
  const together = (...names: readonly string[]) => {
    const options = { cwd: packageRoot(), nodeOptions: [], env: {}, limit: 60_000 }
    const paths = names.map(name => join(directory, name))
    return runTestFiles(paths, options)
  }
  const name = (path: string) => path.slice(directory.length + 1)

  const { results, unfinished } = await together('good.js', 'fails.js', 'also-good.js')
  t.strictSame(unfinished, [])
  const told = results.map(({ path, ok, passed, failures, skips }) => [
    ...[name(path), ok, passed],
    ...[...failures, ...skips],
  ])
  t.strictSame(told, [
    ['good.js', true, 2, 'b # c: SKIPPED: no such program'],
    ['fails.js', false, 1, 'outer > inner > one # two', 'outer > broken > no'],
    ['also-good.js', true, 1],
  ])
  t.match(results[1]?.tap, /\+not ok 9 - x/)
  t.notMatch(results[0]?.tap, /not ok/)

  const broken = await together('good.js', 'broken.js', 'no-test.js', 'also-good.js')
  t.match(
    broken.results.map(({ path, failures }) => [name(path), failures]),
    [
      ['good.js', []],
      ['broken.js', [/at import/]],
      ['no-test.js', ['ran no test']],
      ['also-good.js', []],
    ],
  )

  const ended = await together('good.js', 'exits.js', 'also-good.js')
  t.strictSame(
    ended.results.map(({ path }) => name(path)),
    ['good.js'],
  )
  t.strictSame(ended.unfinished.map(name), ['exits.js', 'also-good.js'], 'these are run alone')

  const late = await together('good.js', 'late.js')
  t.strictSame(late.results, [])
  t.strictSame(
    late.unfinished.map(name),
    ['good.js', 'late.js'],
    'nobody knows whose exit code it is',
  )
})

t.test('which files share a process', t => {
  t.ok(
    canShare("import t from 'tap'\nt.setTimeout(1)\nt.test('a', async t => { t.ok(process.pid) })"),
  )
  for (const text of [
    "process.on('exit', () => {})",
    'process.exitCode = 1',
    "process.env['TZ'] = 'UTC'",
    'delete process.env.TZ',
    'const { rss } = process.memoryUsage()',
    't.equal(1, 1)',
    "t.teardown(() => process.chdir('/'))",
  ]) {
    t.notOk(canShare(`import t from 'tap'\n${text}`), text)
  }
  const paths = Array.from({ length: 40 }, (_, i) => `${i}.js`)
  const processes = processesFor(paths, path => path !== '7.js')
  t.strictSame(processes[0], ['7.js'])
  t.strictSame(
    processes.map(({ length }) => length),
    [1, 13, 13, 13],
  )
  t.strictSame(new Set(processes.flat()), new Set(paths), 'each runs once')
  t.end()
})

t.test('an error that nobody catches fails the file, also where tap has no hooks', async t => {
  const uncaught = (how: string) =>
    `import t from 'tap'
    t.test('a', async t => { ${how}; await new Promise(resolve => setTimeout(resolve, 50)); t.ok(true) })
    t.test('b', async t => { t.ok(true) })`
  const directory = t.testdir({
    'thrown.js': uncaught(`setTimeout(() => { throw new Error('late') })`),
    'rejected.js': uncaught(`Promise.reject(new Error('late'))`),
  })
  const withoutHooks = `--import=${join(import.meta.dirname, 'runner/without-hooks.js')}`
  for (const name of ['thrown.js', 'rejected.js']) {
    const options = { cwd: packageRoot(), nodeOptions: [withoutHooks], env: {}, limit: 60_000 }
    const { ok, failures, tap, errors } = await runTestFile(join(directory, name), options)
    t.equal(ok, false, name)
    t.not(failures.length, 0, name)
    t.match(tap + errors, 'late', name)
  }
})

t.test('a failed subtest counts once, whatever its parents say', t => {
  const tap = [
    '# Subtest: a',
    '    # Subtest: b',
    '        not ok 1 - c',
    '          ---',
    '          diff: |',
    '            not ok 2 - part of the details',
    '          ...',
    '        1..1',
    '    not ok 1 - b # time=1ms',
    '    # Subtest: alone',
    '        1..0',
    '    not ok 2 - alone # no tests',
    '    ok 3 - later # TODO',
    '    1..3',
    'not ok 1 - a # time=2ms',
    'ok 2',
    '1..2',
  ]
  t.strictSame(readTap(tap.join('\n')), {
    passed: 1,
    failures: ['a > b > c', 'a > alone # no tests'],
    skips: [],
    planned: true,
  })
  t.equal(readTap('ok 1 - a\n').planned, false, 'a file that was cut off')
  t.end()
})

t.test('a run ends with what failed', async t => {
  const directory = t.testdir(files)
  const main = join(import.meta.dirname, 'runner/main.js')
  const paths = ['good.js', 'bad.js'].map(name => join(directory, name))
  const output = join(directory, 'all.json')
  const bad = await attempt(process.execPath, [main, `--json-file=${output}`, ...paths])
  t.equal(bad.code, 1)
  const [skipped, ...end] = bad.stdout.toString().trimEnd().split('\n').slice(-4)
  t.match(skipped, /^skipped: .*\/good\.ts: b # c: SKIPPED: no such program$/)
  t.match(end[0], /^failed: .*\/bad\.ts: outer > inner > one # two$/)
  t.match(end[1], /^failed: .*\/bad\.ts: outer > broken > no$/)
  t.equal(end[2], '2 files: 3 passed, 2 failed, 1 skipped')
  t.match(bad.stdout.toString(), /=== .*\/bad\.ts: 2 failed\n[\s\S]*\+not ok 9 - x/)
  t.notMatch(bad.stdout.toString(), /=== .*\/good\.ts/)
  t.match(bad.stdout.toString(), /^passed: .*\/good\.ts \([\d.]+ s, \d of \d\)$/m)
  t.match(bad.stdout.toString(), /^FAILED: .*\/bad\.ts /m)
  const report = join(import.meta.dirname, 'runner/report.js')
  const reported = async (...args: string[]) => {
    const { code, stdout } = await attempt(process.execPath, [report, ...args, output])
    return { code, lines: stdout.toString().trimEnd().split('\n') }
  }
  const all = await reported()
  t.equal(all.code, 0)
  t.match(all.lines.slice(-4), [
    /^skipped: .*\/good\.ts: b # c: SKIPPED: no such program$/,
    /^failed: .*\/bad\.ts: outer > inner > one # two$/,
    /^failed: .*\/bad\.ts: outer > broken > no$/,
    '3 passed, 2 failed, 1 skipped',
  ])
  t.match(all.lines.join('\n'), /=== .*\/bad\.ts: 2 failed\n[\s\S]*\+not ok 9 - x/)
  t.match((await reported('--again')).lines.slice(-4), [
    /^skipped: /,
    /^failed the first time: .*inner/,
    /^failed the first time: .*broken/,
    '3 passed, 0 failed, 1 skipped',
  ])
  t.equal((await reported('--also=npm ci')).lines.at(-1), '3 passed, 3 failed, 1 skipped')
  t.match(await reported('--failed'), { code: 0, lines: [/\/bad\.js$/] })

  const good = await attempt(process.execPath, [main, join(directory, 'good.js')])
  t.equal(good.code, 0)
  const none = await attempt(process.execPath, [main, join(directory, 'absent.js')])
  t.match(none, { code: 1, stderr: /absent\.js/ })
})
