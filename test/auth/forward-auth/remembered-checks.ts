/**
 * What is remembered of heads and of clients changes no answer and no line of the log: streams of checks by chance, of several users, in
 * pieces, damaged, on kept connections and on their own, with reloads, ends of sessions and time between them. The same bytes
 * with the name of the target's field in small letters are read and never remembered, so they say what is right.
 *
 * CHECKS_SEED repeats a run, CHECKS_ROUNDS changes its length.
 */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { Edge } from '../../../lib/auth/config/setting-forward-auth.ts'
import { contracts } from '../../../lib/auth/forward-auth/contract.ts'
import { Noise } from '../../fixtures/chance/noise.ts'
import { startChecks } from '../../fixtures/gateway/checks.ts'
import { domain, gatewayConfig } from '../../fixtures/gateway/gateway.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const { CHECKS_SEED: seed = '1', CHECKS_ROUNDS: rounds = '100' } = process.env
const secret = 'a-secret-of-the-edge-that-is-long-enough'
type Choices = [string, ...string[]]
t.setTimeout(600_000)

/** Lines that a client or a confused edge may send besides. Pages are not opened: a session is led to its renewal once, by whichever way is first. */
const strange = (edge: Edge): Choices => {
  const { method, target, host } = contracts[edge]
  const names = [method, target, host].map(source => source?.field ?? 'X')
  return [
    'Host: b',
    ...names.map(name => `${name}: /admin/x`),
    ...names.map(name => `${name.replaceAll('-', '_')}: /admin/x`),
    ...names.map(name => `${name.toUpperCase()}: /admin/x`),
    `${target?.field}:/admin/x`,
    `${target?.field}: `,
    `${target?.field}: /a /b`,
    'X-Forwarded-For: 192.0.2.77',
    'X-Forwarded-For: 127.0.0.1',
    `X-Authproxy-Edge-Secret: ${secret}`,
    'X-Authproxy-Edge-Secret: another',
    'X-Authproxy_User: mallory',
    'X_Team: theirs',
    'Remote-User: mallory',
    'Upgrade: h2c',
    'HTTP2-Settings: x',
    'Sec-WebSocket-Key: x',
    'X-HTTP-Method-Override: DELETE',
    'Cookie: more=1',
    ' folded',
    'Transfer-Encoding: chunked',
    'Connection: close',
    'Nul: \0',
    `Long: ${'l'.repeat(4000)}`,
  ]
}

const targets: Choices = [
  '/',
  ...['/a', '/b?c=d', '/admin/', '/admin/x', '/open/1', '/a', '//admin/', '/open/../admin/'],
  ...[
    '/%61dmin/',
    '/saml/acs',
    '/__authproxy/x',
    '*',
    'a',
    'https://a.example.org/',
    '/a\\b',
    '/\x7f',
  ],
  ...[`/${'a'.repeat(3000)}`, `/${'b'.repeat(9000)}`],
]

const grit: Choices = [
  '\r\n',
  '\r',
  '\n',
  ' ',
  '\t',
  ':',
  '\0',
  '\x80',
  '\r\n\r\n',
  'GET /check HTTP/1.1\r\n',
]

