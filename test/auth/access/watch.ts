/**
 * Rules that are only watched: what they let through and count, and that they open nothing that is closed without them.
 */
import { once } from 'node:events'
import t, { type Test } from 'tap'
import {
  type AccessRule,
  type AccessVerdict,
  accessRules,
  judgeAccess,
} from '../../../lib/auth/access/rules.ts'
import type { Config } from '../../../lib/auth/config/config.ts'
import { configCheck } from '../../../lib/auth/config/loading/load-config.ts'
import { seeded } from '../../fixtures/chance/seeded-random.ts'
import { backendOf, handshake, logIn, start } from '../../fixtures/gateway/access-lab.ts'
import {
  accessTable,
  personOf,
  rulesOfSet,
  tablePeople,
} from '../../fixtures/gateway/access-table.ts'
import { startChecks } from '../../fixtures/gateway/checks.ts'
import {
  domain,
  type Gateway,
  gatewayConfig,
  startGateway,
} from '../../fixtures/gateway/gateway.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

t.setTimeout(300_000)

const least = {
  domain,
  idpMetadataURL: 'https://idp.example.org/metadata',
  configPath: '/nowhere/app.json',
  proxy: { listenAddress: '127.0.0.1:0', targetURL: 'http://127.0.0.1:9' },
}

/** The rules of a set, of which those that open a path to visitors are enforced. */
function watchedSet(set: string): { readonly access: unknown; readonly accessEnforce: 'watch' } {
  const rules = rulesOfSet(set)
  if (!Array.isArray(rules)) throw new Error(set)
  const access = rules.map(rule =>
    rule.allow === 'anyone' ? { ...rule, enforce: 'always' } : rule,
  )
  return { access, accessEnforce: 'watch' }
}

const rank = ({ verdict }: AccessVerdict) =>
  ({ allowed: 0, login: 1, 'step-up': 1, refused: 2, ambiguous: 2 })[verdict]

t.test(
  '98: a person passes by the rules as written or by those that are enforced, and a visitor by the first alone',
  t => {
    const chance = seeded(98)
    const { pick, below } = chance
    const paths = ['/', '/a/', '/A/', '/a/b', '/a/b/', '/c', '= /', '= /a/']
    const allows = [
      ...['nobody', 'anyone', 'signed-in'],
      ...['ops', 'staff', 'admins'].map(group => [{ groups: [group] }]),
    ]
    const asked = ['/', '/a', '/a/', '/A/x', '/a/b', '/a/b/c', '/c', '/C', '/a//b', '/%61/b']
    const seen = { passed: 0, watched: 0, 'led to a login': 0 }
    for (let round = 0; round < 3000; round += 1) {
      const access = Array.from({ length: 1 + below(4) }, () => {
        const allow = pick(allows)
        const methods = below(3) === 0 ? { methods: [pick(['GET', 'POST'])] } : {}
        const login = Array.isArray(allow) && below(3) === 0 ? { login: { maxAge: '15m' } } : {}
        const enforce = allow !== 'anyone' && below(2) === 0 ? 'watch' : 'always'
        return { path: pick(paths), allow, ...methods, ...login, enforce }
      })
      const rules = accessOf(access)
      const all = accessRules(rules.map(rule => ({ ...rule, watched: false })))
      const enforced = rules.filter(({ watched }) => !watched)
      const rest = accessRules(enforced)
      const watching = accessRules(rules)
      for (const who of ['none', 'ada', 'olga', 'omar', 'sitra']) {
        const by = { person: personOf(who, start), now: start }
        const asking = { method: pick(['GET', 'POST']), path: pick(asked), alsoMethods: [] }
        const told = JSON.stringify({ access, who, asking })
        const now = judgeAccess(watching, asking, by)
        const written = judgeAccess(all, asking, by)
        const meanwhile = judgeAccess(rest, asking, by)
        if (by.person === undefined) {
          if ((now.verdict === 'allowed') !== (written.verdict === 'allowed')) t.fail(told)
          if (now.verdict === 'login') seen['led to a login'] += 1
        } else if (rank(now) !== Math.min(rank(written), rank(meanwhile))) t.fail(told)
        else if (now.verdict === 'allowed') seen.passed += 1
        const would = rank(now) < rank(written) ? written : undefined
        if (would !== undefined) seen.watched += 1
        const [is, wanted] = [now.would, would].map(each =>
          [each?.verdict, each?.rule?.number].join(),
        )
        if (is !== wanted) t.fail(told)
      }
    }
    t.ok(Math.min(...Object.values(seen)) > 150, JSON.stringify(seen))
    t.end()
  },
)

