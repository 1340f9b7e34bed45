/**
 * Names for groups from a file: how it is read, what becomes of groups, and what a broken file changes.
 */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { Config } from '../../../lib/auth/config/config.ts'
import { whoamiPath } from '../../../lib/auth/identity/whoami.ts'
import { readGroupTable } from '../../../lib/auth/session/group-names.ts'
import { identityOf } from '../../../lib/auth/session/identity.ts'
import { backendOf, start } from '../../fixtures/gateway/access-lab.ts'
import { domain, gatewayConfig, startGateway, subject } from '../../fixtures/gateway/gateway.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const id = '7d3f3b0e-6a5c-4e1a-9d7e-0c8f4a1b2c3d'
const text = `# from the directory
${id} => ops
CN=Site Admins,OU=groups,DC=example,DC=org\tsite admins

  second-id =>  ops
`

const table = (given = text) => {
  const read = readGroupTable(given)
  if (typeof read === 'string') throw new Error(read)
  return read
}

t.test('a line for each group, what is wrong by its line', t => {
  t.strictSame(
    [...table().names],
    [
      [id, 'ops'],
      ['cn=site admins,ou=groups,dc=example,dc=org', 'site admins'],
      ['second-id', 'ops'],
    ],
  )
  t.equal(table(`\ufeffa => b\r\nc\td\r\n`).names.get('c'), 'd', 'as Windows writes it')
  t.equal(table('a => b\nA => b').names.size, 1, 'the same twice')
  t.equal(table('').names.size, 0)
  for (const [given, problem] of [
    ['a => b\nc', /^line 2: there is neither/],
    ['a => b => c', /^line 1: .* more than two/],
    ['a\tb\tc', /more than two/],
    ['=> b', /neither/],
    ['a => ', /neither/],
    ['\tb', /neither/],
    ['a => b\nA => c', /^line 2: an earlier line gives this group another name/],
    [`a => ${'b'.repeat(257)}`, /longer than 256/],
    ['a => b\u0007', /control/],
    ['a => b\n'.repeat(100_001), /more than 100000 lines/],
  ] as const) {
    t.match(readGroupTable(given), problem, given.slice(0, 30))
  }
  t.end()
})

const rules: Config['identity'] = {
  claims: [],
  looseNames: false,
  stripDomains: [],
  groups: [],
  groupForm: 'whole',
  only: undefined,
}

t.test('groups get their names before anything else looks at them', t => {
  const dn = 'cn=site admins,ou=groups,dc=example,dc=org'
  const of = (groups: readonly string[], more: object = {}) => {
    const found = identityOf(subject({ email: ['e'], groups }), { ...rules, ...more }, table())
    return typeof found === 'string' ? found : found.attributes.get('groups')
  }
  t.strictSame(of([id.toUpperCase(), dn, 'other', 'second-id']), ['ops', 'site admins', 'other'])
  t.strictSame(of([id, 'app-x'], { groups: ['o*'] }), ['ops'], 'patterns see the names')
  t.strictSame(of([dn, 'CN=Plain,OU=x'], { groupForm: 'name' }), ['site admins', 'Plain'])
  t.end()
})

t.test('82: a group that calls itself by one of the names is none of them', t => {
  const of = (groups: readonly string[], more: object = {}) => {
    const found = identityOf(subject({ email: ['e'], groups }), { ...rules, ...more }, table())
    return typeof found === 'string' ? found : found.attributes.get('groups')
  }
  t.equal(of(['ops']), undefined)
  t.strictSame(of(['OPS', 'staff']), ['staff'])
  t.equal(of(['CN=ops,OU=evil'], { groupForm: 'name' }), undefined)
  t.end()
})

async function running(t: Test, given = text) {
  const { target } = await backendOf(t)
  const clock = new ManualClock(start)
  const directory = t.testdir()
  const file = join(directory, 'groups.txt')
  await writeFile(file, given)
  const settings = {
    identity: { rename: file },
    access: [{ path: '/', allow: [{ groups: 'ops' }] }],
    admin: { listenAddress: '127.0.0.1:0' },
  }
  let next = settings
  const gateway = await startGateway(t, {
    ...{ target, clock, directory, settings },
    reload: () =>
      gatewayConfig({
        domain,
        idpMetadataURL: 'https://idp.example.org/metadata',
        configPath: gateway.config.configPath,
        proxy: { listenAddress: '127.0.0.1:0', targetURL: target },
        ...next,
      }),
  })
  const ask = async (path: string, Cookie: string) => {
    const client = await RawClient.connect(t, gateway.port)
    return client.get(path, { Host: domain, Cookie })
  }
  const groupsOf = async (sent: readonly string[]) => {
    const cookie = await gateway.logIn({ email: ['ada@example.org'], groups: sent })
    return JSON.parse((await ask(whoamiPath, cookie)).text).groups
  }
  const said = async (words: RegExp) => {
    while (!gateway.log.lines.some(({ message }) => words.test(message))) {
      clock.advance(1000)
      await new Promise(setImmediate)
    }
  }
  const setNext = (changed: typeof settings) => {
    next = changed
  }
  return { gateway, clock, file, ask, groupsOf, said, setNext, settings, directory }
}

t.test('rules judge by the names, and the file is read again when it changes', async t => {
  const { gateway, file, ask, groupsOf, said } = await running(t)
  const cookie = await gateway.logIn({ email: ['ada@example.org'], groups: [id] })
  t.equal((await ask('/', cookie)).status, 200)
  const stranger = await gateway.logIn({ email: ['eve@example.org'], groups: ['ops'] })
  t.equal((await ask('/', stranger)).status, 403)
  await writeFile(file, `${id} => staff # not a comment\nnew => ops\n`)
  await said(/^names of groups read again/)
  t.strictSame(await groupsOf([id, 'new']), ['staff # not a comment', 'ops'])
  t.equal((await ask('/', cookie)).status, 200, 'a session keeps the names of its login')
})

t.test('a broken file changes nothing, and is said with its line', async t => {
  const { gateway, file, groupsOf, said } = await running(t)
  await writeFile(file, `${id} => ops\nbroken\n`)
  await said(/identity.rename .*groups.txt: line 2: .*the earlier names stay in force/)
  t.strictSame(await groupsOf([id]), ['ops'])
  const admin = await RawClient.connect(t, gateway.service.adminPort ?? 0)
  t.match((await admin.get('/metrics')).text, /^authproxy_group_names_outdated 1$/m)
  await writeFile(file, `${id} => mended\n`)
  await said(/^names of groups read again/)
  t.strictSame(await groupsOf([id]), ['mended'])
  const later = await RawClient.connect(t, gateway.service.adminPort ?? 0)
  t.match((await later.get('/metrics')).text, /^authproxy_group_names_outdated 0$/m)
})

t.test('neither a start nor a reload takes a file that is broken or not there', async t => {
  await t.rejects(running(t, 'broken'), /identity.rename .*groups.txt: line 1/)
  const { gateway, groupsOf, setNext, settings, directory } = await running(t)
  setNext({ ...settings, identity: { rename: join(directory, 'absent.txt') } })
  await t.rejects(gateway.service.reload(), /identity.rename .*absent.txt/)
  t.strictSame(await groupsOf([id]), ['ops'])
  const other = join(directory, 'other.txt')
  await writeFile(other, `${id} => others\n`)
  setNext({ ...settings, identity: { rename: other } })
  t.same(await gateway.service.reload(), [])
  t.strictSame(await groupsOf([id]), ['others'])
})
