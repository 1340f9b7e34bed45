/**
 * `authproxy access --log FILE --suggest`: the rules allow the use in the log, and none is there without need.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { configCheck } from '../../../lib/auth/config/loading/load-config.ts'
import { tryRequest } from '../../../lib/auth/gate/trial.ts'
import { Suggestion } from '../../../lib/auth/replay/suggest.ts'
import { isRecord } from '../../../lib/json.ts'
import { packageRoot } from '../../../lib/package.ts'
import { seeded } from '../../fixtures/chance/seeded-random.ts'
import { domain, gatewayConfig } from '../../fixtures/gateway/gateway.ts'
import { attempt } from '../../fixtures/process/command.ts'
import { cpuTimeOf } from '../../fixtures/time/cpu-time.ts'

t.setTimeout(300_000)

const least = {
  domain,
  idpMetadataURL: 'https://idp.example.org/metadata',
  configPath: '/nowhere/app.json',
  proxy: { listenAddress: '127.0.0.1:0', targetURL: 'http://127.0.0.1:9' },
}

interface Use {
  readonly who: string | undefined
  readonly groups: readonly string[]
  readonly path: string
}

/** The lines of a log in which these requests passed: a login where the groups of a person are new. */
function logOf(uses: readonly Use[]): readonly string[] {
  const known = new Map<string, string>()
  return uses.flatMap(({ who, groups, path }) => {
    const request = {
      ...{ method: 'GET', target: `${domain}${path}?q=1`, status: 200, message: 'request' },
      ...{ outcome: 'forwarded', because: who === undefined ? 'anyone' : 'session', user: who },
    }
    const all = groups.join('\n')
    if (who === undefined || known.get(who) === all) return [JSON.stringify(request)]
    known.set(who, all)
    const login = { subject: who, attributes: { groups }, message: 'signed in' }
    return [JSON.stringify(login), JSON.stringify(request)]
  })
}

type Written = Array<Record<string, unknown>>

/** The rules that are suggested for a log; throws when they are no rules. */
function suggested(lines: readonly string[]) {
  const suggestion = new Suggestion()
  for (const line of lines) suggestion.take(line)
  const text = suggestion.report().join('\n')
  const found: unknown = parse(text)
  const access: Written = isRecord(found) && Array.isArray(found['access']) ? found['access'] : []
  return { text, access }
}

/** Whether rules let each of these requests pass. */
function allowsAll(access: Written, uses: readonly Use[]): boolean {
  if (access.length === 0) return uses.length === 0
  const config = gatewayConfig({ ...least, access })
  return uses.every(({ who, groups, path }) => {
    const attributes = new Map([['groups', groups]])
    const person = who === undefined ? undefined : { subject: who, attributes }
    return tryRequest(config, { method: 'GET', path, person, now: 0 }).is === 'passes'
  })
}

/** The rules without each line in turn: a rule, or one of several descriptions of a rule. */
function withoutEach(access: Written): ReadonlyArray<readonly [line: string, access: Written]> {
  return access.flatMap((rule, index) => {
    const others = access.toSpliced(index, 1)
    const { path, allow } = rule
    const alternatives = Array.isArray(allow) && allow.length > 1 ? allow : []
    return [
      [String(path), others] as const,
      ...alternatives.map((each, i) => {
        const narrower = { ...rule, allow: alternatives.toSpliced(i, 1) }
        return [`${path} ${JSON.stringify(each)}`, access.with(index, narrower)] as const
      }),
    ]
  })
}

function distinct(uses: readonly Use[]): readonly Use[] {
  return [...new Map(uses.map(use => [JSON.stringify(use), use])).values()]
}

/** Requests of three groups to sixty paths: a site with a start page, folders of each group, and pages that two share. */
function siteLog(count: number): readonly Use[] {
  const { below, pick } = seeded(60)
  const people = Array.from({ length: 90 }, (_, i) => {
    const group = i < 60 ? 'staff' : i < 80 ? 'students' : 'ops'
    return { who: `p${i}@example.org`, groups: i > 85 ? [group, 'staff'] : [group] }
  })
  const below20 = (folder: string) => Array.from({ length: 14 }, (_, i) => `${folder}${i}`)
  const paths = {
    staff: ['/', '/wiki/', ...below20('/wiki/page'), '/help'],
    students: ['/', ...below20('/courses/'), '/help'],
    ops: [...below20('/admin/'), ...below20('/api/v1/')],
  }
  return Array.from({ length: count }, () => {
    const person = pick(people)
    const group = person.groups[below(person.groups.length)] as keyof typeof paths
    return { ...person, path: pick(paths[group]) }
  })
}

