/** A real edge: nginx as many begin with it, and nginx after every mend the doctor named. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { startPatient } from '../../fixtures/gateway/patient.ts'
import { lacking } from '../../fixtures/process/command.ts'
import { freePort } from '../../fixtures/process/ports.ts'
import { startNginx } from '../../fixtures/sso/nginx.ts'

const skip = lacking('nginx')

/** What the doctor says behind an nginx with these lines in its location. */
async function behind(
  t: Test,
  lines: string,
  serverLines = '',
  settings: Readonly<Record<string, unknown>> = {},
) {
  const port = await freePort()
  const patient = await startPatient(t, { port, settings })
  const { directory, identity, gateway } = patient
  await writeFile(join(directory, 'edge.pem'), identity.cert)
  await writeFile(join(directory, 'edge.key'), identity.key)
  const nginx = await startNginx({
    directory: join(directory, 'nginx'),
    http: `server {
      listen 127.0.0.1:${port} ssl;
      ssl_certificate ${join(directory, 'edge.pem')};
      ssl_certificate_key ${join(directory, 'edge.key')};
      ${serverLines}
      location / {
        proxy_pass http://127.0.0.1:${gateway.port};
        ${lines}
      }
    }`,
    ports: [port],
  })
  t.teardown(() => nginx.stop())
  const all = await patient.examined()
  const isEdge = (what: string) => /edge|public host/.test(what)
  return new Map(all.filter(({ what }) => isEdge(what)).map(found => [found.what, found]))
}

t.test('nginx with proxy_pass and nothing else', { skip }, async t => {
  const found = await behind(t, '')
  const state = (what: string) => found.get(what)?.state
  t.equal(state('public host'), 'right')
  t.equal(state('Host through the edge'), 'wrong')
  t.equal(state('X-Forwarded-Proto through the edge'), 'wrong')
  t.equal(state('X-Forwarded-For through the edge'), 'wrong')
  t.equal(state('WebSockets through the edge'), 'doubtful')
  t.equal(state('cookies of a login through the edge'), 'wrong')
  t.equal(state('paths through the edge'), 'right')
  t.equal(state('odd paths through the edge'), 'right')
})

t.test('nginx with $proxy_add_x_forwarded_for, as so many examples have it', { skip }, async t => {
  const found = await behind(t, 'proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;')
  t.match(found.get('X-Forwarded-For through the edge'), {
    state: 'wrong',
    found: /^192\.0\.2\.99, 127\.0\.0\.1: a client can claim any address/,
  })
})

t.test('nginx that puts pages of its own in the place of error pages', { skip }, async t => {
  const lines = 'proxy_set_header Host $http_host; proxy_intercept_errors on;'
  const page = 'location = /error.html { internal; return 200 "sorry"; }'
  const every = await behind(t, `${lines} error_page 401 403 502 /error.html;`, page)
  t.match(every.get('pages of errors through the edge'), {
    state: 'wrong',
    found: /401, 403, 502: a login begins with a page of 401, so no one can sign in/,
    mend: /proxy_intercept_errors off.*login\.status: 302/,
  })
  const some = await behind(t, `${lines} error_page 403 502 /error.html;`, page)
  t.match(some.get('pages of errors through the edge'), {
    state: 'doubtful',
    found: /403, 502: the person has no reference/,
  })
  const settings = { login: { status: 302 } }
  const led = await behind(t, `${lines} error_page 401 /error.html;`, page, settings)
  t.match(led.get('pages of errors through the edge'), {
    state: 'doubtful',
    found: /login\.status: 302 lets logins begin/,
  })
})

t.test('nginx with every mend the doctor names', { skip }, async t => {
  const found = await behind(
    t,
    `proxy_set_header Host $http_host;
     proxy_set_header X-Forwarded-Proto https;
     proxy_set_header X-Forwarded-For $remote_addr;
     proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection "upgrade";
     proxy_buffer_size 32k; proxy_buffers 8 32k; proxy_busy_buffers_size 64k;`,
    'large_client_header_buffers 4 32k;',
  )
  t.equal(found.size, 13)
  for (const { what, state, found: text } of found.values())
    t.equal(state, 'right', `${what}: ${text}`)
})