function accessOf(access: unknown): readonly AccessRule[] {
  // What the check refuses must open nothing either.
  const checked = configCheck('test')({ ...least, access: withMeanwhile(access) })
  if (!checked.ok) throw new Error(checked.problems.map(({ text }) => text).join('\n'))
  const { rules } = checked.value.access ?? { rules: [] }
  return rules.slice(0, -1)
}

/** The rules with one behind them that says who may pass meanwhile, which the check asks for. */
function withMeanwhile(access: unknown): unknown {
  return [...(Array.isArray(access) ? access : []), { path: '/', allow: 'signed-in' }]
}

for (const front of ['requests', 'upgrades', 'checks'] as const) {
  t.test(
    `98, ${front}: watching refuses nobody who is signed in, and counts what enforcing refuses`,
    async t => {
      for (const set of ['A', 'B', 'C']) {
        const enforced = await answersTo(t, { set, front, settings: { access: rulesOfSet(set) } })
        const watched = await answersTo(t, { set, front, settings: watchedSet(set) })
        const wanted: typeof watched.would = []
        for (const [index, { who, what, status, facts }] of enforced.told.entries()) {
          const now = watched.told[index]
          const isSignedIn = who !== 'none'
          if (isSignedIn) t.ok([200, 101].includes(now?.status ?? 0), `${what}: ${now?.status}`)
          else if (status >= 400) t.equal(now?.status, 401, what)
          else t.equal(now?.status, status, what)
          const isRefused = facts['because'] === 'access'
          if (isRefused || /^login-/.test(String(facts['because']))) {
            const { rule, line, why = String(facts['because']).replace('login-', '') } = facts
            const how = isRefused ? { rule, line, why } : { why }
            wanted.push({ would: isRefused ? 'refuse' : 'login', ...how })
            t.match(now?.facts, { would: isRefused ? 'refuse' : 'login', ...how }, what)
          } else t.equal(now?.facts['would'], undefined, what)
        }
        t.ok(set === 'C' || wanted.length > 5)
        t.equal(watched.would.length, wanted.length)
        t.same(watched.counts['refuse'], enforced.counts['refusals'], `${set}: the metric, by rule`)
        const logins = wanted.filter(({ would }) => would === 'login').length
        t.equal(sum(watched.counts['login']), logins)
        t.equal(sum(watched.counts['refusals']), 0)
      }
    },
  )
}

const sum = (counts: Readonly<Record<string, number>> = {}) =>
  Object.values(counts).reduce((all, each) => all + each, 0)

