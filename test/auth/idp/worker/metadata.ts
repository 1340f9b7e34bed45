import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import type { SamlConfig } from '../../../../lib/auth/config/config.ts'
import { IdpMetadataSource, type SourceParts } from '../../../../lib/auth/idp/metadata-source.ts'
import {
  metadataBounds,
  type PoolBounds,
  WorkerPool,
} from '../../../../lib/auth/idp/worker/pool.ts'
import type { MetadataRules } from '../../../../lib/saml/metadata/idp-metadata.ts'
import { signElement } from '../../../../lib/saml/signature/sign.ts'
import { makeClient } from '../../../fixtures/http/origin-client.ts'
import { file, ScriptedOrigin } from '../../../fixtures/http/scripted-origin.ts'
import { createMemoryLog } from '../../../fixtures/log/memory-log.ts'
import { rsaPair } from '../../../fixtures/saml/keys.ts'
import { around, filledWith, idpOf, largeAggregate } from '../../../fixtures/saml/large-metadata.ts'
import { plain } from '../../../fixtures/saml/metadata-documents.ts'
import { ManualClock } from '../../../fixtures/time/manual-clock.ts'

const minute = 60_000
/** What costs a parser most: elements with a namespace of their own. */
const costly = around('<a xmlns="urn:x"/>'.repeat(100_000))

type Test = Parameters<typeof ScriptedOrigin.listen>[0] & { testdir(): string }

function open(t: Pick<Test, 'teardown'>, bounds: Partial<PoolBounds> = {}) {
  const clock = new ManualClock(0)
  const pool = new WorkerPool(clock, { ...metadataBounds, ...bounds })
  t.teardown(() => pool.close())
  const read = (bytes: Uint8Array, rules: Partial<MetadataRules> = {}) => {
    const usual = { entityId: idpOf(7), certificates: undefined, allowSha1: false }
    return pool.run({ kind: 'metadata', bytes, rules: { ...usual, ...rules } })
  }
  return { clock, pool, read }
}

/** Turns of the event loop until something has settled. */
async function turnsUntil(settled: Promise<unknown>): Promise<number> {
  let turns = 0
  let running = true
  void settled.finally(() => {
    running = false
  })
  while (running) {
    turns += 1
    await new Promise(resolve => setImmediate(resolve))
  }
  return turns
}

/** Until something is so; the test's own deadline bounds it. */
async function until(so: () => boolean): Promise<void> {
  while (!so()) await new Promise(resolve => setImmediate(resolve))
}

t.test('an aggregate of 10 MiB is read while the event loop turns', async t => {
  const { read } = open(t)
  const reading = read(largeAggregate())
  const turns = await turnsUntil(reading)
  t.match(await reading, { ok: true, idp: { entityId: idpOf(7) } })
  t.ok(turns > 100, `${turns} turns`)
})

t.test('what comes back is as good as what was read here', async t => {
  const text = plain().replace('<md:EntityDescriptor', '<md:EntityDescriptor ID="_m"')
  const signed = signElement(text, { id: '_m', key: rsaPair('federation') })
  const { read } = open(t)
  const readWith = (name: string) =>
    read(Buffer.from(signed), { entityId: undefined, certificates: [rsaPair(name).certificate] })
  t.match(await readWith('federation'), {
    ok: true,
    idp: { keys: [{ certificate: rsaPair('idp').certificate }], warnings: [] },
  })
  t.match(await readWith('stranger'), {
    ok: false,
    because: 'signature_invalid',
    problem: /does not verify/,
  })
})

t.test('42: hostile documents are refused with a reason', async t => {
  const entity = (inside: string) => Buffer.from(inside)
  const bomb = `<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>${around('&b;')}`
  const cases: ReadonlyArray<readonly [string, Uint8Array, RegExp]> = [
    ['nested deeply', around('<a>'.repeat(500_000)), /nested too deeply/],
    ['an entity bomb', entity(bomb), /DOCTYPE/],
    ['an entity without DOCTYPE', around('&lol9;'), /entity/],
    ['millions of elements', filledWith(() => '<a/>'), /more elements than the limit of/],
    ['one attribute', around('', ` x="${'x'.repeat(10_000_000)}"`), /there is no IdP/],
    ['a million attributes', around('', ' x=""'.repeat(1_000_000)), /twice|too many attributes/],
    ['an external entity', entity('<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>'), /DOCTYPE/],
    ['nothing', entity(''), /well-formed/],
    ['references alone', filledWith(() => '&#13;', 1_000_000), /there is no IdP/],
  ]
  const { read } = open(t)
  for (const [what, bytes, problem] of cases) {
    t.match(await read(bytes), { ok: false, problem }, what)
  }
})

