import t from 'tap'
import { authproxy, instanceOf } from '../../../lib/auth/cli/arguments.ts'
import { helpText, readArguments } from '../../../lib/command-line.ts'

const lineOf = (...argv: string[]) => {
  const invocation = readArguments(authproxy, argv, '/here')
  if (invocation.run !== 'command') throw new Error('no command')
  return invocation.line
}

const read = (...argv: string[]) => {
  const invocation = readArguments(authproxy, argv, '/here')
  if (invocation.run !== 'command') return invocation
  const { run, operands, options } = invocation.line
  return run === 'dev-idp' || run === 'demo'
    ? { run, operands }
    : { run, options, ...instanceOf(invocation.line) }
}

t.test('what is asked for', t => {
  const instance = (name: string) => ({
    instance: name,
    file: undefined,
    configDirectory: '/etc/authproxy',
  })
  t.match(read('app'), { run: 'serve', ...instance('app') })
  t.match(read('serve', 'app'), { run: 'serve', ...instance('app') })
  t.match(read(), { run: 'serve', ...instance('default') })
  t.match(read('app', '--check-config'), {
    options: { 'check-config': true },
    ...instance('app'),
  })
  t.match(read('rotate-keys', 'app'), { run: 'rotate-keys', ...instance('app') })
  t.match(read('doctor'), { run: 'doctor', options: { groups: undefined }, ...instance('default') })
  t.match(read('doctor', 'app', '--groups', '150'), { run: 'doctor', options: { groups: 150 } })
  t.match(read('explain', 'abc-1', 'app'), { run: 'explain', ...instance('app') })
  // A failure page says `SAML-ERROR abc-1`; people copy what they see.
  for (const category of ['SAML-ERROR', 'PROXY-ERROR', 'SAML-ERROR:']) {
    const { run, operands } = lineOf('explain', category, 'abc-1', 'app')
    t.match({ run, operands }, { run: 'explain', operands: ['abc-1', 'app'] })
  }
  t.match(read('explain', 'SAML-ERROR', 'abc-1', 'app'), instance('app'))
  t.match(read('explain', 'SAML-ERROR', 'abc-1'), instance('default'))
  t.match(read('-c', 'x/wiki.yaml'), { instance: 'wiki', file: '/here/x/wiki.yaml' })
  t.match(read('app', '--config-dir=conf'), { instance: 'app', configDirectory: '/here/conf' })
  t.same(read('dev-idp', '--port', '1'), { run: 'dev-idp', operands: ['--port', '1'] })
  t.match(read('app', '--help'), { run: 'help' })
  t.match(read('--version'), { run: 'version' })
  t.end()
})

t.test('what is wrong is said in one sentence', t => {
  for (const [argv, sentence] of [
    [['--confg', 'x'], /did you mean --config/],
    [['-c'], /needs a value/],
    [['--config', '--check-config'], /needs a value/],
    [['--help=yes'], /takes no value/],
    [['rotate-key', 'app'], /did you mean rotate-keys/],
    [['../etc/passwd'], /not a name of an instance/],
    [['explain'], /REFERENCE/],
    [['explain', 'SAML-ERROR'], /REFERENCE/],
    [['explain', 'SAML-ERROR', 'abc-1', 'app', 'wiki'], /takes REFERENCE \[INSTANCE\]/],
    [['doctor', '--groups', 'many'], /--groups: found "many", expected a number/],
    [['doctor', '--groups'], /--groups needs a value: --groups NUMBER/],
    [['app', '--groups', '150'], /an option of doctor/],
  ] as const) {
    t.throws(() => read(...argv), { message: sentence }, argv.join(' '))
  }
  t.end()
})

t.test('the help fits a terminal', t => {
  for (const line of helpText(authproxy).split('\n')) t.ok(line.length <= 80, line)
  t.end()
})
