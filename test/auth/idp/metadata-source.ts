import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { SamlConfig } from '../../../lib/auth/config/config.ts'
import { IdpMetadataSource } from '../../../lib/auth/idp/metadata-source.ts'
import { signElement } from '../../../lib/saml/signature/sign.ts'
import { gatewayConfig } from '../../fixtures/gateway/gateway.ts'
import { makeClient, until } from '../../fixtures/http/origin-client.ts'
import {
  file,
  inTurn,
  reply,
  type Script,
  ScriptedOrigin,
} from '../../fixtures/http/scripted-origin.ts'
import { createMemoryLog } from '../../fixtures/log/memory-log.ts'
import { ScriptedIdp } from '../../fixtures/saml/idp.ts'
import { rsaPair } from '../../fixtures/saml/keys.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const start = Date.parse('2026-11-20T12:00:00Z')
const minute = 60_000

type Config = Pick<
  SamlConfig,
  | 'idpMetadata'
  | 'idpEntityId'
  | 'idpMetadataCertificate'
  | 'metadataCacheFile'
  | 'allowSha1'
  | 'baseUrl'
>

interface Test {
  testdir(): string
  teardown(action: () => unknown): void
}

async function lab(t: Test) {
  const directory = t.testdir()
  const clock = new ManualClock(start)
  const log = createMemoryLog()
  const idp = new ScriptedIdp('okta', { now: () => clock.now() })
  const origin = await ScriptedOrigin.listen(t)
  const { client } = makeClient(t, { clock })
  const cache = join(directory, 'cache.xml')
  const config: Config = {
    idpMetadata: { from: 'url', url: origin.url('/metadata') },
    idpEntityId: undefined,
    idpMetadataCertificate: undefined,
    metadataCacheFile: cache,
    allowSha1: false,
    baseUrl: 'https://app.example.org',
  }
  const open = async (
    more: Partial<Config> = {},
    random = (size: number) => Buffer.alloc(size),
  ) => {
    const all = { ...config, ...more }
    // The source asks for nothing else.
    const source = await IdpMetadataSource.open({
      config: () => all as SamlConfig,
      origin: client,
      clock,
      random,
      log,
    })
    t.teardown(() => source.close())
    return source
  }
  const warnings = () => log.lines.filter(line => line.level === 'warn').map(line => line.message)
  return { directory, clock, log, idp, origin, cache, open, warnings }
}

t.test('local: a file that has changed since it was read is told once of each change', async t => {
  const { directory, idp, open, warnings } = await lab(t)
  const path = join(directory, 'idp.xml')
  writeFileSync(path, idp.metadata())
  const source = await open({ idpMetadata: { from: 'file', path } })
  await source.checkFile()
  t.equal(source.remark, undefined)
  writeFileSync(path, idp.metadata({ signOn: 'https://idp.example.org/new' }))
  await source.checkFile()
  await source.checkFile()
  t.match(source.remark, /has changed since it was read: restart/)
  t.match(warnings(), [/idpMetadataFile has changed/])
  t.equal(warnings().length, 1)
  writeFileSync(path, idp.metadata())
  await source.checkFile()
  t.equal(source.remark, undefined, 'it is the one in use again')
  rmSync(path)
  await source.checkFile()
  t.equal(source.remark, undefined, 'a file that is gone is not another one')
})

t.test('remote: downloaded, cached, and refreshed every 30 minutes', async t => {
  const { clock, log, idp, origin, cache, open } = await lab(t)
  origin.at('/metadata', reply({ content: idp.metadata() }))
  const source = await open()
  t.equal(source.current()?.entityId, idp.entityId)
  t.equal(readFileSync(cache, 'utf8'), idp.metadata())
  t.ok(log.lines.some(line => line.message === 'IdP metadata was updated and cached'))
  t.equal(source.fetchedAt, start)
  const moved = idp.metadata({ signOn: 'https://idp.example.org/new' })
  origin.at('/metadata', reply({ content: moved }))
  clock.advance(30 * minute - 1)
  t.equal(origin.seen('/metadata').length, 1)
  clock.advance(1)
  await until(() => source.current()?.singleSignOn[0]?.location === 'https://idp.example.org/new')
  await until(
    () => log.lines.filter(line => /was updated and cached/.test(line.message)).length === 2,
  )
  t.equal(readFileSync(cache, 'utf8'), moved)
})

