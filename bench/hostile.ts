/**
 * What requests of strangers cost authproxy, and what users get meanwhile: `node dist/bench/hostile.js [seconds a row] [row ...]`.
 *
 * Twenty hostile requests a second beside one login a second and fifty plain requests a second. The hostile requests of a row are
 * alike. CPU is that of the gateway's process, less what it needs for the others, by request.
 */
import { readFileSync } from 'node:fs'
import { createConnection } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { deflateRawSync } from 'node:zlib'
import { AuthproxyProcess, startable } from '../test/fixtures/gateway/authproxy-process.ts'
import { WholeBrowser } from '../test/fixtures/gateway/whole-browser.ts'
import { formOf, readAsked } from '../test/fixtures/saml/browser.ts'
import { costlyDocuments } from '../test/fixtures/saml/costly-documents.ts'
import { ScriptedIdp, sp } from '../test/fixtures/saml/idp.ts'

const [text = '20', ...wanted] = process.argv.slice(2)
const seconds = Number(text)
const teardowns: Array<() => unknown> = []
const t = { teardown: (action: () => unknown) => void teardowns.push(action) }
const forget = { teardown: () => undefined }

const { directory, port, settings } = await startable(t)
const gateway = await AuthproxyProcess.start(t, { directory, settings })
await gateway.until('ready')
const idp = new ScriptedIdp('okta', { now: Date.now })

/** Milliseconds of processor time the gateway has used. */
function cpu(): number {
  const [, rest = ''] = readFileSync(`/proc/${gateway.pid}/stat`, 'latin1').split(') ')
  const fields = rest.split(' ')
  return (Number(fields[11]) + Number(fields[12])) * 10
}

const head = (method: string, target: string, fields = '') =>
  `${method} ${target} HTTP/1.1\r\nHost: ${sp.domain}\r\nX-Forwarded-Proto: https\r\nConnection: close\r\n${fields}\r\n`
const form = (target: string, content: string, fields = '') =>
  `${head('POST', target, `Content-Type: application/x-www-form-urlencoded\r\nContent-Length: ${content.length}\r\n${fields}`)}${content}`

/** Sends bytes and settles with the milliseconds until the connection has ended. */
function once(bytes: string): Promise<number> {
  const begun = performance.now()
  return new Promise(resolve => {
    const socket = createConnection({ port, host: '127.0.0.1' })
    const over = () => resolve(performance.now() - begun)
    socket
      .on('error', () => undefined)
      .on('close', over)
      .resume()
    socket.write(bytes, 'latin1')
  })
}

const stranger = new WholeBrowser(forget, port)
const asked = readAsked(await stranger.navigate('/'))
const cookies = [...stranger.cookies].map(([name, value]) => `${name}=${value}`).join('; ')
const documents = costlyDocuments(idp.respond({ inResponseTo: asked.id }))
const posted = (text: string) =>
  formOf({ SAMLResponse: Buffer.from(text).toString('base64'), RelayState: asked.relayState })
const known = `Cookie: ${cookies}\r\n`
const nested = documents['nested namespaces'] ?? ''
const deflated = encodeURIComponent(deflateRawSync(nested).toString('base64'))
const rows: Readonly<Record<string, string>> = {
  'nested namespaces, GET /saml/slo': head('GET', `/saml/slo?SAMLRequest=${deflated}`),
  'nested namespaces, POST /saml/slo': form(
    '/saml/slo',
    posted(nested).replace('SAMLResponse', 'SAMLRequest'),
  ),
  ...Object.fromEntries(
    Object.entries(documents).map(([what, text]) => [
      `${what}, login under way`,
      form('/saml/acs', posted(text), known),
    ]),
  ),
  'form of 1 MB, /saml/acs': form('/saml/acs', 'a&'.repeat(500_000)),
  'form of 1 MB, /saml/acs, login under way': form('/saml/acs', 'a&'.repeat(500_000), known),
  'form of 1 MB, /saml/slo': form('/saml/slo', 'a&'.repeat(500_000)),
  'Cookie of 1 MB': head('GET', '/', `Cookie: ${'a=;'.repeat(340_000)}\r\n`),
  'Cookie of 1 MB with our name': head(
    'GET',
    '/',
    `Cookie: ${'__authproxy_session=;'.repeat(48_000)}\r\n`,
  ),
}

interface Measured {
  readonly cpu: number
  readonly logins: readonly number[]
  readonly plain: readonly number[]
  readonly failed: number
  readonly sent: number
}

/** Users, and twenty hostile requests a second if there is one. */
async function measure(hostile: string | undefined): Promise<Measured> {
  const logins: number[] = []
  const plain: number[] = []
  let failed = 0
  let sent = 0
  const waiting: Array<Promise<unknown>> = []
  const before = cpu()
  const begun = performance.now()
  for (let tick = 0; tick < seconds * 50; tick += 1) {
    const due = begun + tick * 20
    const now = performance.now()
    if (due > now) await sleep(due - now)
    waiting.push(once(head('GET', '/open/x')).then(time => plain.push(time)))
    if (tick % 50 === 0) {
      const from = performance.now()
      const login = new WholeBrowser(forget, port).signIn(idp).then(({ back }) => {
        if (back === undefined) failed += 1
        logins.push(performance.now() - from)
      })
      waiting.push(login.catch(() => (failed += 1)))
    }
    if (hostile !== undefined && tick % 5 < 2) {
      sent += 1
      waiting.push(once(hostile))
    }
  }
  await Promise.all(waiting)
  return { cpu: cpu() - before, logins, plain, failed, sent }
}

function quantile(values: readonly number[], share: number): string {
  const sorted = [...values].sort((a, b) => a - b)
  return (sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0).toFixed(0)
}

const line = (name: string, m: Measured, each: string) =>
  process.stdout.write(
    `| ${name} | ${each} | ${quantile(m.logins, 0.5)} | ${quantile(m.logins, 1)} | ${m.failed} | ${quantile(m.plain, 0.5)} | ${quantile(m.plain, 0.99)} |\n`,
  )

await measure(undefined)
const quiet = await measure(undefined)
process.stdout.write(
  '| 20 requests a second | CPU ms each | login ms, median | login ms, longest | failed | others ms, median | others ms, p99 |\n| --- | --- | --- | --- | --- | --- | --- |\n',
)
line('none', quiet, '')
for (const [name, bytes] of Object.entries(rows)) {
  if (wanted.length > 0 && !wanted.some(part => name.includes(String(part)))) continue
  const measured = await measure(bytes)
  line(name, measured, ((measured.cpu - quiet.cpu) / measured.sent).toFixed(1))
}
await gateway.stop()
for (const teardown of teardowns.reverse()) await teardown()
process.exit()
