/**
 * What runs the tests: no failure is lost, and each is named at the end.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { packageRoot } from '../lib/package.ts'
import { attempt } from './fixtures/process/command.ts'
import { readTap, runTestFile } from './runner/test-file.ts'

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
    '        not ok 2 - part of the details',
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
  const output = join(directory, 'all.tap')
  const bad = await attempt(process.execPath, [main, `--output-file=${output}`, ...paths])
  t.equal(bad.code, 1)
  const [skipped, ...end] = bad.stdout.toString().trimEnd().split('\n').slice(-4)
  t.match(skipped, /^skipped: .*\/good\.ts: b # c: SKIPPED: no such program$/)
  t.match(end[0], /^failed: .*\/bad\.ts: outer > inner > one # two$/)
  t.match(end[1], /^failed: .*\/bad\.ts: outer > broken > no$/)
  t.equal(end[2], '2 files: 3 passed, 2 failed, 1 skipped')
  t.match(bad.stdout.toString(), /=== .*\/bad\.ts: 2 failed\n[\s\S]*\+not ok 9 - x/)
  t.notMatch(bad.stdout.toString(), /=== .*\/good\.ts/)
  const tap = readFileSync(output, 'utf8')
  t.match(tap, /^ok 1 - .*\/good\.js # time=\d+ms$/m)
  t.match(tap, /^not ok 2 - .*\/bad\.js # time=\d+ms$/m)
  t.match(tap, /^# \{ total: .*[ {]pass: 3, fail: 2, skip: 1 \}$/m)

  const good = await attempt(process.execPath, [main, join(directory, 'good.js')])
  t.equal(good.code, 0)
  const none = await attempt(process.execPath, [main, join(directory, 'absent.js')])
  t.match(none, { code: 1, stderr: /absent\.js/ })
})
