/**
 * The credential of the backend: a field of every request that comes through this service, by a backend that compares it.
 */
import { once } from 'node:events'
import { chmod, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { tokenField } from '../../lib/auth/access/passthrough.ts'
import { inForce, needRestart } from '../../lib/auth/config/config.ts'
import { configCheck } from '../../lib/auth/config/loading/load-config.ts'
import { harmlessTrailers } from '../../lib/auth/identity/backend-fields.ts'
import { Fields } from '../../lib/http/message/field.ts'
import { handshake } from '../fixtures/gateway/access-lab.ts'
import { navigation, startChecks } from '../fixtures/gateway/checks.ts'
import { domain, gatewayConfig, startGateway } from '../fixtures/gateway/gateway.ts'
import { startPatient } from '../fixtures/gateway/patient.ts'
import { ownDirectory } from '../fixtures/gateway/whole-gateway.ts'
import { RawClient } from '../fixtures/http/raw-client.ts'
import { reply } from '../fixtures/http/scripted-origin.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

const field = 'X-Gateway-Key'
const first = 'first-value-that-no-one-guesses'
const second = 'second-value-that-no-one-guesses'
const token = '0123456789abcdef'
const spellings = [
  ...[field, 'x-gateway-key', 'X_Gateway_Key', 'X-Gateway_Key', 'x.gateway.key', 'X-Gateway--Key'],
  ...['-X-Gateway-Key-', 'X!Gateway-Key'],
]

const settings = {
  cors: 'pass',
  passthroughPaths: ['/open/'],
  passthroughTokens: [{ name: 'monitoring', token }],
  log: { level: 'debug', access: true },
  timeouts: { clientIdle: '1h' },
}

/** An application that answers 403 unless the field has one of these values, and says how often it came and by which names. */
async function application(t: Test, accepted: () => readonly string[]) {
  const seen: Array<ReadonlyArray<readonly [name: string, value: string]>> = []
  const server = createServer(({ rawHeaders }, response) => {
    const fields = Fields.fromFlat(rawHeaders)
    const similar = [...fields].filter(([name]) => /gateway.+key/i.test(name))
    seen.push(similar)
    const isRight = accepted().includes(fields.all(field).join())
    response.writeHead(isRight ? 200 : 403, { Connection: 'close' }).end(isRight ? 'in' : 'out')
  })
  server.on('upgrade', ({ rawHeaders }, socket) => {
    seen.push([...Fields.fromFlat(rawHeaders)].filter(([name]) => /gateway.+key/i.test(name)))
    socket.end('HTTP/1.1 403 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { seen, target: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}

/** A gateway before such an application; the file has the first value. */
async function lab(t: Test, accepted: () => readonly string[] = () => [first]) {
  const directory = await ownDirectory(t)
  const valueFile = join(directory, 'key')
  const place = (text: string) => writeFile(valueFile, text, { mode: 0o600 })
  await place(`${first}\n`)
  const { seen, target } = await application(t, accepted)
  const clock = new ManualClock(Date.UTC(2030, 0, 1))
  const backendCredential = { field, valueFile }
  const again = (more: object = {}) =>
    gatewayConfig({
      ...{ domain, idpMetadataURL: 'https://idp.example.org/metadata', ...settings, ...more },
      configPath: gateway.config.configPath,
      proxy: { listenAddress: '127.0.0.1:0', targetURL: target },
    })
  let wanted = () => again({ backendCredential })
  const gateway = await startGateway(t, {
    ...{ target, clock, settings: { ...settings, backendCredential } },
    reload: () => wanted(),
  })
  const send = async (head: string) => {
    const client = await RawClient.connect(t, gateway.port)
    await client.write(head.replaceAll('\n', '\r\n'))
    const answer = await client.response()
    client.end()
    return answer
  }
  const get = async (path = '/open/', more = '') =>
    (await send(`GET ${path} HTTP/1.1\nHost: ${domain}\n${more}\n`)).status
  /** Lets time pass until so much has been said of the credential. */
  const told = async (count: number) => {
    for (;;) {
      const lines = gateway.log.lines.filter(({ message }) => /credential for the b/.test(message))
      if (lines.length >= count) return lines.at(-1)
      clock.advance(1000)
      await new Promise(resolve => setImmediate(resolve))
    }
  }
  const reload = (more: object) => {
    wanted = () => again(more)
    return gateway.service.reload()
  }
  return { gateway, seen, place, valueFile, send, get, told, reload }
}

t.test(
  '97: every request has the credential once, whatever a client sends by its name',
  async t => {
    const { gateway, seen, send } = await lab(t)
    const cookie = await gateway.logIn({ email: ['ada@example.org'] })
    const claims = spellings.map(name => `${name}: ${second}\n`).join('')
    const upgrade = Object.entries(handshake)
      .map(([name, value]) => `${name}: ${value}\n`)
      .join('')
    const preflight = 'Origin: https://a.example.net\nAccess-Control-Request-Method: PUT\n'
    for (const [line, more, status] of [
      ['GET /open/x', '', 200],
      ['GET /x', `Cookie: ${cookie}\n`, 200],
      ['GET /x', `${tokenField}: Bearer ${token}\n`, 200],
      ['GET /open/x', `Connection: ${field}\n`, 200],
      ['OPTIONS /x', preflight, 200],
      ['GET /x', `Cookie: ${cookie}\n${upgrade}`, 403],
    ] as const) {
      seen.length = 0
      const answer = await send(`${line} HTTP/1.1\nHost: ${domain}\n${more}${claims}\n`)
      t.equal(answer.status, status, line)
      t.strictSame(seen, [[[field, first]]], line)
      t.notMatch(JSON.stringify([...answer.fields]) + answer.text, first)
    }
    seen.length = 0
    t.equal((await send(`GET /x HTTP/1.1\nHost: ${domain}\n${claims}\n`)).status, 401)
    t.strictSame(seen, [], 'what does not pass does not come')
    const { stripped } = gateway.config.identityFields
    const trailers = Fields.of(...spellings.map(name => [name, second] as const), ['Digest', 'x'])
    t.strictSame([...harmlessTrailers(trailers, stripped)], [['Digest', 'x']])
    t.notMatch(JSON.stringify(gateway.log.lines), /-value-that/, 'no value is logged')
  },
)

t.test('97: a value that changes is read again; one of no use changes nothing', async t => {
  let accepted = [first]
  const { gateway, place, valueFile, told } = await lab(t, () => accepted)
  const client = await RawClient.connect(t, gateway.port)
  // One connection: equal fields on it are forwarded as they were before.
  const get = async () => (await client.get('/open/', { Host: domain })).status
  t.equal(await get(), 200)
  accepted = [second]
  t.equal(await get(), 403)
  await place(second)
  t.match(await told(1), { level: 'info', facts: { file: valueFile } })
  t.equal(await get(), 200, 'also for fields that were forwarded before')
  for (const [index, text] of [
    'short',
    `${first} and a space`,
    '',
    `${first}\n${first}`,
  ].entries()) {
    await place(text)
    t.match(await told(2 + index), { level: 'warn', facts: { problem: /cannot use backendCred/ } })
    t.equal(await get(), 200, 'the old value stays')
  }
  await rm(valueFile)
  t.match(await told(6), { level: 'warn', facts: { problem: /no such file/ } })
  t.equal(await get(), 200)
  await place(first)
  t.match(await told(7), { level: 'info' })
  t.equal(await get(), 403)
  t.notMatch(JSON.stringify(gateway.log.lines), /value-that|and a space/)
})

t.test('a reload reads it, changes it and takes it away, or changes nothing', async t => {
  let accepted = [first]
  const { seen, place, valueFile, get, reload } = await lab(t, () => accepted)
  accepted = [second]
  await place(second)
  await reload({ backendCredential: { field, valueFile } })
  t.equal(await get(), 200)
  await place('short')
  await t.rejects(reload({ backendCredential: { field, valueFile } }), {
    code: 'BACKEND_CREDENTIAL',
    message: /cannot use backendCredential\.valueFile .*fewer than 16 characters/,
  })
  t.equal(await get(), 200, 'the old value stays')
  await reload({})
  t.equal(await get(), 403)
  t.strictSame(seen.at(-1), [])
  t.equal(await get('/open/', `${field}: ${second}\n`), 200, 'then the field is one like others')
})

t.test('a start with a file of no use says so, and quotes nothing', async t => {
  const directory = await ownDirectory(t)
  const valueFile = join(directory, 'key')
  for (const [text, problem] of [
    [undefined, /there is no such file/],
    ['hunter2', /fewer than 16 characters/],
    ['hunter2 hunter2 hunter2', /other characters/],
    ['x'.repeat(9000), /larger than 8192 bytes/],
  ] as const) {
    if (text !== undefined) await writeFile(valueFile, text)
    const started = startGateway(t, { settings: { backendCredential: { field, valueFile } } })
    await t.rejects(started, { message: problem, code: 'BACKEND_CREDENTIAL' })
    await started.catch(error => t.notMatch(error.message, /hunter2|xxx/))
  }
})

t.test('97: a check that passes has the credential, and no other answer has it', async t => {
  const valueFile = join(await ownDirectory(t), 'key')
  await writeFile(valueFile, first, { mode: 0o600 })
  for (const edge of ['nginx', 'caddy', 'envoy'] as const) {
    const { ask, gateway } = await startChecks(t, {
      edge,
      settings: { ...settings, backendCredential: { field, valueFile } },
    })
    const cookie = await gateway.logIn({ email: ['ada@example.org'] })
    for (const [path, fields] of [
      ['/x', { Cookie: cookie }],
      ['/open/x', {}],
      ['/open/x', { [field]: second }],
      ['/x', { [tokenField]: `Bearer ${token}` }],
    ] as const) {
      const answer = await ask(path, fields)
      t.equal(answer.status, 200)
      t.strictSame(answer.fields.all(field), [first], `${edge} ${path}`)
    }
    const refused = [
      await ask('/x'),
      await ask('/x', navigation),
      await ask('/saml/slo', { Cookie: cookie }),
      await ask('/x', { Cookie: cookie }, { host: 'other.example.org' }),
    ]
    for (const spelt of spellings.slice(2)) {
      const answer = await ask('/open/x', { [spelt]: first })
      t.equal(answer.status, 403, spelt)
      t.match(answer.text, `${field}, in whatever spelling: this field of a client could be taken`)
      refused.push(answer)
    }
    for (const { status, fields, text } of refused) {
      t.not(status, 200)
      t.notMatch(JSON.stringify([...fields]) + text, first)
    }
    t.notMatch(JSON.stringify(gateway.log.lines), /-value-that/)
    await gateway.stop()
  }
})

t.test('doctor tries the application without it', async t => {
  const patient = await startPatient(t)
  const file = join(patient.directory, 'key')
  await writeFile(file, first, { mode: 0o600 })
  const what = 'backend without credential'
  t.equal(await patient.find(what), undefined, 'nothing where there is none')
  const backendCredential = { field, file }
  const find = async (right: number, wrong: number) => {
    patient.backend.at('/', answer => {
      const isRight = patient.backend.requests.at(-1)?.fields.get(field) === first
      return reply({ status: isRight ? right : wrong })(answer)
    })
    return patient.find(what, { config: patient.configWith({ backendCredential }) })
  }
  t.match(await find(200, 403), {
    state: 'right',
    found: `a request without ${field} is answered 403`,
  })
  t.match(await find(302, 401), { state: 'right' })
  t.match(await find(200, 200), { state: 'wrong', found: /past authproxy is served/ })
  t.match(await find(302, 302), { state: 'wrong' })
  t.match(await find(401, 401), { state: 'doubtful', found: /answered 401, and one with it 401/ })
  t.match(await find(200, 302), { state: 'doubtful' })
  const config = patient.configWith({ backendCredential })
  await chmod(file, 0o644)
  t.match(await patient.find('backendCredential', { config }), {
    state: 'doubtful',
    mend: /chmod o-r/,
  })
  await rm(file)
  t.match(await patient.find('backendCredential', { config }), {
    state: 'wrong',
    found: /no such file/,
  })
})

t.test('what does not go together is told', t => {
  const remarks = (backendCredential: object, more: object = {}) => {
    const checked = configCheck('test')({
      ...{ domain, idpMetadataURL: 'https://idp.example.org/metadata', backendCredential, ...more },
      proxy: { listenAddress: '127.0.0.1:0', targetURL: 'http://127.0.0.1:9' },
    })
    const problems = checked.ok ? [] : checked.problems
    return [...problems, ...checked.warnings].map(({ path, text }) => `${path.join('.')} ${text}`)
  }
  const valueFile = '/key'
  for (const [given, remark, more] of [
    [{ field }, /field also needs backendCredential\.valueFile/],
    [{ valueFile }, /valueFile also needs backendCredential\.field/],
    [{ field, valueFile: 'key' }, /valueFile found .*an absolute path/],
    [{ field: 'Authorization', valueFile }, /header of HTTP/],
    [{ field: 'X_Key', valueFile }, /letters, digits and single hyphens/],
    [{ field: 'X-Authproxy-Key', valueFile }, /choose another name/],
    [
      { field: 'remote-user', valueFile },
      /field is a header of identity\.names as well/,
      { identity: { names: 'remote' } },
    ],
  ] as const) {
    t.match(remarks(given, more), [remark])
  }
  t.strictSame(remarks({ field, valueFile }), [])
  t.end()
})

t.test('it waits for a restart together with the address of the backend', t => {
  const config = (name: string, port: number, more: object = {}) =>
    gatewayConfig({
      ...{ domain: name, idpMetadataURL: 'https://idp.example.org/metadata' },
      backendCredential: { field, valueFile: '/key', ...more },
      proxy: { listenAddress: '127.0.0.1:0', targetURL: `http://127.0.0.1:${port}` },
    })
  const started = config('a.example.org', 9)
  const moved = config('b.example.org', 10, { field: 'X-Other', valueFile: '/other' })
  t.match(needRestart(started, moved), ['domain', 'proxy.targetURL'])
  const now = inForce(started, moved)
  t.strictSame(now.backendCredential, started.backendCredential)
  t.equal(now.identityFields.stripped.of('x_gateway_key')?.family, 'credential')
  const alone = inForce(started, config('a.example.org', 9, { field: 'X-Other' }))
  t.equal(alone.backendCredential?.field, 'X-Other')
  t.equal(alone.identityFields.stripped.of('x_gateway_key'), undefined)
  t.end()
})
