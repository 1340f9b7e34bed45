import t from 'tap'
import { sessions } from '../../../lib/auth/cli/sessions.ts'
import { readArguments } from '../../../lib/command-line.ts'
import { attempt } from '../../fixtures/process/command.ts'

t.test('what a command line means, and what is wrong with it', t => {
  const read = (...argv: readonly string[]) => readArguments(sessions, argv, '/')
  t.match(read('end', '--user', 'ada@example.org', 'app'), {
    line: { run: 'end', operands: ['app'], options: { user: 'ada@example.org' } },
  })
  t.match(read(), { line: { run: 'help' } }, 'without a verb')
  for (const [argv, problem] of [
    [['app'], /there is no command "app"/],
    [['list'], /there is no command "list"/],
    [['--user', 'ada'], /--user is an option of end only/],
    [['end', '--user', ''], /--user needs a value/],
    [['end', '--user', 'a\nb'], /--user: has control characters/],
    [['end', '--user', 'a'.repeat(1001)], /--user: is longer than 1000 characters/],
    [['end', '--user', 'ada', 'app', 'shop'], /end takes \[INSTANCE\]/],
  ] as const) {
    t.throws(() => read(...argv), { message: problem })
  }
  t.end()
})

t.test('without a verb it says what there is; without a user nothing ends', async t => {
  const said = async (...argv: readonly string[]) => {
    const program = ['dist/bin/authproxy.js', 'sessions', ...argv]
    const { code, stdout, stderr } = await attempt(process.execPath, program)
    return { code, out: stdout.toString(), err: stderr }
  }
  t.match(await said(), { code: 0, out: /^Usage: authproxy sessions end --user NAME/, err: '' })
  t.match(await said('end', 'app'), { code: 2, out: '', err: /end needs the user: --user NAME/ })
})