/** Sends the rows of a set by one front, and takes down what the log and the metrics say of them. */
async function answersTo(
  t: Test,
  {
    set,
    front,
    settings,
  }: {
    readonly set: string
    readonly front: 'requests' | 'upgrades' | 'checks'
    readonly settings: Readonly<Record<string, unknown>>
  },
) {
  const { target } = await backendOf(t)
  const common = { target, clock: new ManualClock(start) }
  const admin = { admin: { listenAddress: '127.0.0.1:0' } }
  const edge = 'caddy'
  const checks =
    front === 'checks'
      ? await startChecks(t, { ...common, edge, settings: { ...settings, ...admin } })
      : undefined
  const gateway =
    checks?.gateway ?? (await startGateway(t, { ...common, settings: { ...settings, ...admin } }))
  const cookies = new Map<string, string>()
  for (const who of Object.keys(tablePeople)) cookies.set(who, await logIn(gateway, who))
  const told: Array<{ who: string; what: string; status: number; facts: Record<string, unknown> }> =
    []
  for (const { who, method, path, ...row } of accessTable) {
    if (row.set !== set || (front === 'upgrades' && method !== 'GET')) continue
    const cookie = cookies.get(who)
    const fields = cookie === undefined ? {} : { Cookie: cookie }
    const before = gateway.log.lines.length
    let status: number
    if (checks !== undefined) status = (await checks.ask(path, fields, { method })).status
    else {
      const client = await RawClient.connect(t, gateway.port)
      const more = front === 'upgrades' ? handshake : {}
      await client.request(method, path, { Host: domain, ...fields, ...more })
      status = (await client.head()).status
      client.end()
    }
    const line = await lineBehind(gateway, before)
    told.push({ who, what: `${set} ${who} ${method} ${path}`, status, facts: line })
  }
  const would = told.flatMap(({ facts }) => (facts['would'] === undefined ? [] : [facts]))
  return { told, would, counts: await countsOf(t, gateway) }
}

/** The line of the request that was sent when the log had so many lines. */
async function lineBehind({ log }: Gateway, before: number): Promise<Record<string, unknown>> {
  for (;;) {
    const line = log.lines
      .slice(before)
      .find(({ message }) => message === 'request' || message === 'check')
    if (line !== undefined) return { ...line.facts }
    await new Promise(resolve => setImmediate(resolve))
  }
}

/** The counters of refusals and of watched rules, by rule. */
async function countsOf(t: Test, gateway: Gateway) {
  const client = await RawClient.connect(t, gateway.service.adminPort ?? 0)
  const { text } = await client.get('/metrics', { Host: 'localhost' })
  const all: Record<string, Record<string, number>> = {}
  for (const [, name = '', labels = '', value] of text.matchAll(
    /^authproxy_access_(refusals|watched)_total\{(.*)\} (\d+)$/gm,
  )) {
    const [, rule = ''] = /rule="(\d+)"/.exec(labels) ?? []
    const [, would = name] = /would="(\w+)"/.exec(labels) ?? []
    all[would] = { ...all[would], [rule]: Number(value) }
  }
  return all
}

t.test(
  '98: a WebSocket that passes because a rule is watched ends when the rule is enforced',
  async t => {
    const { target, events } = await backendOf(t)
    const clock = new ManualClock(start)
    const rules = (enforce: string) => [
      { path: '/socket', allow: [{ groups: ['ops'] }], enforce },
      { path: '/', allow: 'signed-in' },
    ]
    let config: Config | undefined
    const gateway = await startGateway(t, {
      ...{ target, clock, settings: { access: rules('watch') } },
      reload: () => config ?? gateway.config,
    })
    const { configPath } = gateway.config
    const proxy = { ...least.proxy, targetURL: target }
    const reload = async (access: unknown) => {
      config = gatewayConfig({ ...least, configPath, proxy, access })
      t.same(await gateway.service.reload(), [])
    }
    const said = () => gateway.log.lines.filter(({ message }) => /only watched/.test(message))
    t.match(said(), [{ message: /rules of access are only watched.*\(1\)$/ }])
    const cookie = await logIn(gateway, 'ada')
    const client = await RawClient.connect(t, gateway.port)
    await client.request('GET', '/socket', { Host: domain, Cookie: cookie, ...handshake })
    t.equal((await client.head()).status, 101)
    await reload(rules('watch'))
    t.equal(said().length, 1, 'it is said when it begins, not at each reload')
    const left = once(events, 'left')
    await reload(rules('always'))
    clock.advance(1000)
    await left
    await reload(rules('watch'))
    t.equal(said().length, 2)
  },
)

