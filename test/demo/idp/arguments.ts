import t from 'tap'
import { checkDevIdp, demo, devIdp } from '../../../demo/idp/arguments.ts'
import { helpText, type Program, readArguments } from '../../../lib/command-line.ts'

function optionsOf<P extends Program>(program: P, argv: readonly string[], directory = '/') {
  const invocation = readArguments(program, argv, directory)
  if (invocation.run !== 'command') throw new Error(invocation.run)
  return invocation.line.options
}

t.test(
  'dev-idp without arguments listens on a loopback address and answers like entra',
  async t => {
    t.strictSame(optionsOf(devIdp, []), {
      listen: { address: '127.0.0.1', port: 8989 },
      profile: 'entra',
      users: undefined,
      'encrypt-to': undefined,
      'encrypt-parts': false,
      'want-signed': false,
      for: [],
    })
    t.match(optionsOf(demo, []), { port: 8443, profile: 'entra' })
  },
)

t.test('dev-idp takes its options; files are found from the directory of the caller', async t => {
  const argv = [
    ...['--listen', '[::1]:0', '--profile', 'keycloak', '--users', 'people.yaml'],
    ...['--encrypt-to', '/etc/sp.crt', '--encrypt-parts', '--want-signed'],
    ...['--for', 'a.internal', '--for', 'b.internal'],
  ]
  t.strictSame(optionsOf(devIdp, argv, '/here'), {
    listen: { address: '::1', port: 0 },
    profile: 'keycloak',
    users: '/here/people.yaml',
    'encrypt-to': '/etc/sp.crt',
    'encrypt-parts': true,
    'want-signed': true,
    for: ['a.internal', 'b.internal'],
  })
})

t.test('dev-idp never listens where others could reach it', async t => {
  for (const address of ['0.0.0.0:80', '[::]:80', '192.0.2.1:80', '8080', '*:80']) {
    t.throws(() => optionsOf(devIdp, ['--listen', address]), { message: /only loopback/ }, address)
  }
})

t.test('what is wrong is told in a sentence', async t => {
  for (const [argv, message] of [
    [['--profile', 'azure'], /--profile: found "azure", expected one of entra, adfs/],
    [['--profle', 'okta'], /did you mean --profile\?/],
    [['--listen', 'localhost:80'], /--listen: .*write 127\.0\.0\.1:80/],
    [['surplus'], /surplus/],
  ] as const) {
    t.throws(() => optionsOf(devIdp, argv), { message }, argv.join(' '))
  }
  t.throws(() => checkDevIdp(optionsOf(devIdp, ['--encrypt-parts'])), {
    message: /--encrypt-to FILE/,
  })
  t.throws(() => optionsOf(demo, ['--port', 'x']), { message: /--port: found "x"/ })
  t.throws(() => optionsOf(demo, ['--port', '70000']), { message: /--port: found "70000"/ })
})

t.test('help fits a terminal', async t => {
  t.strictSame(readArguments(demo, ['--help'], '/'), { run: 'help' })
  t.strictSame(readArguments(devIdp, ['-h'], '/'), { run: 'help' })
  for (const program of [demo, devIdp]) {
    for (const line of helpText(program).split('\n')) t.ok(line.length <= 80, line)
  }
})
