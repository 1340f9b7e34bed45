/**
 * `authproxy access`: what it says of a request, and of the requests of a log.
 */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { Replay } from '../../../lib/auth/cli/replay.ts'
import { trialLines, tryRequest } from '../../../lib/auth/cli/trial.ts'
import { configCheck } from '../../../lib/auth/config/load-config.ts'
import { decodeConfig } from '../../../lib/config/config-file.ts'
import { packageRoot } from '../../../lib/package.ts'
import { accessTable, personOf, ruleSets, rulesOfSet } from '../../fixtures/gateway/access-table.ts'
import { domain, gatewayConfig, startGateway } from '../../fixtures/gateway/gateway.ts'
import { nodeBackend } from '../../fixtures/gateway/node-backend.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'
import { attempt } from '../../fixtures/process/command.ts'

const least = `domain: app.example.org
idpMetadataURL: https://idp.example.org/metadata
passthroughPaths: [/open/]
proxy: { listenAddress: "127.0.0.1:8080", targetURL: "http://127.0.0.1:3000" }
`

function configOfSet(set: string) {
  const loaded = decodeConfig(`${ruleSets[set] ?? ''}${least}`, 'app.yaml', configCheck('app'))
  if (!loaded.ok) throw new Error(loaded.problems.join('\n'))
  return loaded.value
}

const now = Date.UTC(2030, 0, 1)

t.test('the verdicts are those of the table', t => {
  const is: Readonly<Record<string, string>> = {
    allowed: 'passes',
    login: 'login',
    'step-up': 'login',
    refused: 'refused',
    ambiguous: 'refused',
  }
  const configs = new Map(Object.keys(ruleSets).map(set => [set, configOfSet(set)]))
  for (const { set, who, method, path, verdict } of accessTable) {
    const config = configs.get(set)
    if (config === undefined) throw new Error(set)
    const tried = tryRequest(config, { method, path, person: personOf(who, now), now })
    t.equal(tried.is, is[verdict], `${set} ${who} ${method} ${path}`)
  }
  t.end()
})

t.test('a verdict names rule, line and reason', t => {
  const config = configOfSet('A')
  for (const [who, method, path, lines] of [
    [
      'ada',
      'POST',
      '/admin/x',
      [
        'POST /admin/x, ada@example.org: refused, 403',
        'rule 3, line 6: path /admin/, methods POST, PUT, PATCH, DELETE',
        'because none of its descriptions fits: groups: ops, admins; department: IT, Site * | users: root@example.org',
      ],
    ],
    [
      'omar',
      'POST',
      '/admin/x',
      [
        'POST /admin/x, omar@example.org: has to sign in',
        /rule 3/,
        'because the login is too old, and is asked for anew',
      ],
    ],
    [
      'none',
      'GET',
      '/public/x',
      [
        'GET /public/x, a person who is not signed in: passes',
        'rule 2, line 4: path /public/',
        'because it allows anyone',
      ],
    ],
    [
      'ada',
      'GET',
      '/ADMIN/',
      [/refused, 400/, /rule 4/, 'because an application could take the path for /admin/'],
    ],
    ['ada', 'GET', '/open/x', [/passes/, 'because passthroughPaths: /open/']],
    ['ada', 'GET', '/saml/acs', [/answered here/, /answers this address itself/]],
  ] as const) {
    const trial = { method, path, person: personOf(who, now), now }
    t.match(trialLines(trial, tryRequest(config, trial)), lines, `${who} ${path}`)
  }
  t.end()
})

