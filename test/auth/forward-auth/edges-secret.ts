/** A listener for checks on a socket, and an edge that has to show a secret, with the lines that the files of packaging/edges name for both. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { startBehindEdge } from '../../fixtures/edges/behind-edge.ts'
import { type EdgeName, realEdges } from '../../fixtures/edges/real-edge.ts'
import { lacking } from '../../fixtures/process/command.ts'

t.setTimeout(300_000)

const secret = 'a-secret-of-the-edge-that-is-long-enough'

/** The lines of the secret, for one that is in these files. */
const withSecret: Readonly<Record<EdgeName, (text: string, file: Files) => string>> = {
  nginx: (text, { nginx }) =>
    text.replace('\n    proxy_set_header X-Authproxy-Edge-Secret "";', `\n    include ${nginx};`),
  haproxy: (text, { plain }) =>
    text.replace(
      '# setenv AUTHPROXY_SECRET_FILE /etc/haproxy/authproxy-secret',
      `setenv AUTHPROXY_SECRET_FILE ${plain}`,
    ),
  caddy: (text, { value }) =>
    text.replace(
      '# header_up X-Authproxy-Edge-Secret {$AUTHPROXY_EDGE_SECRET}',
      `header_up X-Authproxy-Edge-Secret ${value}`,
    ),
}

interface Files {
  readonly value: string
  readonly plain: string
  readonly nginx: string
}

async function filesWith(t: Test, value: string): Promise<Files> {
  const directory = await mkdtemp(join(tmpdir(), 'edge-secret-'))
  t.teardown(() => rm(directory, { recursive: true, force: true }))
  const [plain, nginx] = [join(directory, 'secret'), join(directory, 'secret.conf')]
  await writeFile(plain, `${value}\n`, { mode: 0o600 })
  await writeFile(nginx, `proxy_set_header X-Authproxy-Edge-Secret "${value}";\n`, { mode: 0o600 })
  return { value, plain, nginx }
}

for (const name of realEdges) {
  t.test(`${name}: by a socket, with the secret`, { skip: lacking(name) }, async t => {
    const files = await filesWith(t, secret)
    const { application, browser, whole } = await startBehindEdge(t, name, {
      socket: true,
      forwardAuth: { secretFile: files.plain },
      mistake: (_, text) => withSecret[name](text, files),
    })
    await browser.signIn(whole.idp)
    const { status } = await browser.send('GET', '/page', { 'X-Authproxy-Edge-Secret': 'x' })
    t.equal(status, 200)
    const fields = [...(application.requests.at(-1)?.fields ?? [])]
    t.ok(fields.some(([, value]) => value === 'alice@example.org'))
    t.notOk(
      fields.some(([field, value]) => /secret/i.test(field) || value.includes(secret)),
      'the application does not get it',
    )
  })

  for (const [what, shown] of [
    ['another secret', 'another-secret-that-is-long-enough-too'],
    ['none', undefined],
  ] as const) {
    t.test(`${name}: ${what}`, { skip: lacking(name) }, async t => {
      const own = await filesWith(t, secret)
      const others = shown === undefined ? undefined : await filesWith(t, shown)
      const { application, newBrowser } = await startBehindEdge(t, name, {
        forwardAuth: { secretFile: own.plain },
        settings: { access: [{ path: '/', allow: 'anyone' }] },
        mistake: (_, text) => (others === undefined ? text : withSecret[name](text, others)),
      })
      // A client that knows it is no edge.
      for (const claim of ['', secret]) {
        const { status } = await newBrowser().send('GET', '/page', {
          'X-Authproxy-Edge-Secret': claim,
        })
        t.ok(status >= 400, String(status))
      }
      t.strictSame(application.requests, [])
    })
  }
}
