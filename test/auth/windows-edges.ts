/**
 * NTLM through real edges: nginx and HAProxy in front of authproxy, as docs/authproxy.md ("Windows authentication") has them, and as it
 * says they must not be. No user is ever answered as another; where the edge shares its connections, users are asked again.
 */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { domain, startGateway } from '../fixtures/gateway/gateway.ts'
import { begins, ends, ticket, windowsBackend } from '../fixtures/gateway/windows-backend.ts'
import { RawClient } from '../fixtures/http/raw-client.ts'
import { lacking } from '../fixtures/process/command.ts'
import { accepts, freePort } from '../fixtures/process/ports.ts'
import { Child } from '../fixtures/sso/child.ts'
import { startNginx } from '../fixtures/sso/nginx.ts'

t.setTimeout(180_000)

/** Starts an edge in front of `to` and answers its port. */
type StartEdge = (t: Test, to: number) => Promise<number>

function nginx(upstream: string, connection: string): StartEdge {
  return async (t, to) => {
    const port = await freePort()
    const edge = await startNginx({
      directory: t.testdir(),
      ports: [port],
      http: `
        upstream authproxy { server 127.0.0.1:${to}; ${upstream} }
        server {
          listen 127.0.0.1:${port};
          location / {
            proxy_pass http://authproxy;
            proxy_http_version 1.1;
            proxy_set_header Host $http_host;
            proxy_set_header X-Forwarded-Proto https;
            proxy_set_header Connection "${connection}";
          }
        }`,
    })
    t.teardown(() => edge.stop())
    return port
  }
}

function haproxy(reuse: string): StartEdge {
  return async (t, to) => {
    const port = await freePort()
    const file = join(t.testdir(), 'haproxy.cfg')
    await writeFile(
      file,
      `
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend edge
  bind 127.0.0.1:${port}
  http-request set-header X-Forwarded-Proto https
  default_backend authproxy
backend authproxy
  http-reuse ${reuse}
  server authproxy 127.0.0.1:${to}
`,
    )
    const ready = () => accepts(port)
    const edge = await Child.start({ program: 'haproxy', args: ['-db', '-f', file], ready })
    t.teardown(() => edge.stop())
    return port
  }
}

/** What comes of eight users at once, five connections each, who shake hands and then ask four times without credentials. */
async function users(t: Test, startEdge: StartEdge) {
  const backend = await windowsBackend(t)
  const gateway = await startGateway(t, { target: backend.target })
  const port = await startEdge(t, gateway.port)
  const counts = { shaken: 0, asWanted: 0, askedAgain: 0, tickets: 0, others: 0 }
  await Promise.all(
    Array.from({ length: 8 }, async (_, i) => {
      const user = `user${i}`
      const right = `backend says ${user}`
      const fields = {
        Host: domain,
        Cookie: await gateway.logIn({ email: [`${user}@example.org`] }),
        Who: user,
      }
      for (let round = 0; round < 5; round += 1) {
        const client = await RawClient.connect(t, port)
        await client.get('/', fields)
        const challenge = await client.get('/', { ...fields, ...begins() })
        const { text } = await client.get('/', { ...fields, ...ends(user, challenge) })
        if (text === right) counts.shaken += 1
        for (let more = 0; more < 4; more += 1) {
          const answer = await client.get('/', fields)
          if (answer.text === right) counts.asWanted += 1
          else if (answer.status === 401) counts.askedAgain += 1
          else counts.others += 1
        }
        const own = await client.get('/', { ...fields, ...ticket(user) })
        if (own.text === right) counts.tickets += 1
        client.end()
      }
    }),
  )
  return { ...counts, mistaken: backend.mistaken() }
}

const asThemselves = { shaken: 40, asWanted: 160, tickets: 40 }
/** What the manual says of nginx: a ticket takes one request, and handshakes lead to the next question. */
const askedAgain = { shaken: 0, askedAgain: 160, tickets: 40 }
/** A request can meet its own connection by chance. */
const byChance = { tickets: 40 }

for (const [name, program, startEdge, expected] of [
  ['HAProxy, http-reuse never', 'haproxy', haproxy('never'), asThemselves],
  ['HAProxy, http-reuse safe', 'haproxy', haproxy('safe'), asThemselves],
  ['HAProxy, http-reuse always', 'haproxy', haproxy('always'), asThemselves],
  ['nginx, a connection for each request', 'nginx', nginx('', 'close'), askedAgain],
  ['nginx, keepalive', 'nginx', nginx('keepalive 16;', ''), byChance],
] as const) {
  t.test(name, { skip: lacking(program) }, async t => {
    const counts = await users(t, startEdge)
    t.match(counts, { ...expected, others: 0, mistaken: 0 })
    t.equal(counts.asWanted + counts.askedAgain, 160)
  })
}