t.test('a log is judged by other rules, with the groups of each login', t => {
  const replay = new Replay(configOfSet('A'))
  const request = (facts: object) =>
    replay.take(
      `<6>${JSON.stringify({ time: new Date(now).toISOString(), method: 'GET', status: 200, client: '192.0.2.1', ...facts, message: 'request' })}`,
    )
  const signIn = (subject: string, groups: readonly string[]) =>
    replay.take(
      `Nov 26 app authproxy[7]: ${JSON.stringify({ subject, attributes: { groups, department: [] }, authnInstant: new Date(now).toISOString(), message: 'signed in' })}`,
    )
  const forwarded = { outcome: 'forwarded', because: 'session' }
  signIn('ada@example.org', ['staff'])
  request({ ...forwarded, user: 'ada@example.org', target: `${domain}/page?x=/admin/` })
  request({ ...forwarded, user: 'ada@example.org', target: `${domain}/admin/x` })
  request({ ...forwarded, user: 'ada@example.org', target: `https://${domain}/admin/y?q` })
  signIn('ada@example.org', ['auditors'])
  request({ ...forwarded, user: 'ada@example.org', target: `${domain}/admin/x` })
  request({ ...forwarded, user: 'eve@example.org', target: `${domain}/admin/x` })
  request({ ...forwarded, user: 'eve@example.org', target: `${domain}/page` })
  request({ outcome: 'login', because: 'no-session', target: `${domain}/public/x` })
  request({ outcome: 'login', because: 'no-session', target: `${domain}/page` })
  request({
    outcome: 'refused',
    because: 'access',
    user: 'ada@example.org',
    target: `${domain}/page`,
  })
  request({ outcome: 'refused', because: 'malformed', target: `${domain}/page` })
  request({ outcome: 'unauthenticated', because: 'token-unknown', target: `${domain}/public/` })
  request({ outcome: 'saml', target: `${domain}/saml/acs` })
  replay.take('no JSON { here')
  replay.take('')
  t.same(replay.counts(), { refused: 2, login: 0, 'let in': 2, undecided: 1 })
  t.match(
    replay.report().join('\n'),
    /newly refused: 2 requests\n {2}ada@example.org: 2, such as GET \/admin\/x \(rule 4, line 14/,
  )
  t.end()
})

t.test(
  'verdicts on the log of a service are those the service gives for the same requests',
  async t => {
    const target = await nodeBackend(t, (_, response) => response.end('page'))
    const before = await startGateway(t, { target })
    const after = await startGateway(t, { target, settings: { access: rulesOfSet('A') } })
    const attributes = { email: ['ada@example.org'], groups: ['staff'] }
    const cookies = [await before.logIn(attributes), await after.logIn(attributes)]
    const replay = new Replay(
      gatewayConfig({
        domain,
        idpMetadataURL: 'https://idp.example.org/metadata',
        access: rulesOfSet('A'),
        proxy: { listenAddress: '127.0.0.1:0', targetURL: target },
      }),
    )
    const logged = { ...attributes, department: [] }
    replay.take(
      JSON.stringify({ subject: 'ada@example.org', attributes: logged, message: 'signed in' }),
    )
    let refused = 0
    for (const { set, who, method, path } of accessTable) {
      if (set !== 'A' || who !== 'ada') continue
      const statuses: number[] = []
      for (const [index, gateway] of [before, after].entries()) {
        const client = await RawClient.connect(t, gateway.port)
        await client.request(method, path, { Host: domain, Cookie: cookies[index] ?? '' })
        statuses.push((await client.head()).status)
        client.end()
      }
      if (statuses[0] === 200 && statuses[1] !== 200) refused += 1
    }
    for (const { message, facts } of before.log.lines) {
      if (message === 'request') replay.take(JSON.stringify({ ...facts, message }))
    }
    t.ok(refused > 50)
    t.same(replay.counts(), { refused, login: 0, 'let in': 0, undecided: 0 })
  },
)

t.test('the command says it, and ends with what became of the request', async t => {
  const directory = t.testdir()
  const config = join(directory, 'app.yaml')
  await writeFile(config, `${ruleSets['A'] ?? ''}${least}`)
  const run = (...args: string[]) => asText('access', '-c', config, ...args)
  const refused = await run(
    '--user',
    'ada@example.org',
    '--groups',
    'a, b',
    '--method',
    'POST',
    '/admin/x?y',
  )
  t.equal(refused.code, 1)
  t.match(
    refused.stdout,
    /^POST \/admin\/x, ada@example.org: refused, 403\nrule 3, line 6: .*\nbecause none/,
  )
  const passes = await run(
    'app',
    '--user',
    'o@example.org',
    '--groups',
    'ops',
    '--attribute',
    'department=IT',
    '--context',
    'https://refeds.org/profile/mfa',
    '--method',
    'POST',
    '/admin/x',
  )
  t.match(passes, { code: 0, stdout: /passes/ })
  t.match(await run('/metrics'), { code: 1, stdout: /it allows nobody/ })
  t.match(await run(), { code: 2, stderr: /name a PATH/ })
  t.match(await run('--groups', 'a', '/x'), { code: 2, stderr: /name them by --user/ })
  const log = join(directory, 'log')
  await writeFile(
    log,
    '{"message":"request","outcome":"forwarded","method":"GET","target":"h/metrics","user":"ada"}\n',
  )
  t.match(await run('--log', log), {
    code: 0,
    stdout: /newly refused: 1 requests\n {2}ada: 1, such as GET \/metrics/,
  })
})

async function asText(...args: string[]) {
  const { code, stdout, stderr } = await attempt(join(packageRoot(), 'bin/authproxy'), args)
  return { code, stdout: stdout.toString(), stderr }
}
