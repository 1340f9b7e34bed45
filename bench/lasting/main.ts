/**
 * What users notice when strangers hold connections for long: `node dist/bench/lasting/main.js [seconds] [of each kind] [addresses]`.
 *
 * On a passthrough path strangers open event streams, send uploads a byte a second, and read downloads a little a second, all at
 * once, from so many addresses of the loopback. A signed-in user asks 200 times a second meanwhile. Writes the user's times without
 * them, while they arrive, with them, and after they have gone. Backend and strangers are processes of their own, so that the times
 * are the gateway's, as far as two processors allow; its share of one is told beside them.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { AuthproxyProcess, startable } from '../../test/fixtures/gateway/authproxy-process.ts'
import { WholeBrowser } from '../../test/fixtures/gateway/whole-browser.ts'
import { ScriptedIdp } from '../../test/fixtures/saml/idp.ts'

const [secondsText = '20', count = '512', addresses = '64'] = process.argv.slice(2)
const seconds = Number(secondsText)
const teardowns: Array<() => unknown> = []
const t = { teardown: (action: () => unknown) => void teardowns.push(action) }

/** Starts a program of this folder; it ends when this process does. */
const program = (name: string, ...words: string[]) =>
  fork(join(import.meta.dirname, `${name}.js`), words)

async function ask<Answer>(child: ChildProcess, question: string): Promise<Answer> {
  child.send(question)
  return (await once(child, 'message'))[0] as Answer
}

const backend = program('backend')
const [backendPort] = await once(backend, 'message')

const { directory, port, settings } = await startable(t)
const gateway = await AuthproxyProcess.start(t, {
  directory,
  // As bin/authproxy has it.
  nodeOptions: ['--max-semi-space-size=4'],
  settings: {
    ...settings,
    proxy: { ...settings.proxy, targetURL: `http://127.0.0.1:${backendPort}` },
  },
})
await gateway.until('ready')
const strangers = program('strangers', String(port), settings.domain, count, addresses)

/** Milliseconds of processor time the gateway has used. */
function cpu(): number {
  const [, rest = ''] = readFileSync(`/proc/${gateway.pid}/stat`, 'latin1').split(') ')
  const fields = rest.split(' ')
  return (Number(fields[11]) + Number(fields[12])) * 10
}

const user = new WholeBrowser({ teardown: () => undefined }, port)
await user.signIn(new ScriptedIdp('okta', { now: Date.now }))
const cookies = [...user.cookies].map(([name, value]) => `${name}=${value}`).join('; ')
const asked = `GET /page HTTP/1.1\r\nHost: ${settings.domain}\r\nX-Forwarded-Proto: https\r\nCookie: ${cookies}\r\n\r\n`
let failed = 0

/** One connection of the user: a request every 100 ms, or when the one before is answered. */
async function asks(until: number, times: number[]): Promise<void> {
  const socket = connect({ port, host: '127.0.0.1' })
  let settle = (_answer: string): void => undefined
  socket
    .on('error', () => undefined)
    .on('data', bytes => settle(bytes.toString('latin1')))
    .on('close', () => settle(''))
  while (performance.now() < until) {
    const begun = performance.now()
    socket.write(asked)
    const answer = await new Promise<string>(resolve => {
      settle = resolve
    })
    if (!answer.startsWith('HTTP/1.1 200')) failed += 1
    times.push(performance.now() - begun)
    await sleep(Math.max(0, 100 - (performance.now() - begun)))
  }
  socket.destroy()
}

/** The user's times for so many seconds, and until what happens meanwhile is over. */
async function measure(name: string, meanwhile?: () => Promise<unknown>): Promise<void> {
  const times: number[] = []
  failed = 0
  const begun = performance.now()
  const used = cpu()
  const until = begun + seconds * 1000
  await Promise.all([...Array.from({ length: 20 }, () => asks(until, times)), meanwhile?.()])
  const share = (cpu() - used) / (performance.now() - begun)
  times.sort((a, b) => a - b)
  const at = (part: number) => (times[Math.floor((times.length - 1) * part)] ?? 0).toFixed(1)
  const open = await ask<number>(strangers, 'how many')
  const arrived = await ask<Record<string, number>>(backend, 'how many')
  const figures = [name, times.length, failed, at(0.5), at(0.99), at(1), share.toFixed(2), open]
  process.stdout.write(`| ${[...figures, Object.values(arrived).join(' + ')].join(' | ')} |\n`)
}

process.stdout.write(
  '|  | requests | failed | ms, median | ms, p99 | ms, longest | processors of the gateway | connections of strangers | event streams + uploads + downloads at the backend |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n',
)
await measure('warming up')
await measure('without strangers')
await measure('while they arrive', () => ask(strangers, 'begin'))
await measure('with strangers')
await measure('with them for longer')
await ask(strangers, 'leave')
await sleep(2000)
await measure('after them')
await gateway.stop()
for (const teardown of teardowns.reverse()) await teardown()
process.exit()