t.test('42: remote: only 200 is taken, whole and as metadata', async t => {
  const { idp, origin, open } = await lab(t)
  const good = idp.metadata()
  const cases: ReadonlyArray<readonly [Parameters<typeof reply>[0], RegExp]> = [
    [{ status: 404, content: good }, /answered 404/],
    [{ status: 203, content: good }, /answered 203/],
    [{ status: 302, content: '' }, /answered 302/],
    [
      { status: 301, fields: { Location: 'https://idp.example.org/new?token=x' } },
      /answered 301 instead of 200; its Location is https:\/\/idp\.example\.org\/new\?…, and redirects are not followed/,
    ],
    [{ status: 302, fields: { Location: '/login' } }, /its Location is http:\/\/\S+\/login, and/],
    [
      { content: good, fields: { 'Content-Encoding': 'gzip' } },
      /sends the document with Content-Encoding: gzip, although/,
    ],
    [{ content: good, cut: { at: 100, by: 'fin' } }, /metadata cannot be fetched/],
    [{ content: good.slice(0, -20) }, /well-formed/],
    [{ content: '<html></html>' }, /it is a web page/],
    [{ content: 'x'.repeat(10 * 1024 * 1024 + 1) }, /larger than 10 MiB/],
    [{ content: idp.metadata({ validUntil: start - 1000 }) }, /expired/],
  ]
  for (const [answer, problem] of cases) {
    origin.at('/metadata', reply(answer))
    await t.rejects(open(), { message: problem, code: 'idp_metadata' }, String(problem))
  }
})

t.test('remote: a Content-Encoding that is no coding changes nothing', async t => {
  for (const coding of ['identity', 'utf-8', 'UTF-8', 'none']) {
    const { idp, origin, open } = await lab(t)
    const fields = { 'Content-Encoding': coding }
    origin.at('/metadata', reply({ content: idp.metadata(), fields }))
    t.equal((await open()).current()?.entityId, idp.entityId, coding)
  }
})

t.test('remote: after 30 seconds the download is given up', async t => {
  const { clock, origin, open } = await lab(t)
  origin.at('/metadata', async answer => {
    await answer.write('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n<a')
    await origin.seen('/metadata')[0]?.gone
  })
  let ended = false
  const opened = open().finally(() => {
    ended = true
  })
  const rejects = t.rejects(opened, { message: /did not deliver within 30 s|ORIGIN|within/ })
  await origin.arrived('/metadata')
  await until(() => {
    clock.advance(1000)
    return ended
  })
  await rejects
})

t.test('remote: a start without download needs a valid cache', async t => {
  const { idp, origin, cache, open, warnings } = await lab(t)
  origin.at('/metadata', reply({ status: 503 }))
  await t.rejects(open(), { message: /answered 503.*no valid cache/ })
  writeFileSync(cache, '<broken')
  await t.rejects(open(), { message: /no valid cache/ })
  writeFileSync(cache, idp.metadata({ validUntil: start - 1 }))
  await t.rejects(open(), { message: /no valid cache.*expired/ })
  writeFileSync(cache, idp.metadata())
  const source = await open()
  t.equal(source.current()?.entityId, idp.entityId)
  t.equal(source.fetchedAt, undefined)
  t.ok(warnings().includes('IdP metadata could not be downloaded; the cached metadata is used'))
})

