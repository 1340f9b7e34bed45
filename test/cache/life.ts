/**
 * Start, reload and stop of the whole service: what is finished, what is cut, what survives, and the sentences when it cannot
 * be.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { TestCache } from '../fixtures/cache/cache.ts'
import { RawClient } from '../fixtures/http/raw-client.ts'
import { file, reply, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'
import { cleanEnvironment } from '../fixtures/process/command.ts'
import { accepts } from '../fixtures/process/ports.ts'
import { Gate } from '../fixtures/time/gate.ts'

const deb = '/debian/pool/main/h/hello_1_all.deb'
const content = Buffer.alloc(200_000, 'the quick brown fox ')

t.test('stopping finishes what clients are being sent, and what is being fetched', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const timeouts = { drain: '20s' }
  const cache = await TestCache.start(t, { origins: [origin], settings: { timeouts } })
  const [half, alone] = [new Gate(), new Gate()]
  origin.at(deb, file({ content, etag: '"1"', pauses: [{ at: 100_000, gate: half }] }))
  origin.at('/alone', file({ content, etag: '"1"', pauses: [{ at: 100_000, gate: alone }] }))
  const idle = await cache.client()
  const leaving = await cache.client()
  await leaving.request('GET', origin.url('/alone'))
  await alone.reached
  await leaving.reset()
  const client = await cache.client()
  await client.request('GET', origin.url(deb))
  await client.head()
  await half.reached
  const { port } = cache
  const stopped = cache.stop()
  const another = await RawClient.connect(t, port)
  const whole = await another.get('/_cachesvc/healthz', { Host: `127.0.0.1:${port}` })
  t.equal(whole.status, 200, 'a slow client does not shut others out')
  half.open()
  t.ok((await client.bytes(200_000)).equals(content))
  alone.open()
  t.equal(await client.ended, 'fin')
  t.equal(await idle.ended, 'fin')
  await stopped
  t.notOk(await accepts(port))
  await cache.restart()
  for (const path of [deb, '/alone']) {
    t.equal((await cache.get(origin.url(path))).fields.get('X-Cache'), 'HIT', path)
  }
})

t.test('what is not finished at the deadline is cut, and not stored', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const timeouts = { drain: '100ms' }
  const cache = await TestCache.start(t, { origins: [origin], settings: { timeouts } })
  const never = new Gate()
  origin.at(deb, file({ content, etag: '"1"', pauses: [{ at: 100_000, gate: never }] }))
  const client = await cache.client()
  await client.request('GET', origin.url(deb))
  await client.head()
  const begun = performance.now()
  await cache.stop()
  t.ok(performance.now() - begun < 60_000)
  t.ok((await client.rest()).length < content.length)
  t.strictSame(await cache.stored(), [])
  t.strictSame(await cache.files('v2/tmp'), [])
  never.open()
})

t.test('a pipeline is answered to its end when we stop', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, {
    origins: [origin],
    settings: { timeouts: { drain: '20s' } },
  })
  const gate = new Gate()
  origin.at('/0', reply({ content: 'first', before: gate }))
  origin.at('/1', reply({ content: 'second' }))
  const client = await cache.client()
  const head = (path: string) => `GET ${origin.url(path)} HTTP/1.1\r\nHost: a\r\n\r\n`
  await client.write(head('/0') + head('/1'))
  await origin.arrived('/1')
  const stopped = cache.stop()
  gate.open()
  t.equal((await client.response()).text, 'first')
  t.equal((await client.response()).text, 'second')
  await stopped
})

t.test('statistics are written when we stop, and counted on when we start', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  origin.at(deb, reply({ content: 'hello' }))
  await cache.warm(origin.url(deb))
  await cache.get(origin.url(deb))
  await cache.stop()
  t.match(await readFile(join(cache.directory, 'statistics.json'), 'utf8'), /"hits": ?1/)
  await cache.restart()
  t.match(await cache.totals(), { requests: 2, hits: 1, misses: 1, traffic_up: 10 })
})

t.test('a reload changes the policy at once, under running connections', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  origin.at(deb, reply({ content: 'hello' }))
  const client = await cache.client()
  t.equal((await client.get(origin.url(deb))).status, 200)
  t.strictSame(await cache.reload({ domains: ['other.example.org'] }), [])
  const refused = await client.get(origin.url(deb))
  t.equal(refused.status, 403)
  t.match(refused.text, '`domains`')
})

t.test('a reload with problems changes nothing and tells them', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  origin.at(deb, reply({ content: 'hello' }))
  const problems = await cache.reload({ domains: ['http://'], freshness: { index: 'never' } })
  t.match(problems.join(), /expected/)
  t.equal((await cache.get(origin.url(deb))).status, 200)
})

t.test('what waits for a restart is named at each reload, and not in force', async t => {
  const cache = await TestCache.start(t)
  const warnings = () =>
    cache.log.lines.filter(({ level }) => level === 'warn').map(({ message }) => message)
  const waiting = { parent_proxy: 'http://parent.example.org:3128', timeouts: { connect: '1s' } }
  const both =
    'changed, and in force after a restart: parent_proxy; timeouts.connect; timeouts.drain'
  await cache.reload(waiting)
  t.strictSame(warnings(), [both])
  await cache.reload(waiting)
  t.strictSame(warnings(), [both, both], 'a later reload says so too')
  const overview = (await cache.get('/_cachesvc/')).text
  t.notMatch(overview, 'parent.example.org')
  t.match(overview, both)
  await cache.reload({ log: { level: 'error' } })
  t.equal(warnings().length, 2, 'what is as it was at the start waits for nothing')
  cache.log.info('not written')
  t.notOk(cache.log.lines.some(({ message }) => message === 'not written'))
  t.notMatch((await cache.get('/_cachesvc/')).text, 'after a restart')
})

t.test('an address in use is one sentence, and what was open before it is closed', async t => {
  const cache = await TestCache.start(t)
  const listen = ['127.0.0.1:0', `127.0.0.1:${cache.port}`]
  await t.rejects(TestCache.start(t, { settings: { listen } }), {
    message: `cannot listen on 127.0.0.1:${cache.port}: another process listens there; \`sudo ss -ltnp 'sport = :${cache.port}'\` names it; stop it, or choose another port with \`listen\` (or --listen)`,
  })
  await t.rejects(TestCache.start(t, { settings: { listen: ['192.0.2.1:3142'] } }), {
    message: 'cannot listen on 192.0.2.1:3142: this machine does not have the address',
  })
})

/** The daemon itself, to its end. */
async function run(...words: readonly string[]) {
  const program = join(import.meta.dirname, '../../bin/cachesvc.js')
  const child = spawn(process.execPath, [program, ...words], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: cleanEnvironment({ CACHESVC_CONFIG: '', CACHESVC_CACHE_DIR: '' }),
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', text => (output += text))
  const [code] = await once(child, 'close')
  return { code, output }
}

t.test('a daemon that cannot start ends with a code and a sentence, not with a stack', async t => {
  const cache = await TestCache.start(t)
  const place = t.testdir({ file: '' })
  const own = join(place, 'cache')
  const free = ['--listen', '127.0.0.1:0']
  const cases: ReadonlyArray<readonly [RegExp, readonly string[], code?: number]> = [
    [
      /another process listens there/,
      ['--cache-dir', own, '--listen', `127.0.0.1:${cache.port}`],
      78,
    ],
    [/is in use by process/, ['--cache-dir', cache.directory, ...free]],
    [/is not a directory/, ['--cache-dir', join(place, 'file'), ...free], 78],
  ]
  const config = join(place, 'c.yaml')
  await mkdir(own)
  await writeFile(config, 'log: {level: info}\n')
  for (const [sentence, words, expected = 1] of cases) {
    const { code, output } = await run('-c', config, ...words)
    t.equal(code, expected, String(sentence))
    t.match(output, sentence)
    t.notMatch(output, /\bat .*\.[jt]s:\d/, 'no stack')
    t.equal(
      output
        .trim()
        .split('\n')
        .filter(line => /cannot start/.test(line)).length,
      1,
    )
  }
  const wrong = join(place, 'wrong.yaml')
  await writeFile(wrong, 'domain: [a]\n')
  const { code, output } = await run('-c', wrong)
  t.equal(code, 78)
  t.match(output, /wrong\.yaml:1:1: domain.*domains/)
})
