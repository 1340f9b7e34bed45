/**
 * Through which files of lib a request goes: `node dist/bench/walk.js [hit] [miss] [connect] [session] [login] [--functions]`.
 *
 * V8 counts the calls of every function between two readings, in this process; a file is on the walk when one of its functions
 * was called. The programs do what they did many times before, so that nothing is made or read for the first time, and each walk
 * begins with a connection of its own. Files of lib itself, lib/async, lib/bytes and http/message are values and tools that a
 * reader knows after the first walk; they are counted apart.
 */
import { mkdtemp, open, rm } from 'node:fs/promises'
import { Session } from 'node:inspector/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { systemClock } from '../lib/async/clock.ts'
import { startService } from '../lib/cache/service.ts'
import { createLog } from '../lib/log/log.ts'
import { configOf } from '../test/fixtures/cache/cache.ts'
import { startWhole } from '../test/fixtures/gateway/whole-gateway.ts'
import { RawClient } from '../test/fixtures/http/raw-client.ts'
import { file, ScriptedOrigin } from '../test/fixtures/http/scripted-origin.ts'

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { functions: { type: 'boolean' } },
})

const library = new URL('../lib/', import.meta.url)
const tools = /^(?:[^/]+\.ts|async\/|bytes\/|http\/message\/)/

const teardowns: Array<() => unknown> = []
const t = { teardown: (action: () => unknown) => void teardowns.unshift(action) }

const session = new Session()
session.connect()
await session.post('Profiler.enable')
await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })

/** Functions of lib that were called since the last reading, by file. */
async function called(): Promise<Map<string, string[]>> {
  const { result } = await session.post('Profiler.takePreciseCoverage')
  const files = new Map<string, string[]>()
  for (const { url, functions } of result) {
    if (!url.startsWith(library.href)) continue
    const names = functions
      .filter(({ ranges }) => (ranges[0]?.count ?? 0) > 0)
      .map(({ functionName }) => functionName)
      // A property that was read sends no reader to its file.
      .filter(name => !name.startsWith('get '))
    const path = url.slice(library.href.length).replace(/\.js$/, '.ts')
    if (names.length > 0) files.set(path, names)
  }
  return files
}

/** Until the process has nothing more to do for what was asked: the log is written, the entry and the content are put away. */
async function rest(milliseconds: number): Promise<void> {
  await new Promise(resolve => setTimeout(resolve, milliseconds))
}

async function walk(name: string, takes: () => Promise<void>, settles: number): Promise<void> {
  await rest(1500)
  // What the process does without any request: most timers look once a second.
  await called()
  await rest(1500)
  const idle = await called()
  await takes()
  await rest(settles)
  const files = await called()
  const passed = [...files].filter(([path, names]) =>
    names.some(one => !idle.get(path)?.includes(one)),
  )
  const own = passed.filter(([path]) => !tools.test(path)).sort()
  const others = passed.filter(([path]) => tools.test(path)).sort()
  process.stdout.write(`\n${name}: ${own.length} files, and ${others.length} of values and tools\n`)
  for (const [path, names] of [...own, ...others]) {
    const mark = tools.test(path) ? '  - ' : '  '
    const also = values.functions ? ` (${names.join(' ')})` : ''
    process.stdout.write(`${mark}${path}${also}\n`)
  }
}

async function ask(port: number, url: string): Promise<void> {
  const client = await RawClient.connect(t, port)
  const response = await client.get(url, { Host: new URL(url).host })
  if (response.status !== 200) throw new Error(`${url}: ${response.status} ${response.text}`)
  client.end()
  await client.ended
}

async function cacheWalks(): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), 'walk-'))
  t.teardown(() => rm(directory, { recursive: true, force: true }))
  const first = await ScriptedOrigin.listen(t)
  const second = await ScriptedOrigin.listen(t)
  for (const origin of [first, second]) {
    for (let index = 0; index < 10; index += 1) {
      const content = `content ${origin.port} ${index} `.repeat(1000)
      origin.at(`/debian/pool/main/h/hello_${index}_all.deb`, file({ content, etag: `"${index}"` }))
    }
  }
  const log = await open(join(directory, 'log'), 'w')
  t.teardown(() => log.close())
  const domains = [first, second].map(({ host, port }) => `${host}:${port}`)
  const store = join(directory, 'store')
  const config = configOf({ listen: ['127.0.0.1:0'], domains }, store)
  const service = await startService({
    config,
    log: createLog({ to: { write: (text: string) => void log.write(text) } }),
    start: { sockets: [], signal: new AbortController().signal },
    reload: async () => ({ config }),
    clock: systemClock,
  })
  t.teardown(async () => {
    for (const step of service.stop) await step.stop()
  })
  const port = Number(/:(\d+)[,;]/.exec(service.status)?.[1])
  const url = (origin: ScriptedOrigin, index: number) =>
    origin.url(`/debian/pool/main/h/hello_${index}_all.deb`)
  for (let index = 0; index < 5; index += 1) {
    // Content is kept in memory from its second reading on.
    for (let times = 0; times < 4; times += 1) await ask(port, url(first, index))
  }
  if (wanted('hit')) await walk('hit', () => ask(port, url(first, 2)), 300)
  if (wanted('miss')) await walk('miss', () => ask(port, url(second, 1)), 300)
  if (wanted('connect')) {
    const authority = `${first.host}:${first.port}`
    await walk(
      'connect',
      async () => {
        const client = await RawClient.connect(t, port)
        await client.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`)
        const head = await client.head()
        if (head.status !== 200) throw new Error(`CONNECT: ${head.status}`)
        client.end()
        await client.ended
      },
      300,
    )
  }
}

async function gatewayWalks(): Promise<void> {
  const { browser, idp } = await startWhole(t)
  for (let index = 0; index < 3; index += 1) {
    browser.cookies.clear()
    await browser.signIn(idp)
    await browser.navigate('/')
  }
  if (wanted('session')) await walk('session', async () => void (await browser.navigate('/')), 300)
  if (wanted('login')) {
    browser.cookies.clear()
    await walk('login', async () => void (await browser.signIn(idp)), 300)
  }
}

function wanted(name: string): boolean {
  return positionals.length === 0 || positionals.includes(name)
}

if (['hit', 'miss', 'connect'].some(wanted)) await cacheWalks()
if (['session', 'login'].some(wanted)) await gatewayWalks()
for (const teardown of teardowns) await teardown()
// The threads of the fixture live as long as the process.
process.exit()