t.test('remote: the cache of another URL is not taken', async t => {
  const { idp, origin, directory, open } = await lab(t)
  const at = (path: string): SamlConfig =>
    gatewayConfig({
      domain: 'app.example.org',
      configPath: join(directory, 'app.json'),
      proxy: { listenAddress: '127.0.0.1:0', targetURL: 'http://127.0.0.1:9' },
      idpMetadataURL: origin.url(path),
    }).saml
  origin.at('/old', inTurn(reply({ content: idp.metadata() }), reply({ status: 503 })))
  origin.at('/new', reply({ status: 503 }))
  t.ok(await open(at('/old')))
  await t.rejects(open(at('/new')), { message: /no valid cache/ })
  t.equal((await open(at('/old'))).current()?.entityId, idp.entityId)
})

t.test('remote: a refresh that fails changes nothing and warns', async t => {
  const { clock, idp, origin, cache, open, warnings } = await lab(t)
  origin.at(
    '/metadata',
    inTurn(
      reply({ content: idp.metadata() }),
      reply({ content: '<broken' }),
      reply({ content: idp.metadata() }),
    ),
  )
  const source = await open()
  clock.advance(30 * minute)
  await until(() =>
    warnings().includes('IdP metadata could not be refreshed; the last one stays in use'),
  )
  t.equal(source.current()?.entityId, idp.entityId)
  t.equal(readFileSync(cache, 'utf8'), idp.metadata())
  await until(() => origin.seen('/metadata').length === 2)
  // Let the loop set its next appointment.
  await new Promise(resolve => setImmediate(resolve))
  clock.advance(30 * minute)
  await until(() => origin.seen('/metadata').length === 3)
})

t.test('remote: a cache that cannot be written costs a warning', async t => {
  const { idp, origin, directory, open, warnings } = await lab(t)
  origin.at('/metadata', reply({ content: idp.metadata() }))
  const source = await open({ metadataCacheFile: join(directory, 'missing/cache.xml') })
  t.ok(source.current())
  t.ok(warnings().includes('IdP metadata was updated, but could not be cached'))
})

t.test('42: metadata that has expired is used no more', async t => {
  const { clock, idp, origin, open, warnings } = await lab(t)
  origin.at(
    '/metadata',
    inTurn(
      reply({ content: idp.metadata({ validUntil: start + 10 * minute }) }),
      reply({ status: 500 }),
    ),
  )
  const source = await open()
  t.ok(warnings().includes('the metadata of the IdP expires within a day'))
  clock.advance(10 * minute)
  t.equal(source.current(), undefined)
  t.match(source.problems(), [/expired/])
})

t.test('an unknown key brings one refresh, a minute apart at the least', async t => {
  const { clock, idp, origin, open } = await lab(t)
  origin.at('/metadata', reply({ content: idp.metadata() }))
  const source = await open()
  const refresh = () => source.refreshForUnknownKey(source.current())
  t.equal(await refresh(), false, 'nothing new')
  t.equal(origin.seen('/metadata').length, 2)
  const both = [rsaPair('idp').certificate, rsaPair('next').certificate]
  origin.at('/metadata', reply({ content: idp.metadata({ certificates: both }) }))
  t.notOk(await refresh(), 'too soon')
  t.equal(origin.seen('/metadata').length, 2)
  clock.advance(minute)
  const used = source.current()
  t.strictSame(await Promise.all([refresh(), refresh()]), [true, true])
  t.equal(origin.seen('/metadata').length, 3, 'one for both')
  t.equal(source.current()?.keys.length, 2)
  t.equal(await source.refreshForUnknownKey(used), true, 'checked with the old key meanwhile')
  t.equal(origin.seen('/metadata').length, 3)
})

t.test(
  'metadata with the same keys that was renewed after its end is worth a new look',
  async t => {
    const { clock, idp, origin, open } = await lab(t)
    const validUntil = start + 10 * minute
    origin.at('/metadata', reply({ content: idp.metadata({ validUntil }) }))
    const source = await open()
    clock.advance(10 * minute)
    origin.at('/metadata', reply({ content: idp.metadata() }))
    t.equal(await source.refreshForUnknownKey(source.current()), true)
  },
)

const dated = 'Fri, 20 Nov 2026 11:00:00 GMT'