t.test('98: a preflight is judged as if no rule were only watched', async t => {
  const { target, seen } = await backendOf(t)
  const rules = [
    { path: '/closed', allow: 'nobody' },
    { path: '/', allow: 'signed-in' },
  ]
  for (const enforce of ['always', 'watch']) {
    const settings = { access: rules, accessEnforce: enforce, cors: 'pass' }
    const gateway = await startGateway(t, { target, clock: new ManualClock(start), settings })
    for (const [path, status] of [
      ['/closed', 401],
      ['/page', 200],
    ] as const) {
      seen.length = 0
      const client = await RawClient.connect(t, gateway.port)
      await client.request('OPTIONS', path, {
        Host: domain,
        Origin: 'https://other.example.org',
        'Access-Control-Request-Method': 'GET',
      })
      const found = (await client.head()).status
      // Where the rule is enforced it is refused, and where it is watched a login is needed.
      t.equal(
        found,
        enforce === 'always' && path === '/closed' ? 403 : status,
        `${enforce} ${path}`,
      )
      t.equal(seen.length, status === 200 ? 1 : 0)
      client.end()
    }
  }
})

t.test('status says since when rules are only watched', async t => {
  const access = [
    { path: '/a', allow: [{ groups: ['ops'] }], enforce: 'watch' },
    { path: '/', allow: 'signed-in' },
  ]
  const settings = { access, admin: { listenAddress: '127.0.0.1:0' } }
  const gateway = await startGateway(t, { clock: new ManualClock(start), settings })
  const client = await RawClient.connect(t, gateway.service.adminPort ?? 0)
  const { status, text } = await client.get('/readyz', { Host: 'localhost' })
  t.equal(status, 200)
  t.match(
    text,
    'rules of access are only watched: what they would refuse passes (1) since 2030-01-01T00:00:00.000Z',
  )
})

t.test('98: what would open a door, or let no person through, is refused', t => {
  const restricted = { path: '/a/', allow: [{ groups: ['ops'] }], enforce: 'watch' }
  for (const [what, settings, problem] of [
    [
      'visitors',
      { access: [{ path: '/', allow: 'anyone', enforce: 'watch' }] },
      /without a login at once/,
    ],
    [
      'visitors, by all',
      { access: [{ path: '/', allow: 'anyone' }], accessEnforce: 'watch' },
      /without a login at once/,
    ],
    ['no rule behind', { access: [restricted] }, /lets no person through/],
    [
      'a watched rule behind',
      { access: [restricted, { path: '/', allow: 'signed-in', enforce: 'watch' }] },
      /lets no person through/,
    ],
    [
      'a rule for another method behind',
      { access: [restricted, { path: '/', methods: ['GET'], allow: 'signed-in' }] },
      /lets no person through/,
    ],
    [
      'a token',
      { passthroughTokens: [{ name: 'a', token: 'x'.repeat(20), enforce: 'watch' }] },
      /has an unknown key/,
    ],
    ['a rule behind', { access: [restricted, { path: '/', allow: 'signed-in' }] }, undefined],
    ['all', { access: [restricted], accessEnforce: 'watch' }, undefined],
    [
      'all but one',
      { access: [{ path: '/', allow: 'anyone', enforce: 'always' }], accessEnforce: 'watch' },
      undefined,
    ],
  ] as const) {
    const checked = configCheck('test')({ ...least, ...settings })
    const text = checked.ok
      ? undefined
      : checked.problems.map(({ path, text }) => `${path.join('.')} ${text}`).join('\n')
    if (problem === undefined) t.equal(text, undefined, what)
    else t.match(text, problem, what)
  }
  const behind = { path: '/', allow: 'signed-in' }
  const first = configCheck('test')({ ...least, access: [{ ...restricted, path: '/' }, behind] })
  t.match(first, { ok: true, warnings: [] }, 'a watched rule hides none')
  t.end()
})
