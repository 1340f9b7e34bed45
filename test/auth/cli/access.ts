/**
 * `authproxy access`: what it says of a request, and of the requests of a log.
 */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { tokenField } from '../../../lib/auth/access/passthrough.ts'
import { configCheck } from '../../../lib/auth/config/loading/load-config.ts'
import { trialLines, tryRequest } from '../../../lib/auth/gate/trial.ts'
import { Replay } from '../../../lib/auth/replay/replay.ts'
import { decodeConfig } from '../../../lib/config/config-file.ts'
import { packageRoot } from '../../../lib/package.ts'
import { backendOf, logIn, start } from '../../fixtures/gateway/access-lab.ts'
import {
  accessTable,
  personOf,
  ruleSets,
  rulesOfSet,
  tablePeople,
} from '../../fixtures/gateway/access-table.ts'
import { domain, startGateway } from '../../fixtures/gateway/gateway.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'
import { attempt } from '../../fixtures/process/command.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

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
        'because the login is too old, and is requested again',
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

t.test('a log without groups says which setting writes them', t => {
  const replay = new Replay(configOfSet('A'))
  replay.take(JSON.stringify({ subject: 'ada@example.org', message: 'signed in' }))
  t.match(
    replay.report().join('\n'),
    /no login of the log has groups, department: set log\.groups: true/,
  )
  replay.take(
    JSON.stringify({
      subject: 'ada@example.org',
      attributes: { groups: [], department: [] },
      message: 'signed in',
    }),
  )
  t.notMatch(replay.report().join('\n'), /log\.groups/)
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
  t.same(countsOf(replay), { refused: 2, login: 0, 'let in': 2, undecided: 1 })
  t.match(
    replay.report().join('\n'),
    /newly refused: 2 requests\n {2}ada@example.org: 2, such as GET \/admin\/x \(rule 4, line 14/,
  )
  t.end()
})

t.test('a method that the query names is judged as the rules judge it', t => {
  const scoped = '{ name: far, token: fedcba9876543210, methods: [GET] }'
  const rules = 'access: [{ path: /, methods: [GET], allow: signed-in }]'
  const text = `${rules}\npassthroughTokens: [${scoped}]\n${least}`
  const loaded = decodeConfig(text, 'app.yaml', configCheck('app'))
  if (!loaded.ok) throw new Error(loaded.problems.join('\n'))
  const replay = new Replay(loaded.value)
  const refused = { message: 'request', method: 'GET', outcome: 'refused', status: 403 }
  for (const facts of [
    { because: 'access', user: 'ada@example.org', target: '/x/1?_method=DELETE' },
    { because: 'access', user: 'ada@example.org', target: 'https://app.example.org/x?_method=PUT' },
  ]) {
    replay.take(JSON.stringify({ ...refused, ...facts }))
  }
  const token = { because: 'token-scope', passthrough: 'far', client: '192.0.2.1' }
  const target = '/x/1?_method=DELETE'
  const outcome = 'unauthenticated'
  replay.take(JSON.stringify({ ...refused, ...token, outcome, target }))
  t.equal(replay.judged, 3)
  t.equal(countsOf(replay)['let in'], 0)
  t.end()
})

t.test('a log of watched rules says whom enforcing would refuse, also without groups', t => {
  const replay = new Replay(configOfSet('C'))
  const line = { method: 'GET', target: `${domain}/a`, user: 'ada', because: 'session' }
  for (const [message, outcome] of [
    ['request', 'forwarded'],
    ['check', 'allowed'],
  ] as const) {
    const facts = { would: 'refuse', rule: 1, line: 7, why: 'not-among' }
    replay.take(JSON.stringify({ ...line, ...facts, outcome, message }))
    replay.take(JSON.stringify({ ...line, outcome, message }))
  }
  t.match(
    replay.report().join('\n'),
    /because rules were only watched: 2 requests\n {2}ada: 2, such as GET \/a \(rule 1; refuse: not-among\)/,
  )
  t.end()
})

t.test('values of rules that no login of the log had are named', t => {
  const config = decodeConfig(
    `access:
  - path: /a/
    allow:
      - groups: [ops, opps, "site-*", "web-*"]
        department: IT
      - users: [eve@example.org, "ada@*"]
  - path: /
    allow: signed-in
${least}`,
    'app.yaml',
    configCheck('app'),
  )
  if (!config.ok) throw new Error(config.problems.join('\n'))
  const replay = new Replay(config.value)
  t.same(replay.unseen(), [], 'without a login nothing is known')
  const signIn = (subject: string, attributes: object) =>
    replay.take(JSON.stringify({ subject, attributes, message: 'signed in' }))
  signIn('ada@example.org', { groups: ['ops', 'site-1'] })
  signIn('bob@example.org', { groups: [] })
  const named = () => replay.unseen().map(({ name, value }) => `${name} ${value}`)
  t.same(named(), ['groups opps', 'groups web-*', 'users eve@example.org'])
  t.match(
    replay.report().join('\n'),
    /none of the 2 logins.*:\n {2}groups: opps \(rule 1, line 2\)/,
  )
  signIn('eve@example.org', { groups: Array(100).fill('a'), department: ['HR'] })
  t.same(named(), ['department IT'], 'a list that was cut may have had any')
  t.end()
})

t.test('lines of the journal have the time that the journal prints, or none', t => {
  const signedIn = JSON.stringify({
    subject: 'omar@example.org',
    attributes: { groups: ['ops'], department: ['IT'] },
    authnInstant: new Date(now).toISOString(),
    authnContext: 'https://refeds.org/profile/mfa',
    message: 'signed in',
  })
  const posted = JSON.stringify({
    ...{ method: 'POST', status: 200, client: '192.0.2.1', target: `${domain}/admin/x` },
    ...{ outcome: 'forwarded', because: 'session', user: 'omar@example.org', message: 'request' },
  })
  const at = (minutes: number) =>
    new Date(now + minutes * 60_000).toISOString().replace(/\..*/, '+0000')
  const none = { refused: 0, login: 0, 'let in': 0, undecided: 0 }
  for (const [before, counts] of [
    [`${at(1)} app authproxy[7]: `, none],
    [`${at(60)} app authproxy[7]: `, { ...none, login: 1 }],
    ['', { ...none, undecided: 1 }],
    ['Nov 26 16:00:00 app authproxy[7]: ', { ...none, undecided: 1 }],
  ] as const) {
    const replay = new Replay(configOfSet('A'))
    replay.take(`${before}${signedIn}`)
    replay.take(`${before}${posted}`)
    t.same(countsOf(replay), counts, before)
  }
  t.end()
})

t.test(
  'verdicts on the log of a service are those the service gives for the same requests',
  async t => {
    const { target } = await backendOf(t)
    const token = '0123456789abcdef'
    const scope = { paths: ['/public/', '/admin/x'], methods: ['GET'], clients: ['127.0.0.0/8'] }
    const far = { token: 'fedcba9876543210', name: 'far' }
    const before = {
      passthroughTokens: [{ token, name: 'near' }, far],
    }
    const after = {
      access: rulesOfSet('A'),
      passthroughTokens: [
        { token, name: 'near', ...scope },
        { ...far, clients: ['192.0.2.0/24'] },
      ],
    }
    const common = { target, clock: new ManualClock(start) }
    const gateways = [
      await startGateway(t, { ...common, settings: before }),
      await startGateway(t, { ...common, settings: after }),
    ] as const
    const replay = new Replay(gateways[1].config)
    const people = Object.keys(tablePeople)
    const cookies = new Map<string, readonly string[]>()
    for (const who of people) {
      cookies.set(who, [await logIn(gateways[0], who), await logIn(gateways[1], who)])
      const { email, groups, department, ago, context } = tablePeople[who] ?? { email: '' }
      const attributes = { groups, department: department === undefined ? [] : [department] }
      const authnInstant = ago === undefined ? undefined : new Date(start - ago).toISOString()
      const said = { subject: email, attributes, authnInstant, authnContext: context }
      replay.take(JSON.stringify({ ...said, message: 'signed in' }))
    }
    const asked = accessTable
      .filter(({ set }) => set === 'A')
      .map(({ who, ...row }) => ({ ...row, who, name: 'Cookie', values: cookies.get(who) }))
    for (const row of asked.slice(0, 60)) {
      for (const [who, secret] of [
        ['near', token],
        ['far', far.token],
      ] as const) {
        const bearer = `Bearer ${secret}`
        asked.push({ ...row, who, name: tokenField, values: [bearer, bearer] })
      }
    }
    const found = { refused: 0, login: 0, 'let in': 0, undecided: 0 }
    for (const { who, method, path, name, values = [] } of asked) {
      const statuses: number[] = []
      for (const [index, gateway] of gateways.entries()) {
        const client = await RawClient.connect(t, gateway.port)
        await client.request(method, path, { Host: domain, [name]: values[index] ?? '' })
        statuses.push((await client.head()).status)
        client.end()
      }
      const [was, is] = statuses
      if ((was === 200) === (is === 200)) continue
      if (is === 200) found['let in'] += 1
      else if (is !== 401 || who === 'near' || who === 'far') found.refused += 1
      // The log does not say when this person authenticated.
      else if (who === 'silent') found.undecided += 1
      else found.login += 1
    }
    for (const { message, facts } of gateways[0].log.lines) {
      if (message !== 'request') continue
      replay.take(JSON.stringify({ ...facts, time: new Date(start).toISOString(), message }))
    }
    t.same(countsOf(replay), found)
    t.ok(found.refused > 100 && found.login > 1 && found['let in'] > 1, JSON.stringify(found))
  },
)

t.test('of a watched rule the command says both what it does and what it would do', async t => {
  const config = join(t.testdir(), 'app.yaml')
  await writeFile(
    config,
    `accessEnforce: watch\naccess: [{ path: /admin/, allow: [{ groups: ops }] }]\n${least}`,
  )
  const run = (...args: string[]) => asText('access', '-c', config, '--user', 'ada', ...args)
  t.match(await run('/admin/x'), {
    code: 0,
    stdout: [
      'GET /admin/x, ada: passes',
      'accessEnforce: watch: path /',
      'because it allows signed-in',
      '',
      'if no rule were only watched:',
      'GET /admin/x, ada: refused, 403',
      'rule 1, line 2: path /admin/',
    ].join('\n'),
  })
})

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
  t.match(await run('/metrics'), { code: 1, stdout: /it lets no person in/ })
  const auditor = ['--user', 'aud@example.org', '--groups', 'auditors'] as const
  t.match(await run(...auditor, '/admin/x'), { code: 0 })
  t.match(await run(...auditor, '/admin/x?_method=DELETE'), {
    code: 1,
    stdout:
      /refused, 400\nrule .*\nbecause a method that a field or the query names is not allowed/,
  })
  t.match(await run(), { code: 2, stderr: /name a PATH/ })
  t.match(await run('--groups', 'a', '/x'), { code: 2, stderr: /name them by --user/ })
  for (const [args, stderr] of [
    [['--method', 'post'], /found "post", .*methods are in upper case; write POST/],
    [['--method', 'TRACE'], /found "TRACE", expected a method such as GET or POST/],
    [['--method', 'PSOT'], /found "PSOT", .*did you mean POST\?/],
    [['--user', 'a', '--attribute', 'departmnt=IT'], /"departmnt"; did you mean department\?/],
    [['--user', 'a', '--attribute', 'shoe=1'], /"shoe"; identity\.attributes names/],
  ] as const) {
    t.match(await run(...args, '/x'), { code: 2, stdout: '', stderr }, args.join(' '))
  }
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

/** The numbers of requests in the report, by kind. */
function countsOf(replay: Replay) {
  const report = replay.report().join('\n')
  const of = (title: string) =>
    Number(new RegExp(`^${title}.*: (\\d+) requests$`, 'm').exec(report)?.[1])
  return {
    refused: of('newly refused'),
    login: of('newly asked for a login'),
    'let in': of('newly let in'),
    undecided: of('undecided'),
  }
}