/** Answers a validator with 304, and all else with a document. */
function unchanged(content: string): Script {
  const fields = { ETag: '"one"', 'Last-Modified': dated }
  return answer => {
    const knows = answer.request.fields.get('If-None-Match') === '"one"'
    return reply(knows ? { status: 304, fields } : { content, fields })(answer)
  }
}

t.test('a document that has not changed is not sent again', async t => {
  const { clock, log, idp, origin, cache, open } = await lab(t)
  const last = () => origin.seen('/metadata').at(-1)?.fields
  const logged = (message: RegExp, count: number) =>
    until(() => log.lines.filter(line => message.test(line.message)).length === count)
  origin.at('/metadata', unchanged(idp.metadata()))
  const source = await open()
  t.notOk(last()?.has('If-None-Match'), 'nothing is known at the start')
  t.notOk(last()?.has('If-Modified-Since'))
  clock.advance(30 * minute)
  await logged(/has not changed/, 1)
  await new Promise(resolve => setImmediate(resolve))
  t.equal(last()?.get('If-None-Match'), '"one"')
  t.equal(last()?.get('If-Modified-Since'), dated)
  t.equal(source.fetchedAt, start + 30 * minute, 'it is as good as fetched')
  t.equal(readFileSync(cache, 'utf8'), idp.metadata())
  clock.advance(30 * minute)
  await logged(/has not changed/, 2)

  for (const [count, spoil] of [
    () => writeFileSync(cache, '<other/>'),
    () => rmSync(cache),
  ].entries()) {
    await new Promise(resolve => setImmediate(resolve))
    spoil()
    clock.advance(30 * minute)
    // The first was that of the start.
    await logged(/was updated and cached/, count + 2)
    t.notOk(last()?.has('If-None-Match'), 'a cache that is not what it was is fetched anew')
    t.equal(readFileSync(cache, 'utf8'), idp.metadata())
  }
  t.equal(source.current()?.entityId, idp.entityId)
})

t.test('304 is an answer to one that asked so, and to no other', async t => {
  const { clock, idp, origin, open, warnings } = await lab(t)
  origin.at('/metadata', reply({ status: 304 }))
  await t.rejects(open(), { message: /answered 304 instead of 200/ })
  for (const fields of [{}, { ETag: `"${'x'.repeat(600)}"` }] as const) {
    origin.at(
      '/metadata',
      inTurn(reply({ content: idp.metadata(), fields }), reply({ status: 304 })),
    )
    const source = await open()
    clock.advance(30 * minute)
    await until(() => warnings().some(line => /could not be refreshed/.test(line)))
    t.notOk(origin.seen('/metadata').at(-1)?.fields.has('If-None-Match'))
    source.close()
  }
})

t.test(
  '304 for what is not trusted any more changes nothing, and the next asks for all',
  async t => {
    const { clock, origin, idp, directory, open, warnings } = await lab(t)
    const trusted = join(directory, 'trusted.pem')
    writeFileSync(trusted, rsaPair('federation').certificate)
    const plain = idp.metadata().replace('<md:EntityDescriptor', '<md:EntityDescriptor ID="_m"')
    origin.at('/metadata', unchanged(signElement(plain, { id: '_m', key: rsaPair('federation') })))
    await open({ idpMetadataCertificate: trusted })
    writeFileSync(trusted, rsaPair('stranger').certificate)
    clock.advance(30 * minute)
    await until(() => warnings().some(line => /could not be refreshed/.test(line)))
    t.ok(origin.seen('/metadata')[1]?.fields.has('If-None-Match'))
    await new Promise(resolve => setImmediate(resolve))
    clock.advance(30 * minute)
    t.notOk((await origin.arrived('/metadata', 3)).fields.has('If-None-Match'))
  },
)

