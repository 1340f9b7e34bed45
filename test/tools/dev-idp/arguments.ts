import t from 'tap'
import {
  demoHelp,
  devIdpHelp,
  readDemoArguments,
  readDevIdpArguments,
} from '../../../lib/tools/dev-idp/arguments.ts'

const message = (read: { readonly run: string; readonly message?: string }) =>
  read.run === 'usage' ? read.message : `no complaint: ${read.run}`

t.test(
  'dev-idp without arguments listens on a loopback address and answers like entra',
  async t => {
    t.strictSame(readDevIdpArguments([], '/here'), {
      run: 'it',
      options: {
        listen: { address: '127.0.0.1', port: 8989 },
        profile: 'entra',
        users: undefined,
        encryptTo: undefined,
        encryptParts: false,
        wantSigned: false,
        hosts: [],
      },
    })
  },
)

t.test('dev-idp takes what it is told; files are found from where one stands', async t => {
  const read = readDevIdpArguments(
    [
      ...['--listen', '[::1]:0', '--profile', 'keycloak', '--users', 'people.yaml'],
      ...[
        '--encrypt-to',
        '/etc/sp.crt',
        '--encrypt-parts',
        '--want-signed',
        '--for',
        'a.internal',
        '--for',
        'b.internal',
      ],
    ],
    '/here',
  )
  t.strictSame(read, {
    run: 'it',
    options: {
      listen: { address: '::1', port: 0 },
      profile: 'keycloak',
      users: '/here/people.yaml',
      encryptTo: '/etc/sp.crt',
      encryptParts: true,
      wantSigned: true,
      hosts: ['a.internal', 'b.internal'],
    },
  })
})

t.test('dev-idp never listens where others could reach it', async t => {
  for (const address of ['0.0.0.0:80', '[::]:80', '192.0.2.1:80', '8080', '*:80']) {
    t.match(message(readDevIdpArguments(['--listen', address], '/')), 'only loopback', address)
  }
})

t.test('what is wrong is told in a sentence', async t => {
  const cases: ReadonlyArray<readonly [readonly string[], RegExp]> = [
    [['--profile', 'azure'], /--profile: found azure, expected one of entra, adfs/],
    [['--profle', 'okta'], /did you mean --profile\?/],
    [['--listen', 'localhost:80'], /--listen: .*write 127\.0\.0\.1:80/],
    [['surplus'], /surplus/],
    [['--encrypt-parts'], /--encrypt-parts: .* needs --encrypt-to FILE/],
  ]
  for (const [argv, expected] of cases) {
    t.match(message(readDevIdpArguments(argv, '/')), expected, argv.join(' '))
  }
  t.match(message(readDemoArguments(['--port', 'x'], '/')), /--port: found x/)
  t.match(message(readDemoArguments(['--port', '70000'], '/')), /--port: found 70000/)
})

t.test('help fits a terminal', async t => {
  t.strictSame(readDemoArguments(['--help'], '/'), { run: 'help' })
  t.strictSame(readDevIdpArguments(['-h'], '/'), { run: 'help' })
  for (const line of `${demoHelp}${devIdpHelp}`.split('\n')) t.ok(line.length <= 80, line)
})