/** What is told apart by chance alone. */
const plain = (text: string) =>
  text
    .replace(/\b[0-9a-f]{8}-[0-9a-z]+\b/g, 'ID')
    .replace(/nonce[-=]["']?[A-Za-z0-9+/=]{24}/g, 'nonce')
    .replace(/Connection: [^\r]*\r\n(Keep-Alive: [^\r]*\r\n)?/g, '')
    .replace(/(Date|Content-Length)(: |,)[^\r\n]*/g, '$1')

for (const edge of ['nginx', 'traefik'] as const) {
  t.test(`${edge}: with a memory and without`, t => compare(t, edge))
}

async function compare(t: Test, edge: Edge): Promise<void> {
  const noise = new Noise(`${seed} ${edge}`)
  const clock = new ManualClock(Date.parse('2026-01-01T00:00:00Z'))
  const access = [
    { path: '/open/', allow: 'anyone' },
    { path: '/admin/', allow: [{ groups: ['admins'] }] },
    { path: '/', allow: 'signed-in' },
  ]
  const forwardAuth = {
    listenAddress: '127.0.0.1:0',
    edge,
    trustedProxies: ['127.0.0.1', '127.0.0.2'],
  }
  const first: Readonly<Record<string, unknown>> = { access }
  let settings = first
  const { gateway, at, ask } = await startChecks(t, {
    edge,
    clock,
    forwardAuth,
    settings,
    reload: () =>
      gatewayConfig({
        ...{ domain, idpMetadataURL: 'https://idp.example.org/metadata', forwardAuth },
        configPath: join(gateway.directory, 'app.json'),
        proxy: { listenAddress: '127.0.0.1:0', targetURL: 'http://127.0.0.1:9' },
        ...settings,
      }),
  })
  if ('path' in at) throw new Error('not a port')
  const secretFile = join(gateway.directory, 'secret')
  await writeFile(secretFile, secret, { mode: 0o600 })
  const reloads: [typeof first, ...(typeof first)[]] = [
    { access: [{ path: '/', allow: [{ groups: ['admins'] }] }] },
    { access, identity: { names: [{ field: 'X-Team', from: 'department' }] } },
    { access, forwardAuth: { ...forwardAuth, trustedProxies: ['127.0.0.2'] } },
    { access, forwardAuth: { ...forwardAuth, trustedProxies: ['127.0.0.1', '192.0.2.9'] } },
    { access, forwardAuth: { ...forwardAuth, secretFile } },
    { access, forwardAuth: { ...forwardAuth, edge: edge === 'nginx' ? 'traefik' : 'nginx' } },
  ]
  const { target: { field = '' } = {}, method, host } = contracts[edge]
  const names = { ada: '', bob: '', admin: '' }
  const logIn = async () => {
    names.ada = await gateway.logIn({ email: ['ada@example.org'], groups: ['staff'] })
    names.bob = await gateway.logIn({ email: ['bob@example.org'] })
    names.admin = await gateway.logIn({ email: ['root@example.org'], groups: ['admins'] })
  }
  await logIn()

  const cookies = (): Choices => {
    const { ada, bob, admin } = names
    return [ada, ada, bob, admin, '', `own=1; ${ada}`, `${bob}; ${ada}`, 'own=1']
  }
  const check = (tame: boolean): string => {
    const cookie = noise.pick(cookies())
    const seldom = <T>(usual: T, ...others: [T, ...T[]]) =>
      noise.below(12) === 0 ? noise.pick(others) : usual
    const lines = [
      'Host: authproxy',
      `${method?.field}: ${seldom('GET', 'POST', 'TRACE', 'g et')}`,
      `${host?.field}: ${seldom(domain, `${domain}:443`, 'other.example.org')}`,
      `X-Forwarded-For: ${seldom('192.0.2.9', '192.0.2.10', '192.0.2.1, 127.0.0.1', 'x')}`,
    ]
    if (cookie !== '') lines.push(`Cookie: ${cookie}`)
    if (noise.below(3) === 0) lines.push(`X-Authproxy-Edge-Secret: ${secret}`)
    // Short ones, and often: what is remembered has to be met again.
    const target = noise.pick(noise.below(3) === 0 ? targets : ['/', '/a', '/admin/', '/open/1'])
    if (noise.below(20) > 0)
      lines.splice(noise.pick([0, 1, 2, lines.length]), 0, `${field}: ${target}`)
    let content = ''
    if (!tame && noise.below(3) === 0)
      lines.splice(noise.below(lines.length + 1), 0, noise.pick(strange(edge)))
    if (noise.below(12) === 0) {
      content = `\r\n${field}: /admin/x\r\n\r\n`
      lines.push(`Content-Length: ${content.length}`)
    }
    const path =
      noise.below(25) === 0 ? noise.pick(['/check?', '/check/', '/check?x', '/']) : '/check'
    const head = `${noise.pick(['GET', 'GET', 'GET', 'POST'])} ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`
    return head + content
  }

  /** Pieces of a stream: whole, cut at a few places, or a byte at a time around one place. */
  const cuts = (length: number): readonly number[] => {
    const near = noise.below(length)
    const at =
      noise.below(4) === 0
        ? Array.from({ length: 30 }, (_, i) => near + i)
        : Array.from({ length: noise.below(4) }, () => noise.below(length))
    return [...new Set(at.filter(cut => cut > 0 && cut < length))].sort((a, b) => a - b)
  }
  const send = async (client: RawClient, bytes: string, at: readonly number[]) => {
    for (const [i, cut] of [...at, bytes.length].entries()) {
      // The server may have closed what is damaged.
      await client.write(bytes.slice(i === 0 ? 0 : at[i - 1], cut)).catch(() => {})
      if (i < at.length) await turn()
    }
  }
  const connect = (localAddress: string) => RawClient.connect(t, at.port, { localAddress })
  /** What the log says of the checks since the last call; the connection a line is of is that of the two ways. */
  let told = 0
  /** Each of the `answered` checks has a line of its own, which is written after its answer was sent. */
  const log = async (answered: number) => {
    const ofAnswer = ['check', 'malformed request']
    const logged = () =>
      gateway.log.lines.slice(told).filter(({ message }) => ofAnswer.includes(message))
    while (logged().length < answered) await turn()
    for (let i = 0; i < 20; i += 1) await turn()
    const lines = gateway.log.lines.slice(told)
    told = gateway.log.lines.length
    return lines
      .map(({ message, facts: { duration: _, sent: __, ...facts } }) =>
        plain(`${message} ${JSON.stringify(facts)}`),
      )
      .sort()
  }
  const ways = [
    (bytes: string) => bytes,
    (bytes: string) => bytes.replaceAll(`${field}:`, `${field.toLowerCase()}:`),
  ]
  let kept = await Promise.all(ways.map(() => connect('127.0.0.1')))
  const counts = { allowed: 0, others: 0 }

  for (let round = 0; round < Number(rounds); round += 1) {
    // The server has accepted the connections before the clock moves, and has told of what is over.
    await log(0)
    const event = noise.below(12)
    if (event < 4) {
      // Every other one goes back to the first.
      settings = settings === first ? noise.pick(reloads) : first
      t.strictSame(await gateway.service.reload(), [], 'the reload')
    } else if (event === 4) {
      clock.advance(noise.pick([1000, 1_800_000, 90_000_000]))
    } else if (event === 5) {
      await gateway.sessions.revoke({ user: noise.pick(['ada@example.org', 'bob@example.org']) })
    } else if (event === 6) await logIn()
    // Keys are looked up at the first sight of a session, which takes turns of the loop.
    const asking = new Set(cookies())
    for (const Cookie of asking) await ask('/', { Cookie })
    await log(asking.size)

    const tame = Array.from({ length: 1 + noise.below(4) }, () => check(true))
    const pieces = cuts(tame.join('').length)
    const answers = []
    for (const [i, way] of ways.entries()) {
      const client = kept[i]
      if (client === undefined) throw new Error('a way without a connection')
      const texts: string[] = []
      const [all] = await Promise.all([
        (async () => {
          for (const _ of tame) {
            const { status, fields, text } = await client.response()
            texts.push(plain(`${status} ${[...fields].join('\n')} ${text}`))
          }
          return texts
        })().catch(error => [...texts, String(error)]),
        send(client, way(tame.join('')), pieces),
      ])
      // A connection that had no request in its time is told so, without a line.
      const answered = texts.filter(text => !text.startsWith('408'))
      answers.push({ all, log: await log(answered.length) })
    }
    if (JSON.stringify(answers[0]) !== JSON.stringify(answers[1])) {
      t.strictSame(answers[0], answers[1], `round ${round}: ${JSON.stringify(tame)}`)
    }
    for (const answer of answers[0]?.all ?? [])
      counts[answer.startsWith('200') ? 'allowed' : 'others'] += 1
    if (
      noise.below(10) === 0 ||
      answers.some(
        ({ all }) => all.length !== tame.length || all.some(one => one.startsWith('Error')),
      )
    ) {
      for (const client of kept) client.end()
      const address = noise.pick(['127.0.0.1', '127.0.0.2'])
      kept = await Promise.all(ways.map(() => connect(address)))
    }

    let wild = Array.from({ length: 1 + noise.below(4) }, () => check(false)).join('')
    if (noise.below(3) === 0) {
      const at = noise.below(wild.length)
      wild = wild.slice(0, at) + noise.pick(grit) + wild.slice(at + noise.below(3))
    }
    const parts = cuts(wild.length)
    const from = noise.pick(['127.0.0.1', '127.0.0.1', '127.0.0.2'])
    const both: string[] = []
    for (const way of ways) {
      const client = await connect(from)
      await send(client, way(wild), parts)
      both.push(plain((await client.finish()).toString('latin1')))
    }
    // How much is still answered after damage and the client's end is a matter of time; what is answered is none.
    const [shorter = '', longer = ''] = both.sort((a, b) => a.length - b.length)
    if (!longer.startsWith(shorter)) {
      t.equal(shorter, longer, `round ${round}: ${JSON.stringify(wild)} cut at ${parts}`)
    }
  }
  t.ok(counts.allowed > 0 && counts.others > 0, JSON.stringify(counts))
}
