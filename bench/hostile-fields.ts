/**
 * What each field of a stranger costs the two daemons: `node dist/bench/hostile-fields.js [requests a row] [part of a name ...]`.
 *
 * Heads and contents of up to 1 MiB, each made to be dear for one parser, to authproxy (a page that needs a login, a passthrough path, the
 * ACS) and to cachesvc (a stored file). CPU is that of all threads of the daemon, by request, the median of several: requests come
 * one at a time, so the speed of the client does not count. The row "harmless" is a field of the same size that no parser reads.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { createConnection } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { ProxyProcess } from '../test/fixtures/cache/proxy-process.ts'
import { AuthproxyProcess, startable } from '../test/fixtures/gateway/authproxy-process.ts'
import { nodeBackend } from '../test/fixtures/gateway/node-backend.ts'
import { sp } from '../test/fixtures/saml/idp.ts'

const [text = '7', ...wanted] = process.argv.slice(2)
const teardowns: Array<() => unknown> = []
const t = { teardown: (action: () => unknown) => void teardowns.push(action) }

/** Nearly the 1 MiB that a head may have. */
const size = 1_030_000
const filled = (piece: string, bytes = size) => piece.repeat(Math.floor(bytes / piece.length))

/** Values that are dear to read as lists, parameters, quoted strings, tokens or percent-encoded text. */
const shapes: Readonly<Record<string, string>> = {
  'a,': filled('a,'),
  ';a': `a/b${filled(';a')}`,
  ';a="': `a/b${filled(';a="b"')}`,
  quotes: filled('"\\"'),
  spaces: `a${filled(' ')}a`,
  'commas and spaces': filled(', '),
}

/** Fields that one of the parsers reads, with the shapes that could be dear for it. */
const fields: ReadonlyArray<readonly [name: string, ...shapes: string[]]> = [
  ['X-Harmless', 'a,'],
  ['Content-Type', ';a', ';a="', 'spaces'],
  ['Connection', 'a,', 'commas and spaces', 'quotes'],
  ['Upgrade', 'a,'],
  ['Accept', 'a,', ';a="', 'commas and spaces'],
  ['Accept-Language', 'a,', 'spaces'],
  ['Accept-Encoding', 'a,'],
  ['Cache-Control', 'a,', 'quotes'],
  ['Range', 'a,'],
  ['If-None-Match', 'a,'],
  ['If-Range', 'spaces'],
  ['If-Modified-Since', 'spaces'],
  ['Authorization', 'a,', 'spaces'],
  ['X-Authproxy-Authorization', 'spaces'],
  ['X-Authproxy-Instance-ID', 'a,'],
  ['Cookie', ';a'],
  ['Forwarded', ';a="'],
  ['X-Forwarded-For', 'a,', 'spaces'],
  ['X-Forwarded-Proto', 'a,'],
  ['Via', 'a,'],
  ['TE', 'a,', 'spaces'],
  ['Transfer-Encoding', 'a,'],
  ['Trailer', 'a,'],
  ['Expect', 'spaces'],
  ['Host', 'a,'],
  ['Content-Length', 'a,'],
  ['Origin', 'a,'],
  ['Referer', 'a,'],
  ['Sec-Purpose', 'a,'],
  ['Sec-Fetch-Mode', 'a,'],
]

/** Values that are dear in one field alone. */
const own: ReadonlyArray<readonly [name: string, value: string, what: string]> = [
  ['Range', `bytes=${filled('0-0,')}`, 'ranges'],
  ['If-None-Match', filled('"a",'), 'tags'],
  ['If-None-Match', filled('W/"'), 'open tags'],
  ['X-Forwarded-Proto', filled('http,'), 'http'],
  ['X-Forwarded-For', filled('::1,'), 'addresses'],
  ['X-Forwarded-For', filled(':'), 'colons'],
  ['Cookie', filled('__authproxy_session=;'), 'our name'],
  ['Cookie', filled('__Host-authproxy_state='), 'our name, one cookie'],
  ['Connection', `${filled('x,')}upgrade`, 'upgrade'],
  ['Accept-Language', filled('en;q=0.1,'), 'languages'],
  ['Referer', `https://${sp.domain}/${filled('#')}`, 'of ours'],
  ['Cache-Control', filled('max-age=1,'), 'directives'],
  ['Authorization', `Negotiate ${filled('A')}`, 'token'],
]

interface Row {
  readonly name: string
  readonly lines: string
  readonly content?: string
}

const rows: Row[] = [
  { name: 'nothing', lines: '' },
  ...fields.flatMap(([name, ...of]) =>
    of.map(shape => ({ name: `${name}: ${shape}`, lines: `${name}: ${shapes[shape]}\r\n` })),
  ),
  ...own.map(([name, value, what]) => ({
    name: `${name}: ${what}`,
    lines: `${name}: ${value}\r\n`,
  })),
  { name: 'a long name: a-', lines: `${filled('a-')}: b\r\n` },
  {
    name: 'many names',
    lines: Array.from({ length: 880 }, () => `${filled('a-', 1150)}: b\r\n`).join(''),
  },
  {
    name: 'many lines of Connection',
    lines: Array.from({ length: 880 }, () => `Connection: ${filled('a,', 1150)}\r\n`).join(''),
  },
  { name: 'many lines of Accept', lines: filled('Accept: a,b\r\n', 11_000) },
]