t.test(
  'three groups at sixty paths, 100,000 lines: all is allowed, and no line is superfluous',
  async t => {
    const uses = siteLog(100_000)
    t.ok(new Set(uses.map(({ path }) => path)).size >= 58)
    const lines = logOf(uses)
    const { access, text } = suggested(lines)
    const asked = distinct(uses)
    t.ok(allowsAll(access, asked))
    for (const [line, rest] of withoutEach(access)) t.notOk(allowsAll(rest, asked), line)
    t.same(access, [
      { path: '/admin/', allow: [{ groups: 'ops' }] },
      { path: '/api/v1/', allow: [{ groups: 'ops' }] },
      { path: '/courses/', allow: [{ groups: 'students' }] },
      { path: '/help', allow: [{ groups: 'staff' }, { groups: 'students' }] },
      { path: '/wiki/', allow: [{ groups: 'staff' }] },
      { path: '= /', allow: [{ groups: 'staff' }, { groups: 'students' }] },
    ])
    const [, requests, persons] =
      /path: "\/api\/v1\/" # (\d+) requests, (\d+) people/.exec(text) ?? []
    const api = uses.filter(({ path }) => path.startsWith('/api/'))
    t.same(
      [Number(requests), Number(persons)],
      [api.length, new Set(api.map(({ who }) => who)).size],
      'the evidence',
    )
    const directory = await mkdtemp(join(tmpdir(), 'suggest-'))
    t.teardown(() => rm(directory, { recursive: true, force: true }))
    const [config, log] = [join(directory, 'app.yaml'), join(directory, 'log')]
    await writeFile(config, JSON.stringify(least))
    await writeFile(log, lines.join('\n'))
    const run = (...args: string[]) =>
      attempt(join(packageRoot(), 'bin/authproxy'), ['access', '-c', config, ...args])
    const told = await run('--log', log, '--suggest')
    t.equal(told.stdout.toString().trim(), text)
    t.match((await run('--suggest', '/x')).stderr.toString(), /--suggest needs a log/)
  },
)

t.test(
  'by chance: all is allowed, no line is superfluous, and the check of the settings agrees',
  t => {
    const { below, pick } = seeded(7)
    const names = ['a', 'A', 'b', 'b.', '%41', 'c%2a', 'd@e', 'x%20y', '1', 'caf%C3%A9']
    const groups = ['ops', 'staff', 'y', '12', 'true', 'a: b', '"q"', "d'", 'cn=ops,ou=x', '- #']
    let most = 0
    for (let round = 0; round < 50; round += 1) {
      const people = Array.from({ length: 1 + below(40) }, (_, i) => {
        const home = below(groups.length)
        return {
          who: `u${i}${pick(['', '@example.org', ': #'])}`,
          home: names[home] ?? '',
          groups: groups.filter((_, i) => (i === home ? below(8) > 0 : below(12) === 0)),
        }
      })
      const uses = Array.from({ length: 1 + below(600) }, (): Use => {
        const { home, ...person } = pick(people)
        const first = below(20) === 0 ? pick(names) : home
        const path = `/${first}/${below(3) === 0 ? '' : `${pick(names)}/`}`
        return { ...person, path: pick(['/', path, `${path}${pick(names)}`]) }
      })
      const { access, text } = suggested(logOf(uses))
      t.notMatch(text, 'left out')
      const asked = distinct(uses)
      if (!allowsAll(access, asked)) t.fail(`${JSON.stringify(asked)}\n${text}`)
      for (const [line, rest] of withoutEach(access)) {
        if (rest.length > 0 && allowsAll(rest, asked))
          t.fail(`${line}\n${JSON.stringify(asked)}\n${text}`)
      }
      const checked = configCheck('test')({ ...least, access })
      t.ok(checked.ok)
      most = Math.max(most, access.length)
    }
    t.ok(most > 15, String(most))
    t.end()
  },
)