t.test('metadata that has expired is asked for whole, and each minute', async t => {
  const { clock, idp, origin, open } = await lab(t)
  const validUntil = start + 4 * minute
  origin.at('/metadata', unchanged(idp.metadata({ validUntil })))
  const source = await open()
  // Half of what is left: 2 minutes, then 1, and 1 at the least.
  for (const [wait, conditional] of [
    [2, true],
    [1, true],
    [1, false],
    [1, false],
  ] as const) {
    const count = origin.seen('/metadata').length + 1
    clock.advance(wait * minute - 1)
    await new Promise(resolve => setImmediate(resolve))
    t.equal(origin.seen('/metadata').length, count - 1, 'not sooner')
    clock.advance(1)
    const { fields } = await origin.arrived('/metadata', count)
    t.equal(fields.has('If-None-Match'), conditional)
    await source.downloadsEnded()
    await new Promise(resolve => setImmediate(resolve))
  }
})

t.test('the next download comes when the metadata asks for it, within bounds', async t => {
  const chance = (high: number) => (size: number) => Buffer.alloc(size, high)
  for (const [attributes, random, wait] of [
    ['', 0, 30 * minute],
    ['', 255, 27 * minute],
    [' cacheDuration="PT10M"', 0, 10 * minute],
    [' cacheDuration="PT10M"', 255, 9 * minute],
    [' cacheDuration="PT1S"', 0, 5 * minute],
    [' cacheDuration="PT0S"', 0, 5 * minute],
    [' cacheDuration="P7D"', 0, 30 * minute],
    [' cacheDuration="soon"', 0, 30 * minute],
    [' validUntil="2026-11-20T12:20:00Z"', 0, 10 * minute],
    [' validUntil="2026-11-20T12:00:30Z"', 0, minute],
    [' validUntil="9999-12-31T23:59:59Z"', 0, 30 * minute],
    [' validUntil="2026-11-20T12:20:00Z" cacheDuration="PT6M"', 0, 6 * minute],
  ] as const) {
    const { clock, idp, origin, open, warnings } = await lab(t)
    const content = idp.metadata().replace(' entityID=', `${attributes} entityID=`)
    origin.at('/metadata', reply({ content }))
    const source = await open({}, chance(random))
    t.equal(warnings().includes('IdP metadata'), attributes.includes('soon'))
    // A thousandth of a chance is in no byte.
    clock.advance(wait - 1)
    await new Promise(resolve => setImmediate(resolve))
    t.equal(origin.seen('/metadata').length, 1, `${attributes} ${random}: not sooner`)
    clock.advance(wait / 1000 + 1)
    await origin.arrived('/metadata', 2)
    source.close()
  }
})

t.test('local: read once, no cache, no refresh', async t => {
  const { clock, idp, origin, directory, cache, open } = await lab(t)
  const path = join(directory, 'idp.xml')
  await t.rejects(open({ idpMetadata: { from: 'file', path } }), {
    message: /idp\.xml cannot be read/,
  })
  writeFileSync(path, idp.metadata())
  const source = await open({ idpMetadata: { from: 'file', path } })
  writeFileSync(path, '<changed/>')
  clock.advance(24 * 60 * minute)
  t.equal(source.current()?.entityId, idp.entityId)
  t.notOk(await source.refreshForUnknownKey(source.current()))
  t.strictSame(origin.requests, [])
  t.throws(() => readFileSync(cache))
})

t.test('the development IdP is taken where the domain is local, and nowhere else', async t => {
  const { idp, directory, open } = await lab(t)
  const path = join(directory, 'idp.xml')
  writeFileSync(path, idp.metadata({ forDevelopment: true }))
  for (const [domain, taken] of [
    ['localhost', true],
    ['localhost:8443', true],
    ['127.0.0.1', true],
    ['127.1.2.3:443', true],
    ['[::1]:8443', true],
    ['app.localhost', true],
    ['app.example.test:8443', true],
    ['app.example.org', false],
    ['localhost.example.org', false],
    ['test.example', false],
    ['contest', false],
    ['127.0.0.1.example.org', false],
    ['10.0.0.1', false],
  ] as const) {
    const opened = open({ idpMetadata: { from: 'file', path }, baseUrl: `https://${domain}` })
    if (taken) t.ok((await opened).current(), domain)
    else await t.rejects(opened, { message: /each client can be any user/ }, domain)
  }
})

