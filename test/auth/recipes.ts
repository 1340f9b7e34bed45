/**
 * The recipes of docs/authproxy-applications.md: each part of a configuration is one that starts, and gives its application what that
 * reads. Prometheus and JupyterHub really run, where they are installed; the others are stood in for by what they do with the
 * fields, by their documents and sources.
 */
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { tokenField } from '../../lib/auth/access/passthrough.ts'
import { decodeConfig } from '../../lib/config/config-file.ts'
import { Fields } from '../../lib/http/message/field.ts'
import { isRecord } from '../../lib/json.ts'
import { packageRoot } from '../../lib/package.ts'
import { arranged } from '../fixtures/gateway/attacked.ts'
import { domain, startGateway } from '../fixtures/gateway/gateway.ts'
import { RawClient } from '../fixtures/http/raw-client.ts'
import { lacking } from '../fixtures/process/command.ts'
import { accepts, freePort } from '../fixtures/process/ports.ts'
import { Child } from '../fixtures/sso/child.ts'

t.setTimeout(300_000)

/** The blocks of a recipe in one language, in order. */
function blocks(recipe: string, language: string): readonly string[] {
  const text = readFileSync(join(packageRoot(), 'docs/authproxy-applications.md'), 'utf8')
  const [, rest = ''] = text.split(`\n### ${recipe}\n`)
  const [own = ''] = rest.split(/\n###? /)
  return [...own.matchAll(/```(\w+)\n(.*?)```/gs)]
    .filter(([, kind]) => kind === language)
    .map(([, , block = '']) => block)
}

/** The settings of a block, as a file would have them. */
function settingsIn(block: string): Readonly<Record<string, unknown>> {
  const read = decodeConfig(block, 'recipe.yaml', found =>
    isRecord(found)
      ? { ok: true, value: found, warnings: [] }
      : { ok: false, problems: [], warnings: [] },
  )
  if (!read.ok) throw new Error(read.problems.join('\n'))
  return read.value
}

const person = {
  email: ['ada@example.org'],
  uid: ['ada'],
  displayName: ['Åda, Countess'],
  groups: ['ops', 'site admins', 'a|b'],
}

/** What the application of a recipe gets of a person, by name, as the bytes of UTF-8 say it. */
async function told(t: Test, block: string): Promise<(name: string) => string | undefined> {
  const { gateway, send, backend } = await arranged(t, { settings: settingsIn(block) })
  const cookie = await gateway.logIn(person)
  await send(`GET / HTTP/1.1\nHost: ${domain}\nCookie: ${cookie}\n\n`)
  const { fields = Fields.empty } = backend.requests.at(-1) ?? {}
  return name => {
    const value = fields.get(name)
    return value === undefined ? undefined : Buffer.from(value, 'latin1').toString()
  }
}

/** Fields that a line of a configuration names. */
function namesIn(text: string): readonly string[] {
  return [...new Set(text.match(/X-[A-Z][\w-]+/g) ?? [])]
}

t.test('Grafana: user, name, mail and groups', async t => {
  const [words = '', json = ''] = blocks('Grafana', 'yaml')
  const [ini = ''] = blocks('Grafana', 'ini')
  /** As util.SplitString of Grafana. */
  const split = (text = '') =>
    text.startsWith('[') ? JSON.parse(text) : text.replaceAll(',', ' ').split(' ')
  for (const [block, groups] of [
    [words, ['ops', 'site%20admins', 'a|b']],
    [json, person.groups],
  ] as const) {
    const get = await told(t, block)
    for (const name of namesIn(ini)) t.ok(get(name), name)
    t.equal(get('X-WEBAUTH-USER'), 'ada@example.org')
    t.equal(get('X-WEBAUTH-NAME'), 'Åda, Countess')
    t.strictSame(split(get('X-WEBAUTH-GROUPS')), groups)
  }
})

t.test('Jenkins: the groups are those that stand between its delimiters', async t => {
  const [block = '', code = ''] = blocks('Jenkins', 'yaml')
  const get = await told(t, block)
  const [, delimiter = ''] = /headerGroupsDelimiter: "(.)"/.exec(code) ?? []
  for (const name of namesIn(code)) t.ok(get(name), name)
  t.equal(get('X-Forwarded-User'), 'ada')
  t.strictSame(get('X-Forwarded-Groups')?.split(delimiter), ['ops', 'site admins', 'a%7Cb'])
})

t.test('Gitea: a user whose name it takes', async t => {
  const [block = ''] = blocks('Gitea and Forgejo', 'yaml')
  const get = await told(t, block)
  t.match(get('X-WEBAUTH-USER'), /^[\w.-]{1,40}$/, 'names have letters, digits, dots and hyphens')
  t.equal(get('X-WEBAUTH-EMAIL'), 'ada@example.org')
  t.equal(get('X-WEBAUTH-FULLNAME'), 'Åda, Countess')
})

t.test('Nextcloud: variables as PHP names them', async t => {
  const [shell = ''] = blocks('Nextcloud', 'sh')
  const [block = ''] = blocks('Nextcloud', 'yaml')
  const get = await told(t, block)
  const variables = shell.match(/HTTP_\w+/g) ?? []
  t.equal(variables.length, 3)
  for (const variable of variables) {
    t.ok(get(variable.replace(/^HTTP_/, '').replaceAll('_', '-')), variable)
  }
})

t.test('Prometheus', { skip: lacking('prometheus') }, async t => {
  const block = blocks('Prometheus', 'yaml').join('')
  const [shell = ''] = blocks('Prometheus', 'sh')
  const token = '0123456789abcdef0123456789abcdef'
  const settings = settingsIn(
    block.replace(/sha256: .*/, `token: ${token}`).replaceAll(/^\s*#.*$/gm, ''),
  )
  const port = await freePort()
  const directory = t.testdir({ 'prometheus.yml': 'global: {}\n' })
  const [, url = ''] = /--web.external-url=(\S+)/.exec(shell) ?? []
  const child = await Child.start({
    program: 'prometheus',
    args: [
      ...[`--web.listen-address=127.0.0.1:${port}`, `--web.external-url=${url}`],
      ...[`--config.file=${directory}/prometheus.yml`, `--storage.tsdb.path=${directory}/data`],
      '--web.enable-lifecycle',
    ],
    ready: ({ output }) => output.includes('Server is ready'),
  })
  t.teardown(() => child.stop())
  const gateway = await startGateway(t, { target: `http://127.0.0.1:${port}`, settings })
  const ask = async (path: string, fields: Record<string, string>, method = 'GET') => {
    const client = await RawClient.connect(t, gateway.port)
    await client.request(method, path, { Host: domain, ...fields })
    return client.response({ to: method })
  }
  const ops = { Cookie: await gateway.logIn(person) }
  const other = { Cookie: await gateway.logIn({ email: ['eve@example.org'] }) }
  const query = '/api/v1/query?query=vector(1)'
  t.match(JSON.parse((await ask(query, ops)).text), { status: 'success' })
  t.equal((await ask(query, other)).status, 403)
  t.equal((await ask(query, {})).status, 401)
  t.equal((await ask('/-/healthy', {})).status, 200)
  for (const path of ['/-/quit', '/-/reload', '/api/v1/admin/tsdb/snapshot']) {
    t.equal((await ask(path, { ...ops, 'Content-Length': '0' }, 'POST')).status, 403, path)
  }
  const withToken = { [tokenField]: `Bearer ${token}` }
  t.match(JSON.parse((await ask(query, withToken)).text), { status: 'success' })
  t.equal((await ask('/federate?match[]=up', withToken)).status, 200)
  t.equal((await ask('/graph', withToken)).status, 401)
  t.ok(await accepts(port), 'nobody has stopped it')
})

t.test('JupyterHub', { skip: lacking('jupyterhub', 'configurable-http-proxy') }, async t => {
  const [block = ''] = blocks('JupyterHub', 'yaml')
  const [python = ''] = blocks('JupyterHub', 'python')
  const [port, proxyApi, hub] = [await freePort(), await freePort(), await freePort()]
  const directory = t.testdir({})
  const own = python.replace('http://127.0.0.1:8000', `http://127.0.0.1:${port}`)
  const more = `
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:${proxyApi}"
c.ConfigurableHTTPProxy.auth_token = "${'ab'.repeat(32)}"
c.JupyterHub.hub_bind_url = "http://127.0.0.1:${hub}"
c.JupyterHub.db_url = "sqlite:///${directory}/hub.sqlite"
c.JupyterHub.cookie_secret = bytes.fromhex("${'cd'.repeat(32)}")
`
  await writeFile(join(directory, 'jupyterhub_config.py'), own + more)
  const child = await Child.start({
    program: 'jupyterhub',
    args: ['-f', join(directory, 'jupyterhub_config.py'), '--no-ssl'],
    cwd: directory,
    // Libraries of Debian for whichever Node.js comes first.
    env: { NODE_PATH: '/usr/share/nodejs' },
    ready: ({ output }) => output.includes('JupyterHub is now running'),
  })
  t.teardown(() => child.stop())
  const settings = settingsIn(block)
  const gateway = await startGateway(t, { target: `http://127.0.0.1:${port}`, settings })
  const jar = new Map<string, string>()
  const visit = async (path: string, more: Record<string, string> = {}) => {
    const client = await RawClient.connect(t, gateway.port)
    const Cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ')
    await client.request('GET', path, { Host: domain, Accept: 'text/html', Cookie, ...more })
    const answer = await client.response()
    for (const line of answer.fields.all('Set-Cookie')) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
      jar.set(name, value)
    }
    return answer
  }
  const signIn = async (attributes: Readonly<Record<string, readonly string[]>>) => {
    jar.clear()
    for (const pair of (await gateway.logIn(attributes)).split('; ')) {
      jar.set(pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1))
    }
    await visit('/hub/login?next=%2Fhub%2Fhome', { 'Remote-User': 'root', Remote_User: 'root' })
    return visit('/hub/home')
  }
  const home = await signIn(person)
  t.equal(home.status, 200, child.output)
  t.match(home.text, /user: "ada"|>ada</)
  t.notMatch(home.text, /href="\/hub\/admin"/)
  const boss = await signIn({ ...person, uid: ['boss'], groups: ['hub-admins'] })
  t.match(boss.text, 'boss')
  t.match(boss.text, /href="\/hub\/admin"/)
})