t.test('a thread that needs more memory than it may have dies alone', async t => {
  const { read } = open(t, { heapMegabytes: 12 })
  await t.rejects(read(costly), {
    message: /has died/,
    cause: { code: 'ERR_WORKER_OUT_OF_MEMORY' },
  })
})

t.test('a thread beyond its deadline, or of a service that stops, is ended', async t => {
  const { clock, pool, read } = open(t, { deadline: 5000 })
  const late = read(costly)
  await turn()
  clock.advance(5000)
  await t.rejects(late, { message: /within 5 s/ })
  const stopped = read(costly)
  const closed = pool.close()
  await t.rejects(stopped, { message: /stops/ })
  await closed
})

async function lab(t: Test) {
  const clock = new ManualClock(Date.parse('2026-11-20T12:00:00Z'))
  const log = createMemoryLog()
  const origin = await ScriptedOrigin.listen(t)
  const { client } = makeClient(t, { clock })
  const config = {
    idpMetadata: { from: 'url', url: origin.url('/metadata') },
    idpEntityId: idpOf(7),
    idpMetadataCertificate: undefined,
    metadataCacheFile: join(t.testdir(), 'cache.xml'),
    allowSha1: false,
  } as const
  const open = async (
    readerBounds: SourceParts['readerBounds'] = {},
    more: Partial<SamlConfig> = {},
  ) => {
    const source = await IdpMetadataSource.open({
      // The source asks for nothing else.
      config: () => ({ ...config, ...more }) as SamlConfig,
      origin: client,
      clock,
      random: size => Buffer.alloc(size),
      log,
      readerBounds,
    })
    t.teardown(() => source.close())
    return source
  }
  const warnings = () => log.lines.filter(line => line.level === 'warn').map(line => line.message)
  return { clock, origin, config, open, warnings }
}

t.test('start and refresh do not block the event loop', async t => {
  const { clock, origin, config, open } = await lab(t)
  const aggregate = largeAggregate(1024 * 1024)
  origin.at('/metadata', file({ content: aggregate }))
  const opened = open()
  t.ok((await turnsUntil(opened)) > 100)
  const source = await opened
  t.equal(source.current()?.entityId, idpOf(7))
  const moved = aggregate.toString().replaceAll('.example.org/sso', '.example.org/new')
  origin.at('/metadata', file({ content: moved }))
  clock.advance(30 * minute)
  const refreshed = until(() => /new$/.test(source.current()?.singleSignOn[0]?.location ?? ''))
  t.ok((await turnsUntil(refreshed)) > 100)
  await until(() => readFileSync(config.metadataCacheFile, 'utf8') === moved)
})

t.test(
  'a thread that dies is a refresh that failed: what is known stays, and a start has the cache',
  async t => {
    const { clock, origin, config, open, warnings } = await lab(t)
    const good = plain(idpOf(7))
    origin.at('/metadata', file({ content: good }))
    const source = await open({ heapMegabytes: 12 })
    origin.at('/metadata', file({ content: costly }))
    clock.advance(30 * minute)
    await until(() => warnings().some(message => /could not be refreshed/.test(message)))
    t.equal(source.current()?.entityId, idpOf(7))
    t.equal(readFileSync(config.metadataCacheFile, 'utf8'), good)
    const again = await open({ heapMegabytes: 12 })
    t.equal(again.current()?.entityId, idpOf(7))
    t.ok(warnings().some(message => /the cached metadata is used/.test(message)))
    writeFileSync(config.metadataCacheFile, costly)
    await t.rejects(open({ heapMegabytes: 12 }), { message: /has died.*no valid cache.*has died/ })
  },
)