t.test('42: with a certificate configured the metadata has to be signed with its key', async t => {
  const { idp, origin, directory, open } = await lab(t)
  const trusted = join(directory, 'trusted.pem')
  writeFileSync(trusted, rsaPair('federation').certificate)
  const plain = idp.metadata().replace('<md:EntityDescriptor', '<md:EntityDescriptor ID="_m"')
  const signed = (name: string) =>
    signElement(plain, {
      id: '_m',
      key: rsaPair(name),
    })
  for (const [content, problem] of [
    [plain, /is not signed/],
    [signed('stranger'), /does not verify/],
    [signed('federation').replace('/sso"', '/evil"'), /does not verify/],
  ] as const) {
    origin.at('/metadata', file({ content }))
    await t.rejects(open({ idpMetadataCertificate: trusted }), { message: problem })
  }
  origin.at('/metadata', file({ content: signed('federation') }))
  t.ok((await open({ idpMetadataCertificate: trusted })).current())
  writeFileSync(trusted, 'no certificate')
  await t.rejects(open({ idpMetadataCertificate: trusted }), { message: /no certificate in PEM/ })
})

t.test(
  '42: the address of an entity at an MDQ server is an address of metadata, signed by its federation',
  async t => {
    const { clock, idp, origin, directory, open } = await lab(t)
    const trusted = join(directory, 'federation.pem')
    writeFileSync(trusted, rsaPair('federation').certificate)
    const sign = (xml: string) => {
      const plain = xml.replace('<md:EntityDescriptor', '<md:EntityDescriptor ID="_m"')
      return signElement(plain, { id: '_m', key: rsaPair('federation') })
    }
    // As the Metadata Query Protocol says: the entity ID percent-encoded in the path, and its own type asked for and answered.
    const path = `/mdq/entities/${encodeURIComponent(idp.entityId)}`
    t.match(path, /\/entities\/https%3A%2F%2F/)
    const fields = { 'Content-Type': 'application/samlmetadata+xml' }
    const answer =
      (content: string): Script =>
      asked =>
        /application\/samlmetadata\+xml/.test(asked.request.fields.get('Accept') ?? '')
          ? reply({ content, fields })(asked)
          : reply({ status: 406 })(asked)
    const validUntil = start + 14 * 24 * 60 * minute
    origin.at(path, answer(sign(idp.metadata({ validUntil }))))
    const of = {
      idpMetadata: { from: 'url', url: origin.url(path) },
      idpMetadataCertificate: trusted,
      idpEntityId: idp.entityId,
    } as const
    const source = await open(of)
    t.equal(source.current()?.entityId, idp.entityId)
    t.equal(origin.seen(path).length, 1, 'the path is sent as it is written')
    const written = `https://mdq.example.org${path}`
    const { saml } = gatewayConfig({
      domain: 'app.example.org',
      idpMetadataURL: written,
      proxy: { listenAddress: '8080', targetURL: 'http://127.0.0.1:3000' },
    })
    t.same(saml.idpMetadata, { from: 'url', url: written })
    const other = new ScriptedIdp('keycloak', { now: () => clock.now() })
    for (const [content, problem] of [
      [idp.metadata({ validUntil }), /is not signed/],
      [sign(other.metadata({ validUntil })), /there is no IdP/],
    ] as const) {
      origin.at(path, answer(content))
      await t.rejects(open({ ...of, metadataCacheFile: join(directory, 'none') }), {
        message: problem,
      })
    }
    origin.at(path, reply({ status: 404 }))
    await t.rejects(open({ ...of, metadataCacheFile: join(directory, 'none') }), {
      message: /answered 404/,
    })
  },
)

t.test('a certificate of the IdP that ends soon is warned about', async t => {
  const { clock, idp, origin, open, warnings } = await lab(t)
  origin.at('/metadata', reply({ content: idp.metadata() }))
  clock.advance(Date.parse('2048-12-20T00:00:00Z') - start)
  await open()
  t.ok(warnings().includes('a certificate of the IdP expires soon'))
})
