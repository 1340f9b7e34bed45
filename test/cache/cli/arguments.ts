import t from 'tap'
import { cachesvc } from '../../../lib/cache/cli/arguments.ts'
import { helpText, readArguments } from '../../../lib/command-line.ts'

const read = (...argv: readonly string[]) => readArguments(cachesvc, argv, '/srv')
const message = (...argv: readonly string[]) => {
  try {
    return `no message but ${read(...argv).run}`
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

t.test('serve is what happens without a command', t => {
  const options = {
    output: undefined,
    config: undefined,
    'cache-dir': undefined,
    listen: [],
    'check-config': false,
    'dump-config': false,
    'dry-run': false,
    json: false,
    sort: 'url',
  }
  const bare = { run: 'command', line: { run: 'serve', operands: [], options } }
  t.match(read(), bare)
  t.match(read('serve'), bare)
  t.match(read('--', 'serve'), bare)
  t.end()
})

t.test('options are taken in every form and place', t => {
  const expected = {
    line: {
      run: 'serve',
      options: {
        config: '/srv/a.yaml',
        'cache-dir': '/srv/c',
        listen: [
          { address: '127.0.0.1', port: 1 },
          { address: '::1', port: 0 },
        ],
      },
    },
  }
  t.match(
    read('-c', 'a.yaml', '--cache-dir', '/srv/c', '--listen', '127.0.0.1:1', '--listen', '[::1]:0'),
    expected,
  )
  t.match(
    read(
      ...['--listen=127.0.0.1:1', 'serve', '--config=a.yaml'],
      ...['--cache-dir=/srv/c', '--listen=[::1]:0'],
    ),
    expected,
  )
  t.match(read('-ca.yaml'), { line: { options: { config: '/srv/a.yaml' } } })
  t.match(read('--check-config', '-c', '/etc/x'), {
    line: { options: { 'check-config': true, config: '/etc/x' } },
  })
  t.match(read('status', '--json'), {
    line: { run: 'status', options: { json: true, 'dry-run': false } },
  })
  t.match(read('explain', 'http://a.example.org/'), {
    line: { run: 'explain', operands: ['http://a.example.org/'] },
  })
  t.strictSame(
    [read('-h').run, read('--help', 'nonsense').run, read('-v').run, read('--version').run],
    ['help', 'help', 'version', 'version'],
  )
  t.end()
})

t.test('what is wrong is one sentence with a way out', t => {
  const table: ReadonlyArray<readonly [readonly string[], string]> = [
    [['--cofnig', 'x'], 'there is no option "--cofnig"; did you mean --config?'],
    [['-x'], 'there is no option "-x"; see cachesvc --help'],
    [['srve'], 'there is no command "srve"; did you mean serve?'],
    [['help'], 'there is no command "help"; did you mean --help?'],
    [['frobnicate'], 'there is no command "frobnicate"; see cachesvc --help'],
    [['constructor'], 'there is no command "constructor"; see cachesvc --help'],
    [['--__proto__'], 'there is no option "--__proto__"; see cachesvc --help'],
    [['serve', 'now'], 'serve takes no argument, found "now"'],
    [['explain'], 'explain needs an argument: cachesvc explain URL'],
    [['list', 'a', 'b'], 'list takes [PATTERN], found "a b"'],
    [['explain', '--sort', 'size', 'x'], '--sort is an option of list only'],
    [['remove'], 'remove needs an argument: cachesvc remove URL|PATTERN'],
    [['-c'], '-c needs a value: -c FILE'],
    [['--cache-dir='], '--cache-dir needs a value: --cache-dir DIR'],
    [['--check-config=1'], '--check-config takes no value'],
  ]
  for (const [argv, expected] of table) t.equal(message(...argv), expected, argv.join(' '))
  t.match(message('--config', '--listen', 'x'), /needs a value, found --listen/)
  t.match(message('--listen', 'localhost:80'), /^--listen: .*write 127\.0\.0\.1:80/)
  t.end()
})

t.test('the help fits a terminal and names every command and option', t => {
  const text = helpText(cachesvc)
  for (const line of text.split('\n')) t.ok(line.length <= 80, line)
  for (const name of Object.keys(cachesvc.options)) t.match(text, `--${name}`)
  for (const name of Object.keys(cachesvc.commands)) t.match(text, new RegExp(`^  ${name} `, 'm'))
  t.end()
})

t.test('list has orders by name', t => {
  t.match(read('list', '--sort', 'size'), { line: { options: { sort: 'size' } } })
  t.match(read('list', '--sort=used', 'gcc'), { line: { options: { sort: 'used' } } })
  t.match(message('list', '--sort', 'age'), 'found "age", expected url, size or used')
  t.match(message('stats', '--sort', 'size'), /--sort/)
  t.end()
})
