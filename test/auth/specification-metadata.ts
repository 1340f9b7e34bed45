/**
 * The specification, sections 2 and 8: how the metadata of the IdP is had, kept and refreshed. On a clock that stands still,
 * against the unit that owns it, and once through the whole gateway.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { SamlConfig } from '../../lib/auth/config/config.ts'
import { IdpMetadataSource } from '../../lib/auth/idp/metadata-source.ts'
import { gatewayConfig } from '../fixtures/gateway/gateway.ts'
import { ownDirectory, startWhole } from '../fixtures/gateway/whole-gateway.ts'
import { makeClient, until } from '../fixtures/http/origin-client.ts'
import type { Teardown } from '../fixtures/http/raw-client.ts'
import { type ReplyOptions, reply, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'
import { createMemoryLog } from '../fixtures/log/memory-log.ts'
import { readAsked } from '../fixtures/saml/browser.ts'
import { ScriptedIdp, sp } from '../fixtures/saml/idp.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

const start = Date.parse('2026-11-20T12:00:00Z')
const minute = 60_000
const MIB = 1024 * 1024

async function lab(t: Teardown) {
  const directory = await ownDirectory(t)
  const clock = new ManualClock(start)
  const log = createMemoryLog()
  const idp = new ScriptedIdp('okta', { now: () => clock.now() })
  const origin = await ScriptedOrigin.listen(t)
  const { client } = makeClient(t, { clock })
  const config = (source: Readonly<Record<string, string>>): SamlConfig =>
    gatewayConfig({
      domain: sp.domain,
      configPath: join(directory, 'app.json'),
      proxy: { listenAddress: '127.0.0.1:0', targetURL: 'http://127.0.0.1:9' },
      ...source,
    }).saml
  const remote = config({ idpMetadataURL: origin.url('/metadata') })
  const open = async (saml = remote) => {
    const random = (size: number) => Buffer.alloc(size)
    const source = await IdpMetadataSource.open({
      ...{ config: () => saml, origin: client, clock, random, log },
    })
    t.teardown(() => source.close())
    return source
  }
  const told = (message: RegExp) => log.lines.filter(line => message.test(line.message))
  const cache = remote.metadataCacheFile
  return { directory, clock, idp, origin, config, open, told, cache }
}

t.test('2. Remote metadata: only HTTP 200 is accepted', async t => {
  const { idp, origin, open } = await lab(t)
  for (const status of [201, 203, 206, 301, 302, 304, 404, 500, 503]) {
    origin.at('/metadata', reply({ status, content: idp.metadata() }))
    await t.rejects(open(), { message: new RegExp(`answered ${status} instead of 200`) })
  }
  origin.at('/metadata', reply({ content: idp.metadata() }))
  t.equal((await open()).current()?.entityId, idp.entityId)
})

t.test('2. Remote metadata: the download times out after 30 seconds', async t => {
  const { clock, idp, origin, open } = await lab(t)
  const text = idp.metadata()
  origin.at('/metadata', async answer => {
    await answer.write(`HTTP/1.1 200 OK\r\nContent-Length: ${text.length}\r\n\r\n${text[0]}`)
    await origin.seen('/metadata')[0]?.gone
  })
  let ended = false
  const opened = open().finally(() => {
    ended = true
  })
  const refused = t.rejects(opened, { message: /did not deliver within 30 s/ })
  await origin.arrived('/metadata')
  clock.advance(29_999)
  for (let i = 0; i < 20; i += 1) await new Promise(resolve => setImmediate(resolve))
  t.notOk(ended, 'not before')
  clock.advance(1)
  await refused
})

t.test('2. Remote metadata: at most 10 MiB are read', async t => {
  const { idp, origin, open } = await lab(t)
  const padded = (size: number) => idp.metadata().padEnd(size, ' ')
  origin.at('/metadata', reply({ content: padded(10 * MIB) }))
  t.equal((await open()).current()?.entityId, idp.entityId, 'exactly 10 MiB')
  for (const framing of ['length', 'chunked'] as const) {
    // One of its own, without a cache that would step in.
    const { open: openAnew, origin: fresh } = await lab(t)
    fresh.at('/metadata', reply({ content: padded(10 * MIB + 1), framing }))
    await t.rejects(openAnew(), { message: /larger than 10 MiB/ })
  }
})

t.test('2. Remote metadata: an invalid or truncated body fails parsing', async t => {
  const { idp, origin, open } = await lab(t)
  const good = idp.metadata()
  const cases: ReadonlyArray<readonly [ReplyOptions, RegExp]> = [
    [{ content: good.slice(0, -1) }, /well-formed/],
    [{ content: good.slice(0, good.length / 2) }, /well-formed/],
    [{ content: '' }, /of no use/],
    [{ content: 'not XML' }, /of no use/],
    [{ content: good, cut: { at: 50, by: 'fin' } }, /cannot be fetched/],
  ]
  for (const [answer, message] of cases) {
    origin.at('/metadata', reply(answer))
    await t.rejects(open(), { message })
  }
})

t.test('2. Remote metadata: a first start needs a download or a valid cache', async t => {
  const { idp, origin, open, cache } = await lab(t)
  origin.at('/metadata', reply({ status: 503 }))
  await t.rejects(open(), { message: /no valid cache/ })
  writeFileSync(cache, idp.metadata().slice(0, -1))
  await t.rejects(open(), { message: /no valid cache/ })
  writeFileSync(cache, idp.metadata())
  t.equal((await open()).current()?.entityId, idp.entityId)
})

t.test('2. Remote metadata: the cache steps in, with a warning', async t => {
  const { idp, origin, open, told } = await lab(t)
  origin.at('/metadata', reply({ content: idp.metadata() }))
  const first = await open()
  first.close()
  origin.at('/metadata', reply({ content: 'nonsense' }))
  t.equal((await open()).current()?.entityId, idp.entityId)
  t.match(told(/the cached metadata is used/), [{ level: 'warn' }])
})

t.test('2. Remote metadata: a refresh every 30 minutes, told when it succeeds', async t => {
  const { clock, idp, origin, open, told, cache } = await lab(t)
  origin.at('/metadata', reply({ content: idp.metadata() }))
  const source = await open()
  t.match(told(/IdP metadata was updated and cached/), [{ level: 'info' }])
  for (const round of [2, 3, 4]) {
    const moved = idp.metadata({ signOn: `https://idp.example.org/${round}` })
    origin.at('/metadata', reply({ content: moved }))
    clock.advance(30 * minute - 1)
    t.equal(origin.seen('/metadata').length, round - 1, 'not before')
    clock.advance(1)
    await until(() => told(/IdP metadata was updated and cached/).length === round)
    t.match(source.current()?.singleSignOn[0]?.location, `/${round}`)
    t.equal(readFileSync(cache, 'utf8'), moved)
    await new Promise(resolve => setImmediate(resolve))
  }
})

t.test('2. Remote metadata: a failed refresh keeps the last one and goes on', async t => {
  const { clock, idp, origin, open, told } = await lab(t)
  origin.at('/metadata', reply({ content: idp.metadata() }))
  const source = await open()
  origin.at('/metadata', reply({ status: 500 }))
  clock.advance(30 * minute)
  await until(() => told(/could not be refreshed/).length === 1)
  t.match(told(/could not be refreshed/), [{ level: 'warn' }])
  t.equal(source.current()?.entityId, idp.entityId)
  await new Promise(resolve => setImmediate(resolve))
  clock.advance(30 * minute)
  await until(() => told(/could not be refreshed/).length === 2)
})

t.test('2. Local metadata: read only at startup, no cache and no refresh', async t => {
  const { clock, idp, directory, config, open, cache } = await lab(t)
  const path = join(directory, 'idp.xml')
  const local = config({ idpMetadataFile: path })
  await t.rejects(open(local), { message: /idp\.xml cannot be read/ })
  await writeFile(path, idp.metadata())
  const source = await open(local)
  await rm(path)
  clock.advance(24 * 60 * minute)
  t.equal(source.current()?.entityId, idp.entityId)
  await t.rejects(readFile(cache), { code: 'ENOENT' })
})

t.test('2. Local metadata: a change needs a restart', async t => {
  const gateway = await startWhole(t)
  const { idp, config, directory } = gateway
  const { idpMetadata } = config.saml
  t.equal(idpMetadata.from, 'file')
  const moved = idp.metadata({ signOn: 'https://idp.example.org/moved' })
  await writeFile(join(directory, 'idp.xml'), moved)
  t.notMatch(readAsked(await gateway.browser.navigate('/')).address, /\/moved/)
  await gateway.stop()
  const again = await startWhole(t, {
    directory,
    metadata: { signOn: 'https://idp.example.org/moved' },
  })
  t.match(readAsked(await again.browser.navigate('/')).address, /\/moved/)
})