/** Contents of forms, for the ACS alone. */
const forms: Row[] = [
  ['&', filled('a&')],
  ['percent', `SAMLResponse=${filled('%41')}`],
  ['base64 of nothing', `SAMLResponse=${filled('A')}`],
  ['base64 of elements', `SAMLResponse=${Buffer.from(filled('<a>', 700_000)).toString('base64')}`],
  [
    'base64 of attributes',
    `SAMLResponse=${Buffer.from(`<a ${filled('b="c" ', 700_000)}/>`).toString('base64')}`,
  ],
  [
    'base64 of text',
    `SAMLResponse=${Buffer.from(`<a>${filled('&amp;', 700_000)}</a>`).toString('base64')}`,
  ],
  ['RelayState', `SAMLResponse=PGEvPg&RelayState=${filled('%2B')}`],
].map(([what = '', content = '']) => ({
  name: `form: ${what}`,
  lines: `Content-Type: application/x-www-form-urlencoded\r\nContent-Length: ${content.length}\r\n`,
  content,
}))

/** Milliseconds of processor time that all threads of a process have used. */
function cpu(pid: number): number {
  let sum = 0
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    try {
      const [used] = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'latin1').split(' ')
      sum += Number(used)
    } catch {
      // The thread has ended.
    }
  }
  return sum / 1e6
}

/** Sends bytes, and settles with the first line of the answer when the connection has ended. */
function once(port: number, bytes: Buffer): Promise<string> {
  return new Promise(resolve => {
    const socket = createConnection({ port, host: '127.0.0.1' })
    let answer = ''
    const leave = () => socket.destroy()
    let quiet = setTimeout(leave, 3000)
    socket
      .on('data', block => {
        if (answer.length < 100) answer += block.toString('latin1')
        clearTimeout(quiet)
        quiet = setTimeout(leave, 10)
      })
      .on('error', () => undefined)
      .on('close', () => {
        clearTimeout(quiet)
        resolve(answer.split('\r\n', 1)[0] ?? '')
      })
    socket.write(bytes)
  })
}

async function measure(pid: number, port: number, bytes: Buffer) {
  const costs: number[] = []
  let answer = ''
  for (let i = 0; i < Number(text) + 2; i += 1) {
    const before = cpu(pid)
    answer = await once(port, bytes)
    await sleep(5)
    // The first ones find code that is not compiled.
    if (i >= 2) costs.push(cpu(pid) - before)
  }
  costs.sort((a, b) => a - b)
  return { cost: costs[Math.floor(costs.length / 2)] ?? 0, answer }
}

const { directory, port, settings } = await startable(t)
const target = await nodeBackend(t, (_, response) => void response.end('the application'))
const proxy = { ...settings.proxy, targetURL: target }
const gateway = await AuthproxyProcess.start(t, { directory, settings: { ...settings, proxy } })
await gateway.until('ready')
const origin = await nodeBackend(t, (_, response) => {
  response.setHeader('ETag', '"1"').end('hello')
})
const originPort = new URL(origin).port
const state = await mkdtemp(join(tmpdir(), 'hostile-'))
t.teardown(() => rm(state, { recursive: true, force: true }))
const cache = await ProxyProcess.start({
  directory: state,
  domains: [`127.0.0.1:${originPort}`],
  settings: { limits: { head: '1M' } },
})
const file = `http://127.0.0.1:${originPort}/debian/pool/main/h/hello/hello_1_all.deb`

const ways = [
  ['authproxy, page', gateway.pid, port, 'GET / ', sp.domain, rows],
  ['authproxy, passthrough', gateway.pid, port, 'GET /open/x ', sp.domain, rows],
  ['authproxy, ACS', gateway.pid, port, 'POST /saml/acs ', sp.domain, [...rows, ...forms]],
  ['cachesvc, hit', cache.pid, cache.port, `GET ${file} `, `127.0.0.1:${originPort}`, rows],
] as const

process.stdout.write('| Request | Way | CPU ms | Answer |\n| --- | --- | --- | --- |\n')
let dearest = 0
for (const [way, pid, to, start, host, own] of ways) {
  for (const { name, lines, content = '' } of own) {
    if (wanted.length > 0 && !wanted.some(part => `${way} ${name}`.includes(part))) continue
    const hosts = lines.startsWith('Host:') ? '' : `Host: ${host}\r\n`
    const proto = lines.startsWith('X-Forwarded-Proto') ? '' : 'X-Forwarded-Proto: https\r\n'
    const close = lines.startsWith('Connection:') ? '' : 'Connection: close\r\n'
    const head = `${start}HTTP/1.1\r\n${hosts}${proto}${close}${lines}\r\n`
    const { cost, answer } = await measure(pid, to, Buffer.from(head + content, 'latin1'))
    dearest = Math.max(dearest, cost)
    process.stdout.write(`| ${name} | ${way} | ${cost.toFixed(1)} | ${answer.slice(9, 40)} |\n`)
  }
}
process.stdout.write(`\nThe dearest costs ${dearest.toFixed(1)} ms.\n`)
await gateway.stop()
await cache.stop()
for (const teardown of teardowns.reverse()) await teardown()
process.exit()