t.test('spellings that a client invents make neither many rules nor slow ones', t => {
  const spelt = (i: number) =>
    [...'abcdefghijkl'].map((c, bit) => ((i >> bit) & 1 ? c.toUpperCase() : c)).join('')
  const ada = { who: 'ada', groups: ['ops'] }
  const uses = Array.from({ length: 4000 }, (_, i) => [
    { ...ada, path: `/page/${spelt(i)}` },
    { ...ada, path: `/${spelt(i)}/${i % 50}` },
  ]).flat()
  const { access, text } = suggested(logOf(uses))
  t.match(text, /# left out: 6980 requests for paths of many spellings/)
  t.same(access, [{ path: '/', allow: [{ groups: 'ops' }] }])
  const [more] = [suggested(logOf([...uses, { who: 'bob', groups: ['b'], path: '/b' }]))]
  t.ok(more.access.length <= 1020)
  t.end()
})

t.test('what no rule can allow, or what the log does not say, is left out and named', t => {
  const ada = { who: 'ada', groups: ['ops'] }
  const lines = [
    ...logOf([
      { ...ada, path: '/a' },
      { ...ada, path: '/a//b' },
      { ...ada, path: '/%cc%81/x' },
      { who: 'a*', groups: ['*'], path: '/all' },
      { who: undefined, groups: [], path: '/open' },
    ]),
    ...[403, 404].map(status => {
      const [line = ''] = logOf([{ ...ada, path: '/admin/' }]).slice(-1)
      return JSON.stringify({ ...JSON.parse(line), status })
    }),
    JSON.stringify({
      ...{ method: 'GET', target: `${domain}/b`, user: 'eve', outcome: 'forwarded' },
      ...{ because: 'session', message: 'request' },
    }),
  ]
  const { text, access } = suggested(lines)
  t.same(access, [{ path: '/a', allow: [{ groups: 'ops' }] }])
  for (const why of [
    '2 requests for paths that no rule can name',
    '1 requests of people whom no rule can name',
    '2 requests that the application refused',
    '1 requests of visitors: keep the rules that allow anyone',
    '1 requests whose login with its groups (log.groups) is not in the log',
  ]) {
    t.match(text, `# left out: ${why}`)
  }
  const without = suggested([JSON.stringify({ subject: 'ada', message: 'signed in' })])
  t.match(without.text, /^# no login of the log has groups: set log\.groups: true/)
  t.same(without.access, [])
  t.end()
})

t.test('what an attacker could put into a log ends nothing, and is written as it is', t => {
  const groups = ['', '*', 'a"\n  - path: "/', '\u202e\u{e0067}', '__proto__', '\ud800']
  const uses = groups.map((group, i) => ({ who: `u${i}`, groups: [group], path: `/p${i}/` }))
  const { access } = suggested([
    ...logOf([...uses, { who: '', groups: [''], path: '/all' }]),
    ...logOf([{ who: 'ada', groups: ['ops'], path: '/\ud800' }]),
    ...['{', '{"message":"request"}', '[{}]', '{"message":"signed in","subject":"x"}', '\0{}}'],
  ])
  const allowed = access.flatMap(({ allow }) => allow)
  const named = [...groups.slice(2).map(group => ({ groups: group })), { users: 'u0' }]
  t.same(
    new Set(allowed.map(each => JSON.stringify(each))),
    new Set([...named, { users: 'u1' }].map(each => JSON.stringify(each))),
  )
  t.ok(configCheck('test')({ ...least, access }).ok)
  const [login = '', request = ''] = logOf([{ who: 'ada', groups: ['ops'], path: '/a' }])
  const target = 'http.example.org/a?to=https://x/admin/'
  const led = suggested([login, JSON.stringify({ ...JSON.parse(request), target })])
  t.same(led.access, [{ path: '/a', allow: [{ groups: 'ops' }] }], 'no query chooses the path')
  t.end()
})

t.test('thousands of people whom no group has in common cost what their number costs', async t => {
  for (const groupsOf of [() => [], (i: number) => [`g${i}`]]) {
    const uses = Array.from({ length: 4000 }, (_, i) => {
      return { who: `u${i}`, groups: groupsOf(i), path: '/' }
    })
    const lines = logOf(uses)
    const time = await cpuTimeOf(() => {
      t.match(suggested(lines).access, [{ path: '/', allow: { length: 4000 } }])
    })
    t.ok(time < 2500, `${time} ms`)
  }
})
