import t from 'tap'
import { helpText, readArguments } from '../../../lib/cache/cli/arguments.ts'

const read = (...argv: readonly string[]) => readArguments(argv, '/srv')
const message = (...argv: readonly string[]) => {
  const invocation = read(...argv)
  return invocation.run === 'usage' ? invocation.message : `no message but ${invocation.run}`
}

t.test('serve is what happens without a command', t => {
  const bare = {
    run: 'serve',
    operand: undefined,
    configFile: undefined,
    overrides: { cacheDirectory: undefined, listen: undefined },
  }
  t.strictSame(read(), bare)
  t.strictSame(read('serve'), bare)
  t.strictSame(read('--', 'serve'), bare)
  t.end()
})

t.test('options are taken in every form and place', t => {
  const expected = {
    run: 'serve',
    configFile: '/srv/a.yaml',
    overrides: {
      cacheDirectory: '/srv/c',
      listen: [
        { address: '127.0.0.1', port: 1 },
        { address: '::1', port: 0 },
      ],
    },
  }
  t.match(
    read('-c', 'a.yaml', '--cache-dir', '/srv/c', '--listen', '127.0.0.1:1', '--listen', '[::1]:0'),
    expected,
  )
  t.match(
    read(
      '--listen=127.0.0.1:1',
      'serve',
      '--config=a.yaml',
      '--cache-dir=/srv/c',
      '--listen=[::1]:0',
    ),
    expected,
  )
  t.match(read('-ca.yaml'), { configFile: '/srv/a.yaml' })
  t.match(read('--check-config', '-c', '/etc/x'), { run: 'check-config', configFile: '/etc/x' })
  t.strictSame(
    [read('-h').run, read('--help', 'nonsense').run, read('-v').run, read('--version').run],
    ['help', 'help', 'version', 'version'],
  )
  t.end()
})

t.test('what is wrong is one sentence with a way out', t => {
  const table: ReadonlyArray<readonly [readonly string[], string]> = [
    [['--cofnig', 'x'], 'cachesvc: there is no option "--cofnig"; did you mean --config?'],
    [['-x'], 'cachesvc: there is no option "-x"; see cachesvc --help'],
    [['srve'], 'cachesvc: there is no command "srve"; did you mean serve?'],
    [['help'], 'cachesvc: there is no command "help"; did you mean --help?'],
    [['frobnicate'], 'cachesvc: there is no command "frobnicate"; see cachesvc --help'],
    [['constructor'], 'cachesvc: there is no command "constructor"; see cachesvc --help'],
    [['--__proto__'], 'cachesvc: there is no option "--__proto__"; see cachesvc --help'],
    [['serve', 'now'], 'cachesvc: serve takes no argument, found "now"'],
    [['-c'], 'cachesvc: -c needs a value: -c FILE'],
    [['--cache-dir='], 'cachesvc: --cache-dir needs a value: --cache-dir DIR'],
    [['--check-config=1'], 'cachesvc: --check-config takes no value'],
  ]
  for (const [argv, expected] of table) t.equal(message(...argv), expected, argv.join(' '))
  t.match(message('--config', '--listen', 'x'), /needs a value, found --listen/)
  t.match(message('--listen', 'localhost:80'), /^cachesvc: --listen: .*write 127\.0\.0\.1:80/)
  t.end()
})

t.test('the help fits a terminal and advertises only what there is', t => {
  const text = helpText()
  for (const line of text.split('\n')) t.ok(line.length <= 80, line)
  t.match(text, /--check-config/)
  for (const name of ['serve', 'verify-repos', 'explain', 'list', 'import']) {
    const taken = !message(name, 'x').includes('not available')
    t.equal(new RegExp(`^  ${name}\\b`, 'm').test(text), taken, name)
  }
  t.end()
})
